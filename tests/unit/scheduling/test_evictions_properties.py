"""What must hold whenever jobs take room from others."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stromboli.api.meta import KubeObject
from stromboli.contracts.intents import EvictPod
from stromboli.scheduling.actions import willing
from stromboli.scheduling.actions.lost_causes import LostCauses
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import gang, node, pod, pod_group, priority_class, queue
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import overcommitted

PREEMPT = read_conf("""
actions: enqueue, allocate, backfill, preempt
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")
RECLAIM = read_conf("""
actions: enqueue, allocate, backfill, reclaim, preempt
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: proportion}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: nodeorder}]
""")
GANGS = read_conf("""
actions: enqueue, allocate, backfill, gangreclaim, gangpreempt
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: capacity}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: nodeorder}]
""")
EVERYTHING = read_conf("""
actions: enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim, shuffle
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: sla}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: capacity}
  - {name: nodeorder}
  - {name: binpack}
  - {name: pdb}
  - {name: cdp}
  - {name: tdm}
  - {name: resourcequota}
""")
ALL = (PREEMPT, RECLAIM, GANGS, EVERYTHING)

clusters = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.integers(1, 6), min_size=1, max_size=4),
        "running": st.lists(
            st.tuples(
                st.integers(1, 4),  # pods
                st.integers(0, 3),  # of which it needs
                st.integers(1, 3),  # cpu each
                st.sampled_from(["", "low", "high"]),
                st.sampled_from(["q1", "q2"]),
            ),
            max_size=4,
        ),
        "waiting": st.lists(
            st.tuples(
                st.integers(1, 4),
                st.integers(0, 4),
                st.integers(1, 4),
                st.sampled_from(["", "low", "high"]),
                st.sampled_from(["q1", "q2"]),
            ),
            max_size=4,
        ),
    }
)


def objects_of(cluster: dict[str, Any]) -> list[KubeObject]:
    found: list[KubeObject] = [
        queue("q1"),
        queue("q2"),
        priority_class("high", 10),
        priority_class("low", -1),
    ]
    free = dict(enumerate(cluster["nodes"]))
    found += [
        # Cpus are what the running pods are placed by; the rest binds now and then.
        node(f"n{number}", cpu=str(cpu), memory=f"{cpu + 1}Gi")
        for number, cpu in free.items()
    ]
    for number, (size, least, cpu, priority, in_queue) in enumerate(cluster["running"]):
        name = f"running{number}"
        placed = 0
        for slot in range(size):
            at = next((n for n, left in free.items() if left >= cpu), None)
            if at is not None:
                free[at] -= cpu
                placed += 1
                found.append(
                    pod(
                        f"{name}-main-{slot}",
                        group=name,
                        cpu=str(cpu),
                        memory=f"{cpu}Gi" if number % 2 else "1Mi",
                        on=f"n{at}",
                        phase="Running",
                    )
                )
        found.append(
            pod_group(
                name,
                min_member=min(least, placed),
                phase="Running",
                in_queue=in_queue,
                priority_class_name=priority,
            )
        )
    for number, (size, least, cpu, priority, in_queue) in enumerate(cluster["waiting"]):
        found += gang(
            f"waiting{number}",
            size,
            min_member=min(size, least),
            group={"priority_class_name": priority, "in_queue": in_queue},
            cpu=str(cpu),
            memory=f"{2 if number % 2 else 1}Gi",
        )
    return found


def simulated(
    objects: list[KubeObject], conf: SchedulingConf, *, lingering: bool = False
) -> Simulation:
    simulation = Simulation(SchedulerCore(conf), lingering=lingering)
    for item in objects:
        simulation.put(item)
    simulation.run()
    return simulation


def standing(simulation: Simulation, group: str) -> int:
    return sum(
        kind == "pod" and name.startswith(f"{group}-") and bool(item.spec.node_name)
        for (kind, _, name), item in simulation.objects.items()
    )


@given(clusters, st.sampled_from(ALL))
@settings(max_examples=examples(20), deadline=None)
def test_evictions_overcommit_no_node_and_leave_gangs_whole(
    cluster: dict[str, Any], conf: SchedulingConf
):
    simulation = simulated(objects_of(cluster), conf)
    simulation.advance(3)

    assert overcommitted(simulation) == []
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    assert core.cluster.ledger.leaving() == []
    for number, (_, _, _, _, _) in enumerate(cluster["waiting"]):
        group = simulation.get("vcpodgroup", "test", f"waiting{number}")
        bound = standing(simulation, f"waiting{number}")
        lost = sum(name.startswith(f"waiting{number}-") for _, name in simulation.evictions)
        assert bound == 0 or bound >= group.spec.min_member or lost


@given(clusters, st.sampled_from([PREEMPT, RECLAIM]))
@settings(max_examples=examples(20), deadline=None)
def test_a_gang_is_not_cut_below_its_minimum(cluster: dict[str, Any], conf: SchedulingConf):
    """Where the gang plugin has a say and no later tier overrules it."""
    simulation = simulated(objects_of(cluster), PREEMPT if conf is PREEMPT else RECLAIM)
    gone = [name for _, name in simulation.evictions]
    for number in range(len(cluster["running"])):
        group = simulation.get("vcpodgroup", "test", f"running{number}")
        if any(name.startswith(f"running{number}-") for name in gone):
            assert standing(simulation, f"running{number}") >= group.spec.min_member


@given(clusters, st.sampled_from(ALL), st.randoms(use_true_random=False))
@settings(max_examples=examples(20), deadline=None)
def test_the_order_of_facts_does_not_matter_and_replaying_them_decides_the_same(
    cluster: dict[str, Any], conf: SchedulingConf, rng: random.Random
):
    objects = objects_of(cluster)
    shuffled = list(objects)
    rng.shuffle(shuffled)
    one, other, again = (simulated(o, conf) for o in (objects, shuffled, objects))

    assert one.intents == other.intents
    assert one.intents == again.intents


@given(clusters, st.sets(st.integers(0, 5)))
@settings(max_examples=examples(20), deadline=None)
def test_an_eviction_that_is_refused_changes_nothing_and_is_not_repeated_at_once(
    cluster: dict[str, Any], refused: set[int]
):
    asked: list[str] = []

    def may_evict(intent: EvictPod) -> bool:
        asked.append(intent.name)
        return len(asked) - 1 not in refused

    simulation = Simulation(SchedulerCore(PREEMPT), may_evict=may_evict)
    for item in objects_of(cluster):
        simulation.put(item)
    simulation.run()

    assert overcommitted(simulation) == []
    assert len(asked) == len(set(asked))


SHARING = read_conf("""
actions: enqueue, allocate, preempt, reclaim, backfill
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}]
""")


@given(clusters, st.sampled_from([PREEMPT, RECLAIM, SHARING]), st.integers(2, 4))
@settings(
    max_examples=examples(75),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_asking_for_each_of_many_that_are_alike_would_change_nothing(
    monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], conf: SchedulingConf, alike: int
):
    objects = objects_of({**cluster, "waiting": cluster["waiting"] * alike})
    shared = simulated(objects, conf, lingering=True)
    with monkeypatch.context() as patched:
        patched.setattr(LostCauses, "holds", lambda *_: False)
        each = simulated(objects, conf, lingering=True)

    assert shared.intents == each.intents


@given(clusters, st.sampled_from([PREEMPT, RECLAIM, SHARING]))
@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_nodes_that_are_not_asked_would_not_have_helped(
    monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], conf: SchedulingConf
):
    objects = objects_of(cluster)
    asked = simulated(objects, conf, lingering=True)
    with monkeypatch.context() as patched:
        patched.setattr(willing, "_PATIENCE", 0)
        narrowed = simulated(objects, conf, lingering=True)

    assert narrowed.intents == asked.intents


def test_of_equal_pods_of_one_job_one_that_matters_more_does_not_speak_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
):
    """Their own job sends those away that matter less than the pod that waits."""
    conf = read_conf("""
actions: enqueue, allocate, preempt
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false, enableJobStarving: false}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")
    monkeypatch.setattr(willing, "_PATIENCE", 0)
    objects: list[KubeObject] = [queue(), node("n0", cpu="1"), node("n1", cpu="1")]
    objects.append(pod_group("job", min_member=2, phase="Running"))
    objects += [
        pod(f"job-main-{at}", group="job", priority=of, on=f"n{at}", phase="Running")
        for at, of in enumerate((9, 1))
    ]
    objects.append(pod("job-head-0", group="job", priority=5))

    assert simulated(objects, conf, lingering=True).evictions == [("test", "job-main-1")]
