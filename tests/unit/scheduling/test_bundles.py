"""What a job could give up for a whole gang (reference case K1)."""

from typing import Any

from stromboli.api.scheduling import SubGroupPolicy
from stromboli.scheduling.actions.bundles import Bundle, bundles_of, filtered
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


def names(bundle: Bundle) -> list[str]:
    return [task.name for task in bundle.tasks]


def test_what_is_beyond_the_minimum_goes_first_the_least_important_pods():
    tasks = [worker(f"t{number}", priority=number) for number in (3, 1, 2, 5, 4)]
    contender = contender_of(tasks, min_member=3, min_task_member={"worker": 3})

    safe, whole = bundles_of(contender, tasks, whole=True)
    assert (safe.is_safe, names(safe)) == (True, ["t1", "t2"])
    assert (whole.is_safe, names(whole)) == (False, ["t3", "t4", "t5"])


def test_a_sub_group_that_is_not_needed_can_be_broken():
    tasks = [
        worker(f"t{part}{number}", labels={"part": str(part)})
        for part in range(3)
        for number in range(2)
    ]
    policy = SubGroupPolicy(
        name="p", sub_group_size=2, min_sub_groups=2, match_label_keys=("part",)
    )
    contender = contender_of(tasks, min_member=4, sub_group_policy=(policy,))
    local = [tasks[0], tasks[2], tasks[4]]

    safe, whole = bundles_of(contender, local, whole=True)
    assert len(safe.tasks) == 1
    assert len(whole.tasks) == 2


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


def test_a_gang_below_its_minimum_can_spare_everything():
    tasks = [worker("t1"), worker("t2")]

    (only,) = bundles_of(contender_of(tasks, min_member=3), tasks, whole=True)
    assert only.is_safe


def test_a_whole_bundle_that_loses_somebody_is_dropped_and_a_safe_one_shrinks():
    tasks = [worker(f"t{number}") for number in range(1, 4)]
    contender = contender_of(tasks, min_member=1)
    safe, whole = bundles_of(contender, tasks, whole=True)

    (left,) = filtered([safe, whole], [tasks[0]])
    assert names(left) == ["t1"]


def test_what_gives_as_much_for_less_is_worth_more():
    contender = contender_of([], min_member=0)
    need = (("cpu", 2000),)
    tasks = (worker("t1"), worker("t2"))
    cheap = Bundle(contender, tasks, is_safe=False, lost=(("cpu", 2000),))
    dear = Bundle(contender, tasks, is_safe=False, lost=(("cpu", 4000),))

    assert cheap.worth(need) > dear.worth(need)
