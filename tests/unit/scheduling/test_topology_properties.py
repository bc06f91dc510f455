"""Jobs stand as close together as they said, and where a plain search would put them."""

import random
from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import NetworkTopologySpec, PodGroup, SubGroupPolicy
from stromboli.api.wellknown import GROUP_NAME
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import (
    gang,
    hyper_node,
    node,
    pod,
    priority_class,
    queue,
)
from stromboli.testkit.simulation import Simulation

TOPOLOGY = PluginConf("network-topology-aware")
BARE = SchedulingConf(
    actions=("allocate",), tiers=((PluginConf("gang"), PluginConf("predicates"), TOPOLOGY),)
)
"""Nothing but the network prefers one node to another: the first by name with room is taken."""
EVICTING = SchedulingConf(
    actions=("enqueue", "allocate", "backfill", "gangpreempt", "reclaim"),
    tiers=(
        (PluginConf("priority"), PluginConf("gang", flags={"enablePreemptable": False})),
        (PluginConf("predicates"), PluginConf("nodeorder"), PluginConf("binpack"), TOPOLOGY),
    ),
)
SOFT = 0
"""In place of a tier."""

networks = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.integers(1, 4), min_size=1, max_size=8),  # cpu of each
        "racks": st.lists(st.integers(0, 3), min_size=8, max_size=8),  # of each node; 3 is none
        "halls": st.lists(st.integers(0, 2), min_size=3, max_size=3),  # of each rack; 2 is none
        "strangers": st.lists(st.integers(0, 7), max_size=4),  # where they stand
    }
)
jobs = st.lists(
    st.tuples(
        st.integers(1, 5),  # pods
        st.integers(1, 2),  # cpu each
        st.sampled_from([None, SOFT, 1, 2, 3]),  # the highest tier
    ),
    max_size=4,
)


def objects_of(network: dict[str, Any]) -> list[KubeObject]:
    count = len(network["nodes"])
    found: list[KubeObject] = [queue()]
    found += [
        node(f"n{number}", cpu=str(cpu), memory="64Gi", pods="20")
        for number, cpu in enumerate(network["nodes"])
    ]
    for rack in range(3):
        inside = [f"n{number}" for number in range(count) if network["racks"][number] == rack]
        found.append(hyper_node(f"rack{rack}", 1, nodes=inside))
    for hall in range(2):
        parts = [f"rack{rack}" for rack in range(3) if network["halls"][rack] == hall]
        found.append(hyper_node(f"hall{hall}", 2, parts=parts))
    found += [
        pod(f"other{n}", on=f"n{at % count}", phase="Running", scheduler="default")
        for n, at in enumerate(network["strangers"])
    ]
    return found


def asking(tier: int | None) -> NetworkTopologySpec | None:
    if tier is None:
        return None
    if tier == SOFT:
        return NetworkTopologySpec(mode="soft")
    return NetworkTopologySpec(mode="hard", highest_tier_allowed=tier)


def gangs_of(
    wanted: Iterable[tuple[int, int, int | None]], least: int | None = None, **more: Any
) -> list[KubeObject]:
    return [
        item
        for number, (size, cpu, tier) in enumerate(wanted)
        for item in gang(
            f"job{number}",
            size,
            min_member=least,
            group={"network_topology": asking(tier), "phase": "Inqueue", **more},
            cpu=str(cpu),
        )
    ]


def simulated(conf: SchedulingConf, objects: Iterable[KubeObject]) -> Simulation:
    simulation = Simulation(SchedulerCore(conf))
    for item in objects:
        simulation.put(item)
    simulation.run()
    return simulation


# How far apart pods stand, found out without arrays.


def domains_of(network: dict[str, Any]) -> dict[str, tuple[int, set[str]]]:
    """Tier and nodes by name, as one would count them on paper."""
    count = len(network["nodes"])
    found: dict[str, tuple[int, set[str]]] = {}
    for rack in range(3):
        inside = {f"n{number}" for number in range(count) if network["racks"][number] == rack}
        found[f"rack{rack}"] = (1, inside)
    for hall in range(2):
        below = [found[f"rack{rack}"][1] for rack in range(3) if network["halls"][rack] == hall]
        found[f"hall{hall}"] = (2, set[str]().union(*below))
    found["~top"] = (3, {f"n{number}" for number in range(count)})
    return found


def spread(network: dict[str, Any], nodes: set[str]) -> int:
    """The lowest tier of a domain that has all of these nodes."""
    return min(
        (tier for tier, inside in domains_of(network).values() if nodes <= inside), default=0
    )


def check_nobody_stands_too_far_apart(network: dict[str, Any], simulation: Simulation) -> None:
    standing: dict[str, set[str]] = {}
    parts: dict[tuple[str, str], set[str]] = {}
    for (kind, _, _), item in simulation.objects.items():
        if kind == "pod" and item.spec.node_name and GROUP_NAME in item.metadata.annotations:
            group = item.metadata.annotations[GROUP_NAME]
            standing.setdefault(group, set()).add(item.spec.node_name)
            part = item.metadata.labels.get("part", "")
            parts.setdefault((group, part), set()).add(item.spec.node_name)
    groups = {
        name: item for (kind, _, name), item in simulation.objects.items() if kind == "vcpodgroup"
    }
    for name, nodes in standing.items():
        spec = groups[name].spec
        check_tier(network, spec.network_topology, nodes)
        for policy in spec.sub_group_policy:
            for (group, part), inside in parts.items():
                if group == name and part:
                    check_tier(network, policy.network_topology, inside)


def check_tier(network: dict[str, Any], asked: NetworkTopologySpec | None, nodes: set[str]) -> None:
    if asked is not None and asked.mode == "hard" and asked.highest_tier_allowed is not None:
        assert spread(network, nodes) <= asked.highest_tier_allowed


def check_gangs_are_whole(simulation: Simulation) -> None:
    for (kind, _, name), item in simulation.objects.items():
        if kind == "vcpodgroup":
            bound = sum(pod_name.startswith(f"{name}-") for _, pod_name in simulation.binds)
            assert bound == 0 or bound >= item.spec.min_member


# What must hold.


@given(networks, jobs, st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_a_job_never_stands_further_apart_than_it_said(
    network: dict[str, Any], wanted: list[tuple[int, int, int | None]], part: bool
):
    gangs = gangs_of(wanted, least=1 if part else None)
    simulation = simulated(EVICTING, [*objects_of(network), *gangs])

    check_nobody_stands_too_far_apart(network, simulation)
    check_gangs_are_whole(simulation)


@given(networks, jobs, st.lists(st.integers(0, 7), max_size=3), st.integers(1, 3))
@settings(max_examples=examples(35), deadline=None)
def test_nor_when_it_grows_or_when_others_make_room_for_it(
    network: dict[str, Any],
    wanted: list[tuple[int, int, int | None]],
    low: list[int],
    tier: int,
):
    count = len(network["nodes"])
    victims: list[KubeObject] = [*gang("low", 0, group={"phase": "Running"})]
    victims += [
        pod(f"low-a-{n}", group="low", on=f"n{at % count}", phase="Running")
        for n, at in enumerate(low)
    ]
    high = gangs_of(wanted, priority_class_name="high")
    objects = [*objects_of(network), priority_class("high", 10), *victims, *high]
    simulation = simulated(EVICTING, objects)
    more = gang("job0", 6, min_member=1, group={"network_topology": asking(tier)})
    for item in more:
        key = ("vcpodgroup" if isinstance(item, PodGroup) else "pod", "test", item.metadata.name)
        if key not in simulation.objects:
            simulation.put(item)
    simulation.run()

    check_nobody_stands_too_far_apart(network, simulation)


@given(networks, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=examples(50), deadline=None)
def test_sub_groups_stand_together_inside_of_their_job(
    network: dict[str, Any], groups: int, size: int, tier: int, inner: int
):
    policy = SubGroupPolicy(
        name="parts",
        sub_group_size=size,
        min_sub_groups=groups,
        match_label_keys=("part",),
        network_topology=asking(inner),
    )
    job = gang(
        "job",
        0,
        min_member=groups * size,
        group={
            "network_topology": asking(tier),
            "sub_group_policy": (policy,),
            "phase": "Inqueue",
        },
    )
    pods = [
        pod(f"job-main-{number}", group="job", labels={"part": str(number % groups)})
        for number in range(groups * size)
    ]
    simulation = simulated(BARE, [*objects_of(network), *job, *pods])

    check_nobody_stands_too_far_apart(network, simulation)
    check_gangs_are_whole(simulation)


@given(networks, jobs, st.randoms(use_true_random=False))
@settings(max_examples=examples(25), deadline=None)
def test_the_order_of_facts_does_not_matter(
    network: dict[str, Any], wanted: list[tuple[int, int, int | None]], rng: random.Random
):
    objects = [*objects_of(network), *gangs_of(wanted)]
    shuffled = list(objects)
    rng.shuffle(shuffled)

    assert simulated(EVICTING, objects).intents == simulated(EVICTING, shuffled).intents


# A search without arrays: every domain, one pod after the other.


class Plain:
    def __init__(self, network: dict[str, Any]) -> None:
        self.domains = domains_of(network)
        count = len(network["nodes"])
        self.cpu = {f"n{number}": cpu for number, cpu in enumerate(network["nodes"])}
        self.used = dict.fromkeys(self.cpu, 0)
        self.memory = dict.fromkeys(self.cpu, 0)
        for at in network["strangers"]:
            self.used[f"n{at % count}"] += 1
            self.memory[f"n{at % count}"] += 1

    def fullness(self, inside: set[str], size: int, cpu: int) -> float:
        offered = sum(self.cpu[name] for name in inside)
        taken = sum(self.used[name] for name in inside) + size * cpu
        memory = sum(self.memory[name] for name in inside) + size
        if taken > offered or memory > 64 * len(inside):
            return 0.0
        return (taken / offered + memory / (64 * len(inside))) / 2

    def tried(self, inside: set[str], size: int, cpu: int) -> list[str] | None:
        places: list[str] = []
        for _ in range(size):
            room = [
                name
                for name in sorted(inside)
                if self.used[name] + cpu * (1 + places.count(name)) <= self.cpu[name]
            ]
            if not room:
                return None
            places.append(room[0])
        return places

    def place(self, size: int, cpu: int, tier: int) -> list[str]:
        for level in range(1, tier + 1):
            domains = [
                (-round(self.fullness(inside, size, cpu), 9), name, inside)
                for name, (of, inside) in self.domains.items()
                if of == level and inside
            ]
            for _, _, inside in sorted(domains, key=lambda each: each[:2]):
                places = self.tried(inside, size, cpu)
                if places is not None:
                    for name in places:
                        self.used[name] += cpu
                        self.memory[name] += 1
                    return places
        return []


@given(networks, jobs)
@settings(max_examples=examples(90), deadline=None)
def test_places_are_those_that_a_plain_search_finds(
    network: dict[str, Any], wanted: list[tuple[int, int, int | None]]
):
    wanted = [(size, cpu, 3 if tier is None else tier) for size, cpu, tier in wanted]
    simulation = simulated(BARE, [*objects_of(network), *gangs_of(wanted)])

    plain = Plain(network)
    expected: dict[str, str] = {}
    for number, (size, cpu, tier) in enumerate(wanted):
        places = plain.place(size, cpu, 3 if tier == SOFT else tier or 3)
        expected |= {f"job{number}-main-{n}": place for n, place in enumerate(places)}

    assert {name: on for (_, name), on in simulation.binds.items()} == expected
