"""Which nodes and which room the core uses, and whom it lets in."""

from typing import Any

import pytest
from msgspec.structs import replace

from stromboli.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSchedulingGate,
    Taint,
    Toleration,
)
from stromboli.api.meta import Condition, ObjectMeta
from stromboli.api.selectors import Requirement
from stromboli.scheduling.explain import Code
from stromboli.testkit.scheduling_objects import (
    PLAIN,
    gang,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
)
from stromboli.testkit.small_clusters import (
    add,
    bound,
    cluster,
    code,
    group,
    message,
)

# Nodes.


def test_pods_of_others_take_room_and_are_left_alone():
    simulation = cluster(
        node("n1", cpu="2"),
        pod("daemon", on="n1", phase="Running", scheduler="default-scheduler"),
        pod("theirs", scheduler="default-scheduler", group="a"),
        pod("no-group"),
        gang("a", 2),
    )

    assert bound(simulation) == {}
    assert simulation.get("pod", "test", "theirs").spec.node_name == ""


def test_a_gated_pod_waits_for_its_gate():
    gated = pod("a-main-0", group="a", scheduling_gates=(PodSchedulingGate(name="wait"),))
    simulation = cluster(node("n1"), pod_group("a", min_member=1), gated)
    assert bound(simulation) == {}

    simulation.put(replace(gated, spec=replace(gated.spec, scheduling_gates=())))
    simulation.run()
    assert bound(simulation) == {"a-main-0": "n1"}


def required(key: str, value: str) -> Affinity:
    term = NodeSelectorTerm(
        match_expressions=(Requirement(key=key, operator="In", values=(value,)),)
    )
    selector = NodeSelector(node_selector_terms=(term,))
    return Affinity(
        node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=selector)
    )


REPELLENT = Taint(key="dedicated", value="x", effect="NoSchedule")


@pytest.mark.parametrize(
    ("refused", "wish", "reason"),
    [
        (
            node("n1"),
            {"node_selector": {"zone": "a"}},
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            node("n1"),
            {"affinity": required("zone", "a")},
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (node("n1", taints=(REPELLENT,)), {}, "node(s) had untolerated taint(s)"),
        (node("n1", unschedulable=True), {}, "node(s) were unschedulable"),
    ],
)
def test_a_node_that_is_not_suitable_is_not_used_and_the_reason_is_told(
    refused: Any, wish: dict[str, Any], reason: str
):
    simulation = cluster(refused, gang("a", 1, **wish))
    assert bound(simulation) == {}
    assert code(simulation, "a") is Code.NODE_FILTER
    assert f"0/1 nodes are unavailable: 1 {reason}" in message(simulation, "a")

    labels = {"zone": "a"}
    simulation.put(
        replace(node("n1", labels=labels), metadata=ObjectMeta(name="n1", labels=labels))
    )
    simulation.run()
    assert bound(simulation) == {"a-main-0": "n1"}


def test_a_node_that_is_not_ready_is_not_used():
    ready = node("n1")
    condition = Condition(type="Ready", status="Unknown")
    status = replace(ready.status, conditions=(condition,))
    simulation = cluster(replace(ready, status=status), gang("a", 1))
    assert bound(simulation) == {}

    add(simulation, ready)
    assert bound(simulation) == {"a-main-0": "n1"}


def test_a_taint_is_tolerated_by_those_who_say_so():
    toleration = Toleration(key="dedicated", operator="Exists")
    simulation = cluster(node("n1", taints=(REPELLENT,)), gang("a", 1, tolerations=(toleration,)))

    assert bound(simulation) == {"a-main-0": "n1"}


def test_a_node_holds_only_as_many_pods_as_it_says():
    simulation = cluster(node("n1", pods="2"), gang("a", 3, min_member=1, cpu="100m"))

    assert len(bound(simulation)) == 2


def test_pods_that_ask_for_nothing_are_spread_by_number():
    simulation = cluster(node("n1"), node("n2"), gang("a", 4, cpu="", memory=""))

    assert sorted(bound(simulation).values()) == ["n1", "n1", "n2", "n2"]


def test_a_gang_that_asks_for_nothing_is_whole_or_absent_too():
    simulation = cluster(node("n1", pods="3"), gang("a", 4, cpu="", memory=""))

    assert bound(simulation) == {}


def test_a_node_that_returns_still_carries_what_stood_on_it():
    simulation = cluster(node("n1", cpu="2"), gang("a", 2))
    simulation.delete("node", "", "n1")
    add(simulation, node("n1", cpu="2"), gang("b", 1))

    assert "b-main-0" not in bound(simulation)


# Ending pods.


def test_a_job_that_waits_for_ending_pods_keeps_its_place():
    """What is free now is held for it: a smaller job behind it does not slip in."""
    simulation = cluster(
        node("n1", cpu="4"),
        priority_class("high", 10),
        pod("old", on="n1", phase="Running", cpu="3", ending=True, scheduler="other"),
        gang("large", 4, group={"priority_class_name": "high"}),
    )
    assert code(simulation, "large") is Code.WAITING_FOR_RELEASE
    add(simulation, gang("small", 1))
    assert bound(simulation) == {}

    simulation.delete("pod", "test", "old")
    simulation.run()
    assert len([name for name in bound(simulation) if name.startswith("large")]) == 4


# Admission.


def test_a_job_that_the_cluster_could_not_hold_is_not_admitted():
    needs = {"cpu": "6", "pods": "3", "requests.cpu": "6", "count/pods": "3"}
    simulation = cluster(node("n1", cpu="4"), pod_group("a", min_member=3, min_resources=needs))

    assert group(simulation, "a").status.phase == "Pending"
    assert "ExceedsMax: it needs at least 6 cpu, the whole cluster lacks 2 cpu" in message(
        simulation, "a"
    )
    add(simulation, node("n2", cpu="4"))
    assert group(simulation, "a").status.phase == "Inqueue"


def test_what_admitted_jobs_still_wait_for_is_spoken_for():
    needs = {"cpu": "4"}
    simulation = cluster(node("n1", cpu="4"), pod_group("a", min_member=4, min_resources=needs))
    add(simulation, pod_group("b", min_member=4, min_resources=needs))
    assert group(simulation, "b").status.phase == "Pending"
    assert "resource in cluster is overused: overused cpu" in message(simulation, "b")

    simulation.delete("vcpodgroup", "test", "a")
    simulation.run()
    assert group(simulation, "b").status.phase == "Inqueue"


@pytest.mark.parametrize("state", ["Closed", "Closing", None])
def test_a_job_waits_for_its_queue_to_be_there_and_open(state: str | None):
    simulation = cluster(node("n1"))
    if state:
        add(simulation, queue("mine", state=state))
    add(simulation, gang("a", 1, group={"in_queue": "mine"}))
    assert bound(simulation) == {}
    assert "Misconfigured: its queue 'mine'" in message(simulation, "a")

    add(simulation, queue("mine"))
    assert bound(simulation) == {"a-main-0": "n1"}


# Only some of the nodes.


def test_with_a_node_selector_only_nodes_with_one_of_its_labels_are_used():
    conf = replace(PLAIN, node_selector=(("role", "train"), ("role", "serve")))
    simulation = cluster(
        node("a", cpu="1"),
        node("b", cpu="1", labels={"role": "train"}),
        node("c", cpu="1", labels={"role": "serve"}),
        node("d", cpu="1", labels={"role": "other"}),
        gang("job", 3, min_member=1),
        conf=conf,
    )
    assert sorted(bound(simulation).values()) == ["b", "c"]

    add(simulation, node("d", cpu="1", labels={"role": "train"}))
    assert sorted(bound(simulation).values()) == ["b", "c", "d"]


def test_a_node_that_loses_the_label_takes_no_more_pods_and_counts_again_when_it_is_back():
    conf = replace(PLAIN, node_selector=(("role", "train"),))
    simulation = cluster(node("a", cpu="2", labels={"role": "train"}), gang("one", 1), conf=conf)
    add(simulation, node("a", cpu="2"), gang("two", 2, min_member=1))
    assert bound(simulation) == {"one-main-0": "a"}
    assert code(simulation, "two") is Code.NODE_FILTER

    add(simulation, node("a", cpu="2", labels={"role": "train"}))
    assert sorted(bound(simulation)) == ["one-main-0", "two-main-0"]
