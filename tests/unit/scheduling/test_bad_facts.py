"""Objects that can't be reckoned with are set aside with a reason; all others go on."""

from typing import Any

import pytest
from msgspec.structs import replace

from stromboli.api.meta import KubeObject
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code
from stromboli.testkit.scheduling_objects import gang, node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import bound, cluster, core_of, message

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
    assert said in core.cluster.set_aside[place]
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

    assert core.cluster.set_aside == {}
    assert "n2" in core.cluster.nodes


def test_a_pod_group_with_bad_amounts_waits_and_says_so():
    bad = pod_group("bad", min_member=1, min_resources={"cpu": "-1"})
    simulation, core = simulated(bad, pod("bad-main-0", group="bad"))

    assert good_runs(simulation)
    assert core.explanations["test", "bad"].code is Code.MISCONFIGURED


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
    assert sorted(core_of(simulation).cluster.set_aside) == [
        ("node", "", "n0"),
        ("pod", "test", "bad-main-0"),
    ]
    assert "Misconfigured: podgroup test/worse is set aside" in message(simulation, "worse")
