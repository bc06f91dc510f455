"""What must hold for any cluster and any jobs."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.meta import KubeObject
from stromboli.contracts.intents import BindGang, PatchObject, PodBinding
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import PLAIN, gang, node, pod, priority_class, queue
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import overcommitted

clusters = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=5),
        "jobs": st.lists(
            st.tuples(
                st.integers(1, 5),  # pods
                st.integers(0, 5),  # of which must start together
                st.integers(0, 3),  # cpu each
                st.sampled_from(["", "high", "low"]),
                st.sampled_from(["", "a", "b"]),  # role, and with it a node selector
            ),
            max_size=6,
        ),
        "strangers": st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=4),
    }
)


def objects_of(cluster: dict[str, Any]) -> list[KubeObject]:
    found: list[KubeObject] = [queue(), priority_class("high", 10), priority_class("low", -1)]
    for number, (cpu, pods) in enumerate(cluster["nodes"]):
        labels = {"zone": "ab"[number % 2]}
        memory = f"{2 + cpu}Gi"
        found.append(node(f"n{number}", cpu=str(cpu), memory=memory, pods=str(pods), labels=labels))
    for number, (size, least, cpu, priority, zone) in enumerate(cluster["jobs"]):
        found += gang(
            f"job{number}",
            size,
            min_member=min(size, least),
            group={"priority_class_name": priority},
            cpu=str(cpu) if cpu else "",
            memory=f"{1 + number % 3}Gi" if cpu else "",
            role=zone,
            node_selector={"zone": zone} if zone else {},
        )
    for number, (at, ending) in enumerate(cluster["strangers"]):
        on = f"n{at % len(cluster['nodes'])}"
        found.append(
            pod(f"other{number}", on=on, phase="Running", ending=ending, scheduler="default")
        )
    return found


def simulated(objects: list[KubeObject], **options: Any) -> Simulation:
    simulation = Simulation(SchedulerCore(PLAIN), **options)
    for item in objects:
        simulation.put(item)
    simulation.run()
    return simulation


def phases_of(simulation: Simulation) -> dict[str, str]:
    groups = [o for (kind, _, _), o in simulation.objects.items() if kind == "vcpodgroup"]
    return {group.metadata.name: group.status.phase for group in groups}


def check_no_node_is_overcommitted(simulation: Simulation) -> None:
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    table = core.cluster.nodes
    table.settle()
    taken = {(name, r): 0 for name in table.names for r in ("cpu", "pods")}
    ours = dict(taken)
    for (kind, _, _), item in simulation.objects.items():
        if kind == "pod" and item.spec.node_name:
            requests = item.spec.containers[0].resources.requests
            for resource, units in (("cpu", 1000 * int(requests.get("cpu", 0))), ("pods", 1)):
                taken[item.spec.node_name, resource] += units
                if item.spec.scheduler_name == "volcano":
                    ours[item.spec.node_name, resource] += units
    for (name, resource), units in taken.items():
        row, slot = table.resources.row(resource), table.slot(name)
        assert slot is not None
        # The arrays say what the objects say, and strangers alone may exceed a node.
        assert table.used[row, slot] == units
        assert units <= table.allocatable[row, slot] or not ours[name, resource]
    assert overcommitted(simulation) == []


def check_gangs_are_whole_or_absent(simulation: Simulation) -> None:
    for (kind, namespace, name), item in simulation.objects.items():
        if kind == "vcpodgroup":
            bound = sum(pod_name.startswith(f"{name}-") for _, pod_name in simulation.binds)
            assert bound == 0 or bound >= item.spec.min_member, (namespace, name)


@given(clusters)
@settings(max_examples=examples(60), deadline=None)
def test_no_node_is_overcommitted_and_gangs_are_whole_or_absent(cluster: dict[str, Any]):
    simulation = simulated(objects_of(cluster))

    check_no_node_is_overcommitted(simulation)
    check_gangs_are_whole_or_absent(simulation)


@given(clusters, st.randoms(use_true_random=False))
@settings(max_examples=examples(40), deadline=None)
def test_the_order_of_facts_in_one_batch_does_not_matter(
    cluster: dict[str, Any], rng: random.Random
):
    objects = objects_of(cluster)
    shuffled = list(objects)
    rng.shuffle(shuffled)
    one, other = simulated(objects), simulated(shuffled)

    assert one.intents == other.intents
    assert one.binds == other.binds


@given(clusters)
@settings(max_examples=examples(40), deadline=None)
def test_a_new_core_has_nothing_to_add_to_what_the_old_one_did(cluster: dict[str, Any]):
    """Everything it must know is in the facts, so nothing is decided twice or differently."""
    simulation = simulated(objects_of(cluster))
    simulation.advance(5)
    asked, phases = len(simulation.intents), phases_of(simulation)
    simulation.restart(SchedulerCore(PLAIN))

    # Only how short a job is may be said anew, in the words of today.
    assert [i for i in simulation.intents[asked:] if not isinstance(i, PatchObject)] == []
    assert phases_of(simulation) == phases


@given(clusters, st.sets(st.integers(0, 30), max_size=10))
@settings(max_examples=examples(40), deadline=None)
def test_what_is_refused_is_given_back_and_tried_again(
    cluster: dict[str, Any], refused_turns: set[int]
):
    turn = -1

    def may_bind(_: PodBinding) -> bool:
        nonlocal turn
        turn += 1
        return turn not in refused_turns

    simulation = simulated(objects_of(cluster), may_bind=may_bind)
    simulation.advance(25)

    check_no_node_is_overcommitted(simulation)
    check_gangs_are_whole_or_absent(simulation)
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    assert len(core.cluster.ledger) == 0
    standing = {
        uid for name in core.cluster.nodes.names for uid in core.cluster.occupancy.on_node(name)
    }
    asked = [i for i in simulation.intents if isinstance(i, BindGang)]
    for gang_asked in asked:
        for bind in gang_asked.binds:
            has_room = bind.uid in standing
            waits = (gang_asked.namespace, gang_asked.name) in core.explanations
            assert has_room or waits, f"{bind.name} was asked for once and then forgotten"
