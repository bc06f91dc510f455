"""What a job says that found no part of the network, and what it is spared because of it."""

from typing import Any

import pytest

from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import NetworkTopologySpec, SubGroupPolicy
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code, Explanation, Unblock
from stromboli.testkit.scheduling_objects import gang, hyper_node, node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation

RACKS: list[KubeObject] = [
    hyper_node("rack-a", 1, nodes=["a1", "a2"]),
    hyper_node("rack-b", 1, nodes=["b1", "b2"]),
    hyper_node("hall", 2, parts=["rack-a", "rack-b"]),
]
NODES: list[KubeObject] = [node(name, cpu="2") for name in ("a1", "a2", "b1", "b2")]


def hard(tier: int) -> dict[str, Any]:
    spec = NetworkTopologySpec(mode="hard", highest_tier_allowed=tier)
    return {"network_topology": spec, "phase": "Inqueue"}


def simulated(
    *objects: KubeObject, actions: tuple[str, ...] = ("allocate", "backfill"), topology: bool = True
) -> Simulation:
    plugins = [PluginConf("gang"), PluginConf("predicates"), PluginConf("proportion")]
    if topology:
        plugins.append(PluginConf("network-topology-aware"))
    simulation = Simulation(SchedulerCore(SchedulingConf(actions=actions, tiers=(tuple(plugins),))))
    for item in (queue(), *NODES, *RACKS, *objects):
        simulation.put(item)
    simulation.run()
    return simulation


def reason_of(simulation: Simulation, job: str) -> Explanation:
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    return core.explanations["test", job]


def test_a_job_says_how_close_it_came_and_what_would_help():
    stranger = pod("other", on="a1", cpu="2", phase="Running", scheduler="default")
    also = pod("also", on="b1", cpu="2", phase="Running", scheduler="default")
    simulation = simulated(stranger, also, *gang("job", 2, cpu="2", group=hard(1)))
    reason = reason_of(simulation, "job")

    assert reason.code is Code.TOPOLOGY_FRAGMENTED
    assert reason.sentence == (
        "it needs 2 pods together within tier 1, "
        "and the best HyperNode, rack-a, has room for 1 of 2"
    )
    assert reason.unblock is Unblock.TOPOLOGY
    assert dict(reason.need)["cpu"] == 4000


def test_volcanos_words_come_first_in_the_condition():
    simulation = simulated(*gang("job", 3, cpu="2", group=hard(1)))
    message = simulation.get("vcpodgroup", "test", "job").status.conditions[-1].message

    said = "In hyperNode rack-a: 0/2 nodes are unavailable: 2 Insufficient cpu. TopologyFragmented:"
    assert said in message


def test_a_job_that_no_empty_part_could_take_waits_for_nodes_and_not_for_pods():
    reason = reason_of(simulated(*gang("job", 3, cpu="2", group=hard(1))), "job")

    assert reason.sentence.endswith("none could take them all even if it were empty")
    assert reason.unblock is Unblock.NODES


def in_groups(name: str, size: int, least: int, *, tier: int) -> SubGroupPolicy:
    return SubGroupPolicy(
        name=name,
        match_label_keys=(name,),
        sub_group_size=size,
        min_sub_groups=least,
        network_topology=NetworkTopologySpec(mode="hard", highest_tier_allowed=tier),
    )


def members(*groups: str, **spec: Any) -> list[KubeObject]:
    """One pod per name; `pair:a` belongs to the sub-group `a` of the policy `pair`."""
    return [
        pod(f"job-main-{number}", group="job", cpu="2", labels=dict([label.split(":")]), **spec)
        for number, label in enumerate(groups)
    ]


def test_whole_sub_groups_count_and_not_the_minimum_of_pods():
    """Three pods would fit, but the sub-groups that it needs are five."""
    policies = (in_groups("head", 1, 1, tier=1), in_groups("pair", 2, 2, tier=1))
    group = pod_group("job", min_member=3, sub_group_policy=policies, **hard(2))
    elsewhere = node("c1", cpu="2")
    pods = members("head:x", "pair:a", "pair:a", "pair:b", "pair:b")
    reason = reason_of(simulated(elsewhere, group, *pods), "job")

    assert reason.sentence == (
        "it needs 5 pods (3 whole sub-groups) together within tier 2, "
        "and the best HyperNode, hall, has room for 4 of 5; "
        "none could take them all even if it were empty"
    )


def test_sub_groups_that_have_room_by_number_only_are_not_said_to_have_it():
    policies = (in_groups("pair", 2, 2, tier=1),)
    group = pod_group("job", min_member=4, sub_group_policy=policies, **hard(2))
    strangers = [
        pod(f"other-{on}", on=on, cpu="2", phase="Running", scheduler="default")
        for on in ("a1", "b1")
    ]
    wide = [node(name, cpu="4") for name in ("a2", "b2")]
    pods = members("pair:a", "pair:a", "pair:b", "pair:b", host_port=80)
    reason = reason_of(simulated(*wide, *strangers, group, *pods), "job")

    assert "4 of 4" not in reason.sentence
    assert "has room for as many, but not for these at once (0 found a place)" in reason.sentence


def test_volcanos_words_never_end_in_nothing():
    """Each node has room for a pod of the sub-group, and the two of a rack not for three."""
    policies = (in_groups("trio", 3, 1, tier=1),)
    group = pod_group("job", min_member=3, sub_group_policy=policies, **hard(2))
    simulation = simulated(group, *members("trio:a", "trio:a", "trio:a"))
    message = simulation.get("vcpodgroup", "test", "job").status.conditions[-1].message

    assert "unavailable: ." not in message
    said = "unavailable: there is room for 2 of the 3 pods that must be together. Topology"
    assert said in message


def test_a_job_that_fits_nowhere_at_all_does_not_blame_the_network():
    reason = reason_of(simulated(*gang("job", 5, cpu="2", group=hard(1))), "job")

    assert reason.code is Code.EXCEEDS_MAX


def test_a_tier_that_no_hypernode_has_is_named():
    reason = reason_of(simulated(*gang("job", 1, group=hard(0))), "job")

    assert (reason.code, reason.unblock) == (Code.TOPOLOGY_FRAGMENTED, Unblock.NODES)
    assert reason.sentence == "there is no HyperNode of tier 0 or lower"


def test_a_job_whose_pods_stand_too_far_apart_already_does_not_grow():
    standing = [
        pod(f"job-main-{number}", group="job", on=on, phase="Running")
        for number, on in enumerate(("a1", "b1"))
    ]
    group = pod_group("job", min_member=1, **{**hard(1), "phase": "Running"})
    simulation = simulated(group, *standing, pod("job-main-2", group="job"))

    assert simulation.binds == {}
    assert "stand further apart than tier 1" in reason_of(simulation, "job").sentence


@pytest.mark.parametrize("cpu", ["1", ""], ids=["allocate", "backfill"])
def test_pods_that_come_later_join_the_others(cpu: str):
    """Those that ask for no room too."""
    group = pod_group("job", min_member=1, **{**hard(1), "phase": "Running"})
    running = pod("job-main-0", group="job", on="b2", phase="Running")
    more = [
        pod(f"job-main-{number}", group="job", cpu=cpu, memory="1Mi" if cpu else "")
        for number in (1, 2)
    ]
    simulation = simulated(group, running, *more)

    assert set(simulation.binds.values()) <= {"b1", "b2"}
    assert len(simulation.binds) == 2


def test_without_the_plugin_nobody_heeds_the_network():
    simulation = simulated(*gang("job", 4, cpu="2", group=hard(1)), topology=False)

    assert len(simulation.binds) == 4


@pytest.mark.parametrize(("topology", "goes"), [(True, 0), (False, 1)])
def test_reclaim_leaves_jobs_alone_that_must_stand_together(topology: bool, goes: int):
    names = ["a1", "a2", "b1", "b2"]
    running = [
        pod(f"old-main-{number}", group="old", cpu="2", on=on, phase="Running")
        for number, on in enumerate(names)
    ]
    old = pod_group("old", min_member=1, phase="Running", in_queue="rich")
    job = gang("job", 1, cpu="2", group={**hard(1), "in_queue": "poor"})
    simulation = simulated(
        queue("rich"),
        queue("poor"),
        old,
        *running,
        *job,
        actions=("allocate", "reclaim"),
        topology=topology,
    )

    assert len(simulation.evictions) == goes


def test_a_hypernode_that_makes_no_sense_is_set_aside_and_jobs_go_on():
    bad = hyper_node("odd", -1, nodes=["a1"])
    second = hyper_node("other-hall", 2, parts=["rack-b"])
    simulation = simulated(bad, second, *gang("job", 2, cpu="2", group=hard(1)))
    core = simulation.core
    assert isinstance(core, SchedulerCore)

    assert len(simulation.binds) == 2
    unusable = core.cluster.unusable()
    assert "its tier is -1" in unusable["hypernode", "", "odd"]
    assert "rack-b is in hall already" in unusable["hypernode", "", "other-hall"]
