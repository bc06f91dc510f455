"""Gangs, their minimums and their order: what the core decides, seen from outside."""

from msgspec.structs import replace

from stromboli.api.meta import KubeObject, OwnerReference
from stromboli.contracts.intents import BindGang, PatchObject
from stromboli.scheduling.core import SchedulerCore
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
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import (
    add,
    bound,
    change,
    cluster,
    code,
    group,
    message,
)

# Gangs.


def test_a_gang_is_spread_over_the_nodes_and_bound_whole():
    simulation = cluster(node("n1"), node("n2"), gang("a", 4))

    assert bound(simulation) == {
        "a-main-0": "n1",
        "a-main-1": "n2",
        "a-main-2": "n1",
        "a-main-3": "n2",
    }
    status = group(simulation, "a").status
    assert status.phase == "Running"
    assert [(c.type, c.status, c.reason) for c in status.conditions] == [
        ("Scheduled", "True", "tasks in gang are ready to be scheduled")
    ]
    # Admitted and ready is one write, running is the other.
    patched = [i.kind for i in simulation.intents if isinstance(i, PatchObject)]
    assert patched.count("vcpodgroup") == 2


def test_a_gang_waits_until_the_whole_of_it_fits():
    simulation = cluster(node("n1", cpu="3"), gang("a", 4))
    assert bound(simulation) == {}

    add(simulation, node("n2", cpu="1"))
    assert len(bound(simulation)) == 4


def test_a_gang_too_large_says_what_it_is_short_of():
    simulation = cluster(node("n1", cpu="3"), gang("a", 4))

    assert group(simulation, "a").status.phase == "Inqueue"
    assert message(simulation, "a") == (
        "1/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; "
        "Pending: 1 Unschedulable, 3 Schedulable. Origin reason is a-main-3: "
        "0/1 nodes are unavailable: 1 Insufficient cpu. "
        "ExceedsMax: it needs 4 cpu, 4Gi memory, 4 pods at once, all suitable nodes lack 1 cpu; "
        "it goes on when a node is added or changed"
    )


def test_a_gang_in_a_full_cluster_goes_on_when_pods_end():
    simulation = cluster(node("n1", cpu="4"), gang("first", 3))
    add(simulation, gang("second", 2))
    assert code(simulation, "second") is Code.CLUSTER_FULL
    assert "short of 1 cpu" in message(simulation, "second")

    change(simulation, "first-main-0", phase="Succeeded")
    assert [name for name in bound(simulation) if name.startswith("second")] == [
        "second-main-0",
        "second-main-1",
    ]
    assert code(simulation, "second") is None


def test_room_that_is_free_only_in_crumbs_is_called_so():
    simulation = cluster(node("n1", cpu="1500m"), node("n2", cpu="1500m"), gang("a", 3, cpu="1"))

    assert bound(simulation) == {}
    assert code(simulation, "a") is Code.FRAGMENTED


def test_a_gang_whose_pods_are_still_being_made_is_not_bothered():
    simulation = cluster(node("n1"), pod_group("a", min_member=2), pod("a-main-0", group="a"))
    assert message(simulation, "a") == ""

    simulation.advance(2)
    assert "2/1 tasks in gang unschedulable: pod group is not ready, 1 Pending" in message(
        simulation, "a"
    )
    assert "GangIncomplete: 1 of at least 2 pods exist" in message(simulation, "a")
    add(simulation, pod("a-main-1", group="a"))
    assert len(bound(simulation)) == 2


def test_a_gang_of_many_is_bound_in_parts_of_one_attempt():
    nodes = [node(f"n{number}", cpu="400", memory="1Ti", pods="400") for number in range(3)]
    simulation = cluster(*nodes, gang("a", 1100))

    parts = [intent for intent in simulation.intents if isinstance(intent, BindGang)]
    assert [(part.part, part.parts, len(part.binds)) for part in parts] == [
        (0, 3, 500),
        (1, 3, 500),
        (2, 3, 100),
    ]
    assert len({part.attempt for part in parts}) == 1


def test_what_a_gang_wants_beyond_its_minimum_comes_after_other_gangs():
    simulation = cluster(
        node("n1", cpu="4"), gang("a", 4, min_member=2), gang("b", 2, min_member=2)
    )

    assert sorted(bound(simulation)) == ["a-main-0", "a-main-1", "b-main-0", "b-main-1"]
    assert group(simulation, "a").status.phase == "Running"
    assert message(simulation, "a") == ""


def test_intents_are_ordered_by_the_root_owner():
    owner = OwnerReference(
        api_version="batch.volcano.sh/v1alpha1", kind="Job", name="mpi", uid="j", controller=True
    )
    owned = pod_group("mpi-x", min_member=1)
    owned = replace(owned, metadata=replace(owned.metadata, owner_references=(owner,)))
    simulation = cluster(node("n1"), owned, pod("mpi-main-0", group="mpi-x"))

    of_job = [intent for intent in simulation.intents if intent.kind != "queue"]
    assert {intent.key for intent in of_job} == {"vcjob/test/mpi"}
    assert {(record.job, record.uid) for record in simulation.history} == {("mpi", "j")}


# Reference cases A1 to A4: role minimums.


def roles(least: int, minimums: dict[str, int], *names: str) -> list[KubeObject]:
    return [
        pod_group("pg1", min_member=least, min_task_member=minimums),
        *(
            pod(f"p{n}", group="pg1", role=role, node_selector={"role": role}, memory="1G")
            for n, role in enumerate(names)
        ),
    ]


def role_node(name: str, role: str, cpu: str) -> KubeObject:
    return node(name, cpu=cpu, memory="4Gi", labels={"role": role})


def test_a_role_that_finds_no_node_does_not_stop_a_gang_that_can_do_without():
    simulation = cluster(role_node("n1", "worker", "2"), roles(1, {}, "master", "worker"))

    assert bound(simulation) == {"p1": "n1"}


def test_each_role_gets_its_minimum():
    tasks = roles(2, {"master": 1, "worker": 1}, "master", "master", "worker", "worker")
    simulation = cluster(role_node("n1", "master", "1"), role_node("n2", "worker", "1"), tasks)

    assert bound(simulation) == {"p0": "n1", "p2": "n2"}


def test_a_gang_does_not_start_without_the_minimum_of_a_role():
    tasks = roles(2, {"master": 2, "worker": 0}, "master", "master", "worker", "worker")
    simulation = cluster(role_node("n1", "master", "1"), role_node("n2", "worker", "2"), tasks)

    assert bound(simulation) == {}


def test_a_group_without_a_minimum_takes_what_it_gets():
    simulation = cluster(node("n1", cpu="2"), gang("a", 3, min_member=0))

    assert len(bound(simulation)) == 2


# Order.


def test_the_higher_priority_goes_first_then_the_older_then_the_first_by_name():
    simulation = Simulation(SchedulerCore(PLAIN))
    for item in (
        queue(),
        priority_class("high", 10),
        *gang("young", 1, group={"created": "2030-01-01T00:00:02Z"}),
        *gang(
            "urgent", 1, group={"created": "2030-01-01T00:00:03Z", "priority_class_name": "high"}
        ),
        *gang("b", 1),
        *gang("a", 1),
        node("n1", cpu="3"),
    ):
        simulation.put(item)
    simulation.run()

    assert list(bound(simulation)) == ["urgent-main-0", "a-main-0", "b-main-0"]


def test_the_same_facts_in_another_order_are_the_same_decision():
    objects: list[KubeObject] = [queue(), *gang("a", 2), node("n2"), node("n1"), *gang("b", 1)]
    one, other = Simulation(SchedulerCore(PLAIN)), Simulation(SchedulerCore(PLAIN))
    for item in objects:
        one.put(item)
    for item in reversed(objects):
        other.put(item)
    one.run()
    other.run()

    assert one.intents == other.intents
