"""Whenever jobs take room from others, nobody goes who need not have gone."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.core import Taint
from stromboli.api.meta import KubeObject
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import (
    gang,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
)
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import cluster as small_cluster
from stromboli.testkit.victim_watch import Cycle, watch

PLUGINS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
SHARING = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: capacity}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
GENTLY = """
configurations:
- name: preempt
  arguments: {enableTopologyAwarePreemption: true, minCandidateNodesAbsolute: 4}
"""
PREEMPT = read_conf(f"actions: enqueue, allocate, backfill, preempt{PLUGINS}")
CONFS = {
    "preempt": PREEMPT,
    "preempt before allocate": read_conf(f"actions: enqueue, preempt, allocate{PLUGINS}"),
    "preempt gently": read_conf(f"actions: enqueue, allocate, preempt{PLUGINS}{GENTLY}"),
    "reclaim": read_conf(f"actions: enqueue, allocate, reclaim{SHARING}"),
    "preempt and reclaim": read_conf(f"actions: enqueue, allocate, preempt, reclaim{SHARING}"),
    "gangpreempt": read_conf(f"actions: enqueue, allocate, gangpreempt{SHARING}"),
    "gangreclaim": read_conf(f"actions: enqueue, allocate, gangreclaim{SHARING}"),
    "gangs before allocate": read_conf(
        f"actions: enqueue, gangreclaim, gangpreempt, allocate{SHARING}"
    ),
}

pods = st.tuples(
    st.integers(1, 4),  # cpu
    st.integers(0, 4),  # GiB
    st.integers(0, 3),  # the job it belongs to
)
waiting = st.tuples(
    st.integers(1, 4),  # pods
    st.integers(1, 5),  # cpu each
    st.integers(0, 2),  # GiB each
    st.sampled_from(["q1", "q2"]),
    st.sampled_from(["high", "higher"]),
    st.integers(0, 1),  # pods that it can do without
)
clusters = st.fixed_dictionaries(
    {
        # What stands on each node, and how much of it is free: often a little.
        "nodes": st.lists(
            st.tuples(st.lists(pods, min_size=1, max_size=5), st.integers(0, 3)),
            min_size=1,
            max_size=4,
        ),
        "queues": st.lists(st.sampled_from(["q1", "q2"]), min_size=4, max_size=4),
        "minimums": st.lists(st.integers(0, 3), min_size=4, max_size=4),
        "waiting": st.lists(waiting, min_size=1, max_size=3),
        # Of the first queue, in cpus; it may have less than it uses.
        "limit": st.one_of(st.none(), st.integers(4, 16)),
    }
)


def objects_of(cluster: dict[str, Any], conf: SchedulingConf) -> list[KubeObject]:
    heeds_limits = any(plugin.name == "capacity" for tier in conf.tiers for plugin in tier)
    is_limited = heeds_limits and cluster["limit"] is not None
    limit: dict[str, Any] = {"capability": {"cpu": str(cluster["limit"])}} if is_limited else {}
    found: list[KubeObject] = [
        queue("q1", deserved={"cpu": "6"}, **limit),
        queue("q2", deserved={"cpu": "6"}),
        priority_class("high", 10),
        priority_class("higher", 20),
    ]
    standing = [0, 0, 0, 0]
    for at, (tenants, free) in enumerate(cluster["nodes"]):
        cpu = sum(taken for taken, _, _ in tenants) + free
        memory = sum(taken for _, taken, _ in tenants) + free
        found.append(node(f"n{at}", cpu=str(cpu), memory=f"{memory}Gi"))
        for cpus, gib, job in tenants:
            name = f"job{job}-main-{standing[job]}"
            standing[job] += 1
            found.append(
                pod(
                    name,
                    group=f"job{job}",
                    cpu=str(cpus),
                    memory=f"{gib}Gi",
                    on=f"n{at}",
                    phase="Running",
                )
            )
    for job, (in_queue, least) in enumerate(
        zip(cluster["queues"], cluster["minimums"], strict=True)
    ):
        minimum = min(least, standing[job])
        found.append(pod_group(f"job{job}", min_member=minimum, phase="Running", in_queue=in_queue))
    for number, (size, cpus, gib, in_queue, priority, beyond) in enumerate(cluster["waiting"]):
        found += gang(
            f"new{number}",
            size,
            min_member=max(1, size - beyond),
            group={"priority_class_name": priority, "in_queue": in_queue},
            cpu=str(cpus),
            memory=f"{gib}Gi",
        )
    return found


def cycles_of(objects: list[KubeObject], conf: SchedulingConf) -> tuple[list[Cycle], Simulation]:
    simulation = Simulation(SchedulerCore(conf), lingering=True)
    for item in objects:
        simulation.put(item)
    cycles = watch(simulation)
    simulation.run()
    return cycles, simulation


@pytest.mark.parametrize("conf", CONFS.values(), ids=CONFS)
@given(cluster=clusters)
@settings(max_examples=examples(35), deadline=None)
def test_in_the_place_of_every_victim_somebody_is_to_come(
    conf: SchedulingConf, cluster: dict[str, Any]
):
    cycles, _ = cycles_of(objects_of(cluster, conf), conf)

    assert [cycle.needless() for cycle in cycles] == [[] for _ in cycles]


@pytest.mark.parametrize("conf", CONFS.values(), ids=CONFS)
@given(cluster=clusters)
@settings(max_examples=examples(35), deadline=None)
def test_a_gang_cannot_be_put_so_that_one_victim_less_must_go(
    conf: SchedulingConf, cluster: dict[str, Any]
):
    """Its pods are all alike, so how many of them the nodes can take is easily told."""
    alone = {**cluster, "waiting": cluster["waiting"][:1]}
    cycles, _ = cycles_of(objects_of(alone, conf), conf)

    assert [cycle.needless_if_moved() for cycle in cycles] == [[] for _ in cycles]


def test_a_pod_that_holds_room_that_is_free_now_is_one_who_comes():
    """One of the gang has room at once: it holds it, though it does not wait for anybody."""
    tenants = [("n0", 1, "1Mi"), ("n1", 2, "2Gi"), *[("n2", 2, "2Gi")] * 3]
    tenants += [("n1", 1, "1Mi"), *[("n3", 1, "1Mi")] * 3]
    objects: list[KubeObject] = [queue(), priority_class("high", 10)]
    objects += [node(f"n{at}", cpu=str(cpu), memory="9Gi") for at, cpu in enumerate((1, 3, 6, 6))]
    for number, (on, cpu, memory) in enumerate(tenants):
        name = f"job{number}"
        objects += running(name, cpu=str(cpu), memory=memory, on=on)
    objects += gang("new", 2, group={"priority_class_name": "high"}, cpu="2")
    cycles, _ = cycles_of(objects, PREEMPT)

    assert [len(cycle.victims) for cycle in cycles] == [1]
    assert [cycle.needless_if_moved() for cycle in cycles] == [[]]


# Whoever went for one pod stays if one who went for another leaves enough for both.


@pytest.mark.parametrize("pods_of_each", [(2,), (1, 1)], ids=["of one job", "of two jobs"])
@pytest.mark.parametrize("name", CONFS)
def test_who_leaves_enough_for_two_goes_alone(name: str, pods_of_each: tuple[int, ...]):
    conf = CONFS[name]
    takes_back = "reclaim" in conf.actions or "gangreclaim" in conf.actions
    victims, takers = ("q1", "q2") if takes_back else ("q1", "q1")
    objects: list[KubeObject] = [
        queue("q1", deserved={"cpu": "2"}),
        queue("q2", deserved={"cpu": "4"}),
        priority_class("high", 10),
        node("n0", cpu="6"),
        *running("z", cpu="2", memory="", on="n0", in_queue=victims),
        *running("a", cpu="4", memory="", on="n0", in_queue=victims),
    ]
    for number, size in enumerate(pods_of_each):
        group = {"priority_class_name": "high", "in_queue": takers}
        objects += gang(f"new{number}", size, group=group, cpu="2", memory="")
    cycles, simulation = cycles_of(objects, conf)

    assert len(cycles) == 1
    assert gone(simulation) == ["a-main-0"]


@pytest.mark.parametrize("name", ["gangpreempt", "gangs before allocate"])
def test_what_a_gang_could_spare_in_vain_stays(name: str):
    """It would give most for what it loses, so it is asked first, and has no memory to give."""
    simulation = small_cluster(
        node("n0", cpu="2", memory="2Gi"),
        priority_class("high", 10),
        running("a", cpu="1", memory="", on="n0"),
        running("z", cpu="1", memory="2Gi", on="n0"),
        gang("new", 1, group={"priority_class_name": "high"}, cpu="1", memory="1Gi"),
        conf=CONFS[name],
        lingering=True,
    )

    assert gone(simulation) == ["z-main-0"]


# Within one pod: nothing comes later that could spare them.


def running(name: str, *, in_queue: str = "default", **of_pod: Any) -> list[KubeObject]:
    """A job of one pod that nobody needs."""
    return [
        pod_group(name, min_member=0, phase="Running", in_queue=in_queue),
        pod(f"{name}-main-0", group=name, phase="Running", **of_pod),
    ]


def gone(simulation: Simulation) -> list[str]:
    return sorted(name for _, name in simulation.evictions)


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6), cpu=st.integers(1, 6))
@settings(max_examples=examples(60), deadline=None)
def test_of_its_own_pods_a_job_gives_up_none_that_is_not_in_the_way(sizes: list[int], cpu: int):
    """Pods that matter more take the place of those that matter less."""
    conf = read_conf("""
actions: enqueue, allocate, preempt
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false, enableJobStarving: false}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")
    objects: list[KubeObject] = [queue(), node("n0", cpu=str(sum(sizes)))]
    objects.append(pod_group("job", min_member=1, phase="Running"))
    objects += [
        pod(f"job-main-{at}", group="job", cpu=str(taken), memory="", on="n0", phase="Running")
        for at, taken in enumerate(sizes)
    ]
    objects.append(pod("job-head-0", group="job", cpu=str(cpu), memory="", priority=9))
    cycles, _ = cycles_of(objects, conf)

    assert bool(cycles) == (cpu <= sum(sizes))
    assert [cycle.needless() for cycle in cycles] == [[] for _ in cycles]


def test_of_its_own_pods_a_job_gives_up_none_where_another_node_has_room():
    """That the gang can't be completed does not change when pods of it make room for each other."""
    conf = read_conf("""
actions: enqueue, allocate, preempt
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")
    disliked = (Taint(key="old", effect="PreferNoSchedule"),)
    simulation = small_cluster(
        node("n0", cpu="4"),
        node("n1", cpu="4", taints=disliked),
        pod_group("job", min_member=3, phase="Running"),
        pod("job-main-0", group="job", cpu="4", memory="", on="n0", phase="Running"),
        pod("job-head-0", group="job", cpu="4", memory="", priority=9),
        pod("job-main-1", group="job", cpu="4", memory=""),
        conf=conf,
        lingering=True,
    )

    assert gone(simulation) == []


def test_the_node_is_chosen_by_those_who_really_must_go():
    """On the first four would go, but three of them are not in the way of anybody."""
    first = [running(f"z{at}", cpu="1", memory="", on="n0") for at in range(3)]
    second = [running(f"y{at}", cpu="2", memory="", on="n1") for at in range(2)]
    simulation = small_cluster(
        node("n0", cpu="7"),
        node("n1", cpu="4"),
        priority_class("high", 10),
        *first,
        *second,
        running("a", cpu="4", memory="", on="n0"),
        gang("new", 1, group={"priority_class_name": "high"}, cpu="4", memory=""),
        conf=CONFS["preempt gently"],
        lingering=True,
    )

    assert gone(simulation) == ["a-main-0"]


def test_who_holds_no_port_need_not_go_for_one():
    simulation = small_cluster(
        node("n0", cpu="4"),
        priority_class("high", 10),
        running("z", cpu="1", memory="", on="n0"),
        running("a", cpu="3", memory="", host_port=80, on="n0"),
        gang("new", 1, group={"priority_class_name": "high"}, cpu="3", memory="", host_port=80),
        conf=PREEMPT,
        lingering=True,
    )

    assert gone(simulation) == ["a-main-0"]
