"""What a job could give up for a whole gang; reference case K1 is in tests/conformance."""

from typing import Any

from stromboli.api.scheduling import SubGroupPolicy
from stromboli.scheduling.actions.bundles import bundles_of
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.pods import Task, read_task
from stromboli.testkit.scheduling_objects import pod, pod_group

OURS = frozenset({"volcano"})


def contender_of(tasks: list[Task], **group: Any) -> Contender:
    job = Job(("test", "g"))
    job.read(pod_group("g", **group), "1")
    for task in tasks:
        job.put(task)
    return Contender(job=job, queue="q", phase="Running", waiting=[], best_effort=[])


def worker(name: str, *, priority: int = 0, labels: dict[str, str] | None = None) -> Task:
    made = pod(name, group="g", role="worker", on="n", phase="Running", priority=priority)
    made.metadata.labels.update(labels or {})
    return read_task(made, OURS)


def test_further_pods_of_a_broken_sub_group_are_free():
    tasks = [
        worker(f"t{part}{number}", labels={"part": str(part)})
        for part in range(2)
        for number in range(2)
    ]
    policy = SubGroupPolicy(
        name="p", sub_group_size=2, min_sub_groups=1, match_label_keys=("part",)
    )
    contender = contender_of(tasks, min_member=2, sub_group_policy=(policy,))

    safe, whole = bundles_of(contender, tasks, whole=True)
    assert {task.labels["part"] for task in safe.tasks} == {"0"}
    assert len(safe.tasks) == len(whole.tasks) == 2


def test_pods_of_a_sub_group_that_was_broken_before_are_free():
    """They are of no use to anybody, and the whole ones are all needed."""
    tasks = [
        worker(f"t{part}{number}", labels={"part": str(part)})
        for part in range(2)
        for number in range(2)
    ]
    policy = SubGroupPolicy(
        name="p", sub_group_size=2, min_sub_groups=1, match_label_keys=("part",)
    )
    contender = contender_of(tasks, min_member=2, sub_group_policy=(policy,))
    contender.note_evicted(tasks[2], sign=1)

    safe, whole = bundles_of(contender, [*tasks[:2], tasks[3]], whole=True)
    assert safe.tasks == (tasks[3],)
    assert whole.tasks == tuple(tasks[:2])


def test_a_gang_below_its_minimum_can_spare_everything():
    tasks = [worker("t1"), worker("t2")]

    (only,) = bundles_of(contender_of(tasks, min_member=3), tasks, whole=True)
    assert only.is_safe
