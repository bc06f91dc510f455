"""Objects that can't be reckoned with are set aside with a reason; all others go on."""

from typing import Any

import pytest
from msgspec.structs import replace

from stromboli.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
)
from stromboli.api.meta import KubeObject
from stromboli.api.projections import encode_projection
from stromboli.api.selectors import LabelSelector, Requirement
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code
from stromboli.scheduling.fact_reading import FactReader, UnfitPod
from stromboli.testkit.scheduling_objects import gang, node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import add, bound, cluster, core_of, message

GOOD: list[KubeObject] = [queue(), node("n1"), *gang("good", 2)]


def simulated(*bad: KubeObject) -> tuple[Simulation, SchedulerCore]:
    core = SchedulerCore()
    simulation = Simulation(core)
    for item in [*bad, *GOOD]:
        simulation.put(item)
    simulation.run()
    simulation.advance(2)
    return simulation, core


def good_runs(simulation: Simulation) -> bool:
    return sorted(name for _, name in simulation.binds) == ["good-main-0", "good-main-1"]


@pytest.mark.parametrize(
    ("bad", "place", "said"),
    [
        (node("n2", cpu="-1"), ("node", "", "n2"), "cpu is '-1', expected 0 or more"),
        (node("n2", memory="1Zi"), ("node", "", "n2"), "memory"),
        (node("n2", cpu="1000E"), ("node", "", "n2"), "cpu is '1000E', expected at most 9T"),
        (node("n2", memory="9Pi"), ("node", "", "n2"), "memory is '9Pi', expected at most 8Pi"),
        (node("n2", pods="9E"), ("node", "", "n2"), "pods is '9E', expected at most 9P"),
        (pod("p", group="good", cpu="-2"), ("pod", "test", "p"), "cpu is '-2'"),
        (pod("p", group="good", cpu="lots"), ("pod", "test", "p"), "cpu"),
    ],
)
def test_amounts_that_make_no_sense_are_set_aside(
    bad: KubeObject, place: tuple[str, str, str], said: str
):
    simulation, core = simulated(bad)

    assert good_runs(simulation)
    assert said in core.cluster.aside.why[place]
    simulation.put(bad)
    simulation.run()
    (event,) = [event for event in simulation.events if event["reason"] == "SetAside"]
    assert event["involvedObject"]["name"] == place[2]
    assert said in event["message"]
    assert event["type"] == "Warning"


def test_it_is_taken_up_again_when_it_is_mended():
    simulation, core = simulated(node("n2", cpu="-1"))
    simulation.put(node("n2"))
    simulation.run()

    assert core.cluster.aside.why == {}
    assert "n2" in core.cluster.nodes


def test_a_pod_group_with_bad_amounts_waits_and_says_so():
    bad = pod_group("bad", min_member=1, min_resources={"cpu": "-1"})
    simulation, core = simulated(bad, pod("bad-main-0", group="bad"))

    assert good_runs(simulation)
    assert core.explanations["test", "bad"].code is Code.MISCONFIGURED


def test_a_negative_minimum_is_nothing_to_reckon_with():
    bad = pod_group("bad", min_member=-1)
    simulation, core = simulated(bad, pod("bad-main-0", group="bad"))

    assert good_runs(simulation)
    why = core.explanations["test", "bad"]
    assert why.code is Code.MISCONFIGURED
    assert why.sentence == "podgroup test/bad is set aside: minMember is -1, expected 0 or more"
    assert why.sentence in message(simulation, "bad")


def test_a_gang_says_which_of_its_pods_were_set_aside_until_they_are_mended():
    group = pod_group("bad", min_member=2)
    broken = [pod(f"bad-main-{number}", group="bad", cpu="-1") for number in (1, 2)]
    simulation, core = simulated(group, pod("bad-main-0", group="bad"), *broken)

    assert good_runs(simulation)
    why = core.explanations["test", "bad"]
    assert why.code is Code.GANG_INCOMPLETE
    assert why.sentence == (
        "1 of at least 2 pods exist and can still run; 2 of its pods were set aside "
        "(bad-main-1: cpu is '-1', expected 0 or more; …)"
    )
    add(simulation, pod("bad-main-1", group="bad"))
    simulation.delete("pod", "test", "bad-main-2")
    simulation.run()
    assert "bad-main-1" in bound(simulation)
    assert core.cluster.jobs["test", "bad"].unfit == {}


def test_a_complete_gang_tells_of_pods_that_were_set_aside_too():
    group = pod_group("bad", min_member=0)
    _, core = simulated(group, pod("bad-main-0", group="bad", cpu="-1"))

    assert core.reasons()["test", "bad"].sentence == (
        "1 of its pods was set aside (bad-main-0: cpu is '-1', expected 0 or more)"
    )


def with_operator(operator: str, of: str) -> dict[str, Any]:
    wrong = (Requirement(key="zone", operator=operator, values=("a",)),)
    term = PodAffinityTerm(
        topology_key="zone", label_selector=LabelSelector(match_expressions=wrong)
    )
    between = PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    on_node = NodeSelectorTerm(match_expressions=wrong)
    liked = (PreferredSchedulingTerm(weight=1, preference=on_node),)
    match of:
        case "node affinity":
            selector = NodeSelector(node_selector_terms=(on_node,))
            nodes = NodeAffinity(required_during_scheduling_ignored_during_execution=selector)
            return {"affinity": Affinity(node_affinity=nodes)}
        case "preferred node affinity":
            nodes = NodeAffinity(preferred_during_scheduling_ignored_during_execution=liked)
            return {"affinity": Affinity(node_affinity=nodes)}
        case "pod affinity":
            return {"affinity": Affinity(pod_affinity=between)}
        case "pod anti-affinity":
            return {"affinity": Affinity(pod_anti_affinity=between)}
        case _:
            spread = TopologySpreadConstraint(
                topology_key="zone", max_skew=1, label_selector=term.label_selector
            )
            return {"topology_spread_constraints": (spread,)}


@pytest.mark.parametrize(
    ("of", "operator"),
    [
        ("node affinity", "Inn"),
        ("preferred node affinity", "Inn"),
        ("pod affinity", "Inn"),
        ("pod anti-affinity", "Gt"),
        ("topology spread", ""),
    ],
)
def test_an_operator_that_does_not_exist_sets_its_pod_aside(of: str, operator: str):
    """By whichever way it comes: as an object, or packed from the bus."""
    bad = pod("bad-main-0", group="bad", **with_operator(operator, of))
    simulation, core = simulated(pod_group("bad", min_member=1), bad)

    assert good_runs(simulation)
    said = f"{of.removeprefix('preferred ')} has the operator {operator!r}, expected one of In, "
    assert said in core.cluster.aside.why["pod", "test", "bad-main-0"]
    assert said in core.explanations["test", "bad"].sentence
    packed = FactReader(["volcano"]).pod(encode_projection(bad))
    assert isinstance(packed, UnfitPod)
    assert packed.group == "bad"


@pytest.mark.parametrize("given", [{"on": "n1", "phase": "Running"}, {"scheduler": "default"}])
def test_a_pod_that_is_not_to_be_placed_may_ask_for_whatever_it_wants(given: dict[str, str]):
    """What stands on a node takes room there, even if we do not know its operators."""
    odd = pod("odd", **given, **with_operator("Like", "node affinity"))
    _, core = simulated(odd)

    assert core.cluster.aside.why == {}


def test_a_pod_larger_than_any_node_waits_alone():
    simulation, core = simulated(*gang("huge", 1, cpu="5000"))

    assert good_runs(simulation)
    assert core.explanations["test", "huge"].code is Code.EXCEEDS_MAX


def test_a_pod_group_whose_queue_is_gone_waits_and_says_so():
    simulation, core = simulated(queue("gone"), *gang("lost", 1, group={"in_queue": "gone"}))
    simulation.delete("queue", "", "gone")
    simulation.put(pod("lost-main-1", group="lost"))
    simulation.run()

    assert core.explanations["test", "lost"].code is Code.MISCONFIGURED
    assert "'gone' does not exist" in core.explanations["test", "lost"].sentence


def test_queues_that_are_each_others_parents_harm_only_themselves():
    conf = read_conf(
        "actions: enqueue, allocate\n"
        "tiers: [{plugins: [{name: gang}, {name: predicates}, "
        "{name: capacity, enableHierarchy: true}]}]"
    )
    simulation = Simulation(SchedulerCore(conf))
    for item in [
        *GOOD,
        *(queue("root"), queue("a", parent="b"), queue("b", parent="a")),
        *gang("lost", 1, group={"in_queue": "a"}),
    ]:
        simulation.put(item)
    simulation.run()

    assert good_runs(simulation)
    explanation = core_of(simulation).explanations["test", "lost"]
    assert explanation.code is Code.MISCONFIGURED
    assert "queues stand in a circle: a under b under a" in message(simulation, "lost")


def test_a_node_that_is_told_twice_is_one_node():
    simulation, core = simulated(node("n1", cpu="1"))
    again: Any = replace(node("n1"), metadata=replace(node("n1").metadata, uid="another"))
    simulation.put(again)
    simulation.run()

    assert core.cluster.nodes.names == ["n1"]
    assert good_runs(simulation)


def test_an_object_that_makes_no_sense_is_set_aside_and_others_go_on():
    simulation = cluster(
        node("n0", cpu="-4"),
        node("n1"),
        gang("bad", 1, cpu="lots"),
        pod_group("worse", min_member=1, min_resources={"cpu": "-1"}),
        gang("good", 1),
    )

    assert bound(simulation) == {"good-main-0": "n1"}
    assert sorted(core_of(simulation).cluster.aside.why) == [
        ("node", "", "n0"),
        ("pod", "test", "bad-main-0"),
    ]
    assert "Misconfigured: podgroup test/worse is set aside" in message(simulation, "worse")
