"""Sentences that people search for: events and conditions read as Volcano's do."""

from typing import Any

import pytest

from stromboli.api.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from stromboli.api.meta import ObjectMeta
from stromboli.scheduling.conf_file import read_conf
from stromboli.testkit.scheduling_objects import gang, node, pod_group, priority_class, queue
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import add, change, cluster, group, message

PREEMPT = read_conf("""
actions: enqueue, allocate, backfill, preempt
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")


def told(simulation: Simulation, kind: str, reason: str) -> list[tuple[str, str]]:
    """Type and message of the events of this reason about objects of this kind."""
    return [
        (event["type"], event["message"])
        for event in simulation.events
        if (event["involvedObject"]["kind"], event["reason"]) == (kind, reason)
    ]


def test_who_has_a_node_is_told_of():
    simulation = cluster(node("n1"), gang("a", 1))

    assert told(simulation, "Pod", "Scheduled") == [
        ("Normal", "Successfully assigned test/a-main-0 to n1")
    ]
    change(simulation, "a-main-0", phase="Running")
    assert told(simulation, "PodGroup", "Scheduled") == [("Normal", "pod group is ready")]
    (condition,) = group(simulation, "a").status.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "Scheduled",
        "True",
        "tasks in gang are ready to be scheduled",
    )


def test_who_has_none_is_told_of_with_what_the_nodes_lack():
    simulation = cluster(node("n1", cpu="2"), node("n2", cpu="1", pods="0"), gang("a", 4))
    simulation.advance(2)
    words = (
        "2/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; "
        "Pending: 2 Schedulable, 2 Unschedulable. Origin reason is a-main-2: "
        "0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) pod number exceeded. "
    )

    assert message(simulation, "a").startswith(words)
    ((type_, said),) = told(simulation, "PodGroup", "Unschedulable")
    assert type_ == "Warning"
    assert said.startswith(words)
    lacking = "0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) pod number exceeded."
    assert told(simulation, "Pod", "FailedScheduling") == [("Warning", lacking)]


def test_each_pod_knows_its_own_lack_or_that_of_its_gang():
    simulation = cluster(node("n1", cpu="2"), gang("a", 4))
    simulation.advance(2)

    def said(name: str) -> tuple[str, str, str]:
        (condition,) = simulation.get("pod", "test", name).status.conditions
        return condition.status, condition.reason, condition.message

    assert said("a-main-0") == (
        "False",
        "Schedulable",
        "Pod test/a-main-0 can possibly be assigned to n1, once minAvailable is satisfied",
    )
    lacking = "0/1 nodes are unavailable: 1 Insufficient cpu."
    assert said("a-main-2") == ("False", "Unschedulable", lacking)
    assert said("a-main-3") == (
        "False",
        "Unschedulable",
        (
            "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 2 Schedulable, "
            f"2 Unschedulable. Origin reason is a-main-2: {lacking}"
        ),
    )


def preempted(**options: Any) -> Simulation:
    simulation = cluster(
        node("n1", cpu="2"),
        priority_class("high", 100),
        gang("low", 2, min_member=1),
        conf=PREEMPT,
        **options,
    )
    for number in range(2):
        change(simulation, f"low-main-{number}", phase="Running")
    add(simulation, gang("high", 1, group={"priority_class_name": "high"}))
    return simulation


def test_who_must_go_is_told_of_on_the_pod_and_on_its_group():
    simulation = preempted(lingering=True)

    assert told(simulation, "Pod", "Evict") == [("Warning", "Pod is evicted, because of preempt")]
    assert told(simulation, "PodGroup", "Evict") == [("Normal", "low-main-1: preempt")]


def test_who_was_asked_to_go_and_stays_was_not_evicted():
    simulation = preempted(may_evict=lambda _: False)
    simulation.advance(60)

    assert told(simulation, "Pod", "Evict") == []
    assert told(simulation, "PodGroup", "Evict") == []


QUOTA = ResourceQuota(
    metadata=ObjectMeta(name="quota", namespace="test"),
    spec=ResourceQuotaSpec(hard={"requests.cpu": "1"}),
    status=ResourceQuotaStatus(hard={"requests.cpu": "1"}, used={"requests.cpu": "0"}),
)


@pytest.mark.parametrize(
    ("plugin", "needs", "words"),
    [
        (
            "capacity",
            {"cpu": "3", "memory": "3Gi"},
            "queue resource quota insufficient: insufficient cpu, insufficient memory",
        ),
        (
            "proportion",
            {"cpu": "3", "memory": "3Gi"},
            "queue resource quota insufficient: insufficient cpu, insufficient memory",
        ),
        ("overcommit", {"cpu": "9"}, "resource in cluster is overused: overused cpu"),
        ("resourcequota", {"cpu": "2"}, "resource quota insufficient, requested:"),
    ],
)
def test_a_job_that_is_not_admitted_is_told_in_the_plugins_words(
    plugin: str, needs: dict[str, str], words: str
):
    conf = read_conf(f"""
actions: enqueue, allocate
tiers:
- plugins: [{{name: gang}}, {{name: {plugin}}}, {{name: predicates}}]
""")
    simulation = cluster(
        QUOTA,
        queue("small", capability={"cpu": "2", "memory": "2Gi"}),
        node("n1", cpu="4", memory="4Gi"),
        pod_group("a", min_member=1, in_queue="small", min_resources=needs),
        conf=conf,
    )
    simulation.advance(2)
    core = simulation.core

    assert group(simulation, "a").status.phase == "Pending"
    assert words in core.explanations["test", "a"].origin + message(simulation, "a")
    ((type_, said),) = told(simulation, "PodGroup", "Unschedulable")
    assert type_ == "Normal"
    assert words in said
