"""The simulated cluster: real cores, objects in memory, time that moves when told to."""

import math
import re
from typing import Any

import pytest
from msgspec.structs import replace

from stromboli.api.batch import Job
from stromboli.api.core import Pod
from stromboli.api.kinds import VC_JOB
from stromboli.api.wellknown import RUN_SECONDS
from stromboli.api.wire import read_object
from stromboli.scheduling.conf_file import read_conf
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.errors import NeverSettles, RefusedObject
from stromboli.testkit.scheduling_objects import (
    gang,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
)

PREEMPT = read_conf("""
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
""")


def job(name: str, replicas: int, *, least: int | None = None, **metadata: Any) -> Job:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": metadata, "spec": {"containers": [container]}}
    return read_object(
        VC_JOB,
        {
            "apiVersion": VC_JOB.api_version,
            "kind": VC_JOB.kind,
            "metadata": {"name": name},
            "spec": {
                "minAvailable": replicas if least is None else least,
                "tasks": [{"name": "main", "replicas": replicas, "template": template}],
            },
        },
    )


def phase_of(cluster: Cluster, name: str) -> str:
    return cluster.get("vcjob", "default", name).status.state.phase


def test_a_job_is_expanded_placed_and_runs_as_in_life():
    cluster = Cluster()
    cluster.put(node("n1"))
    cluster.put(job("hello", 3))

    cluster.settle()

    assert cluster.binds == {("default", f"hello-main-{number}"): "n1" for number in range(3)}
    assert phase_of(cluster, "hello") == "Running"


def test_a_pod_runs_for_as_long_as_its_annotation_says_and_then_the_job_is_done():
    cluster = Cluster()
    cluster.put(node("n1"))
    cluster.put(job("short", 2, annotations={RUN_SECONDS: "60"}))
    cluster.settle()
    begun = cluster.now

    assert cluster.next_end == begun + 60
    cluster.advance_to(begun + 59)
    assert phase_of(cluster, "short") == "Running"
    cluster.advance_to(begun + 60)
    assert phase_of(cluster, "short") == "Completed"


def test_what_ends_makes_room_for_what_waits():
    cluster = Cluster()
    cluster.put(node("n1", cpu="2"))
    cluster.put(job("first", 2, annotations={RUN_SECONDS: "60"}))
    cluster.settle()
    cluster.put(job("second", 2))
    cluster.settle()

    assert phase_of(cluster, "second") == "Pending"
    cluster.advance_to(cluster.now + 60)
    assert phase_of(cluster, "second") == "Running"


def test_nothing_is_due_in_a_cluster_where_all_run_for_ever():
    cluster = Cluster(runs_for=lambda _: None)
    cluster.put(node("n1"))
    cluster.settle()

    assert cluster.next_end == math.inf


def test_an_evicted_pod_ends_and_whoever_it_went_for_takes_its_place():
    cluster = Cluster(PREEMPT)
    cluster.put(priority_class("high", 1000))
    cluster.put(node("n1", cpu="2"))
    for item in gang("low", 2, min_member=1, on="n1", phase="Running"):
        cluster.put(item)
    cluster.settle()
    for item in gang("urgent", 1, group={"priority_class_name": "high"}):
        cluster.put(item)

    cluster.settle()

    assert len(cluster.evictions) == 1
    assert cluster.binds == {("test", "urgent-main-0"): "n1"}


@pytest.mark.parametrize(
    ("policy", "evicted"), [("Never", 0), ("PreemptLowerPriority", 1), (None, 1)]
)
def test_a_pod_drives_nobody_away_if_its_class_says_never(policy: str | None, evicted: int):
    cluster = Cluster(PREEMPT)
    cluster.put(replace(priority_class("high", 1000), preemption_policy=policy))
    cluster.put(node("n1", cpu="2"))
    for item in gang("low", 2, min_member=1, on="n1", phase="Running"):
        cluster.put(item)
    cluster.settle()
    cluster.put(pod_group("urgent", min_member=1, priority_class_name="high"))
    cluster.put(pod("urgent-0", group="urgent", priority_class_name="high"))

    cluster.settle()

    assert len(cluster.evictions) == evicted
    assert cluster.get("pod", "test", "urgent-0").spec.priority == 1000


def test_a_pod_without_a_class_has_the_policy_of_the_default_class():
    cluster = Cluster()
    meek = priority_class("meek", 5)
    cluster.put(replace(meek, global_default=True, preemption_policy="Never"))
    cluster.put(pod("alone"))
    cluster.put(pod("bold", preemption_policy="PreemptLowerPriority"))

    specs = [cluster.get("pod", "test", name).spec for name in ("alone", "bold")]

    assert [(spec.priority, spec.preemption_policy) for spec in specs] == [
        (5, "Never"),
        (5, "PreemptLowerPriority"),
    ]


def test_a_lone_pod_gets_its_group_and_is_placed():
    cluster = Cluster()
    cluster.put(node("n1"))
    cluster.put(pod("alone", scheduler=""))

    cluster.settle()

    assert cluster.binds == {("test", "alone"): "n1"}
    assert [key for key in cluster.objects if key[0] == "vcpodgroup"]


def test_a_pod_of_another_scheduler_only_takes_room():
    cluster = Cluster()
    cluster.put(node("n1", cpu="1"))
    cluster.put(pod("theirs", scheduler="other", on="n1", phase="Running"))
    cluster.put(pod("theirs-too", scheduler="other"))
    cluster.put(job("ours", 1))

    cluster.settle()

    assert cluster.binds == {}


def test_a_pod_with_a_node_and_no_phase_runs_there():
    cluster = Cluster()
    cluster.put(node("n1"))
    cluster.put(pod("set", on="n1", phase=""))

    found: Pod = cluster.get("pod", "test", "set")
    assert found.status.phase == "Running"


def test_what_admission_refuses_is_refused_with_its_words():
    cluster = Cluster()

    with pytest.raises(RefusedObject, match=r"default/bad is refused: .*minAvailable"):
        cluster.put(job("bad", 1, least=2))


def test_what_has_a_status_was_admitted_before_and_is_not_judged_again():
    cluster = Cluster()
    cluster.put(queue("shut", state="Closed"))

    for item in gang("old", 1, group={"in_queue": "shut", "phase": "Inqueue"}):
        cluster.put(item)

    assert cluster.get("vcpodgroup", "test", "old").spec.queue == "shut"


def test_the_queues_that_every_cluster_has_may_be_given_anew():
    cluster = Cluster()
    cluster.put(queue("default", weight=7))

    assert cluster.get("queue", "", "default").spec.weight == 7
    assert cluster.get("queue", "", "root").status.state == "Open"


def test_a_pod_that_comes_again_under_its_name_is_another_one():
    cluster = Cluster()
    cluster.put(node("n1"))
    cluster.put(job("again", 1))
    cluster.settle()
    before = cluster.get("pod", "default", "again-main-0").metadata.uid

    cluster.delete("pod", "default", "again-main-0")
    cluster.settle()

    assert cluster.get("pod", "default", "again-main-0").metadata.uid != before


def test_a_jobs_made_up_uid_is_short_its_own_and_always_the_same():
    def uid(name: str, *, again: bool = False) -> str:
        cluster = Cluster()
        cluster.put(job(name, 1))
        if again:
            cluster.delete("vcjob", "default", name)
            cluster.put(job(name, 1))
        return cluster.get("vcjob", "default", name).metadata.uid

    uids = {uid("a"), uid("a"), uid("b"), uid("a", again=True)}

    assert len(uids) == 3
    assert all(re.fullmatch("0[0-9a-f]{7}", each) for each in uids)


def test_with_a_job_goes_all_that_was_made_for_it():
    cluster = Cluster()
    cluster.put(node("n1"))
    cluster.put(job("gone", 2))
    cluster.settle()

    cluster.delete("vcjob", "default", "gone")
    cluster.settle()

    kinds = {kind for kind, _, _ in cluster.objects}
    assert kinds == {"node", "queue"}


def test_watchers_are_told_of_every_change_and_when():
    cluster = Cluster()
    seen: list[tuple[float, str]] = []
    cluster.watchers.append(lambda now, kind, before, after: seen.append((now, kind)))

    cluster.put(node("n1"))

    assert seen == [(cluster.now, "node")]


def test_jobs_that_take_each_others_place_for_ever_are_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("stromboli.simulating.cluster._MOST_SESSIONS", 200)
    cluster = Cluster(PREEMPT)
    cluster.put(node("n1", cpu="1"))
    cluster.put(priority_class("high", 1000))
    cluster.put(job("steady", 1))
    cluster.settle()

    def come_back(_now: float, kind: str, before: Any, after: Any) -> None:
        """An operator that starts an urgent pod anew whenever there is none."""
        if kind == "pod" and after is None and before.metadata.name == "urgent":
            cluster.put(urgent())

    def urgent() -> Pod:
        return pod("urgent", cpu="1", memory="", priority_class_name="high", group="urgent")

    def send_away(_now: float, kind: str, _before: Any, after: Any) -> None:
        """And one that never lets it run."""
        if kind != "pod" or after is None or after.metadata.name != "urgent":
            return
        if after.status.phase == "Running" and not after.metadata.deletion_timestamp:
            cluster.delete("pod", "test", "urgent")

    cluster.watchers.extend([come_back, send_away])
    for item in gang("urgent", 0, min_member=1, group={"priority_class_name": "high"}):
        cluster.put(item)
    cluster.put(urgent())

    with pytest.raises(NeverSettles):
        cluster.settle()
