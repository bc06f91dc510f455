"""What the core decides, seen from outside: objects in, binds and statuses out."""

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
from stromboli.api.meta import Condition, KubeObject, ObjectMeta, OwnerReference
from stromboli.api.scheduling import PodGroup
from stromboli.api.selectors import Requirement
from stromboli.contracts.intents import BindGang, EvictPod, PatchObject
from stromboli.contracts.outcomes import Reason, Refused
from stromboli.contracts.stimuli import OutcomeHeard, Unanswered, WokeUp
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code
from stromboli.scheduling.simulation import Simulation
from stromboli.testkit.scheduling_objects import (
    PLAIN,
    gang,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
)


def cluster(*objects: KubeObject | list[KubeObject], **options: Any) -> Simulation:
    simulation = Simulation(SchedulerCore(PLAIN), **options)
    simulation.put(queue())
    add(simulation, *objects)
    return simulation


def add(simulation: Simulation, *objects: KubeObject | list[Any]) -> None:
    for item in objects:
        for one in item if isinstance(item, list) else [item]:
            simulation.put(one)
    simulation.run()


def core_of(simulation: Simulation) -> SchedulerCore:
    assert isinstance(simulation.core, SchedulerCore)
    return simulation.core


def group(simulation: Simulation, name: str) -> PodGroup:
    return simulation.get("vcpodgroup", "test", name)


def message(simulation: Simulation, name: str) -> str:
    conditions = group(simulation, name).status.conditions
    return next((c.message for c in conditions if c.type == "Unschedulable"), "")


def code(simulation: Simulation, name: str) -> Code | None:
    explanation = core_of(simulation).explanations.get(("test", name))
    return explanation.code if explanation else None


def bound(simulation: Simulation) -> dict[str, str]:
    return {name: node for (_, name), node in simulation.binds.items()}


def change(simulation: Simulation, name: str, **status: Any) -> None:
    """A pod's status changes."""
    found = simulation.get("pod", "test", name)
    simulation.put(replace(found, status=replace(found.status, **status)))
    simulation.run()


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


# Refusals, silence, time.


def test_a_refused_bind_gives_the_room_back_and_is_tried_again():
    tries = 0

    def second_time_lucky(_: object) -> bool:
        nonlocal tries
        tries += 1
        return tries > 2

    simulation = cluster(node("n1", cpu="2"), gang("a", 2), may_bind=second_time_lucky)
    assert bound(simulation) == {}
    assert code(simulation, "a") is Code.BACKOFF
    assert "the rule of the simulation refuses it" in message(simulation, "a")

    simulation.advance(1)
    assert len(bound(simulation)) == 2
    assert core_of(simulation).cluster.nodes.used[0, 0] == 2000


def test_room_that_was_promised_is_not_promised_again(monkeypatch: pytest.MonkeyPatch):
    said: list[Any] = []
    monkeypatch.setattr(Simulation, "_perform", lambda _, out: said.extend(out))
    simulation = cluster(node("n1", cpu="2"), gang("a", 2))
    add(simulation, gang("b", 1))
    said += simulation.core.handle(WokeUp(), now=simulation.now)

    binds = [intent for intent in said if isinstance(intent, BindGang)]
    assert [intent.name for intent in binds] == ["a"]


@pytest.mark.parametrize("answer", ["refused", "unanswered"])
def test_silence_and_refusal_both_give_the_room_back(answer: str, monkeypatch: pytest.MonkeyPatch):
    said: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "_perform", lambda _, out: said.extend(out))
        simulation = cluster(node("n1", cpu="2"), gang("a", 2))
    core = core_of(simulation)
    (bind,) = [intent for intent in said if isinstance(intent, BindGang)]
    assert core.cluster.nodes.used[0, 0] == 2000
    if answer == "refused":
        outcome = Refused(
            intent_id=bind.id,
            service="scheduler",
            verb=bind.verb,
            kind="pod",
            key=bind.key,
            reason=Reason.EXPIRED,
            message="too late",
        )
        simulation._perform(core.handle(OutcomeHeard(outcome), now=simulation.now))
    else:
        simulation._perform(core.handle(Unanswered(bind), now=simulation.now))
    assert core.cluster.nodes.used[0, 0] == 0

    simulation.advance(1)
    assert len(bound(simulation)) == 2


def test_a_status_is_asked_for_once_and_again_only_when_it_was_not_written(
    monkeypatch: pytest.MonkeyPatch,
):
    said: list[Any] = []
    monkeypatch.setattr(Simulation, "_perform", lambda _, out: said.extend(out))
    simulation = cluster(node("n1", cpu="2"), pod_group("a", min_member=1))
    core = core_of(simulation)
    said += core.handle(WokeUp(), now=simulation.now)
    (patch,) = [intent for intent in said if isinstance(intent, PatchObject)]
    said.clear()
    core.handle(Unanswered(patch), now=simulation.now + 20)
    said += core.handle(WokeUp(), now=simulation.now + 22)

    (again,) = [intent for intent in said if isinstance(intent, PatchObject)]
    assert (again.name, again.uid) == (patch.name, patch.uid)
    assert again.id != patch.id


def test_a_gang_bound_in_part_is_completed_before_anything_else():
    refused = {"a-main-1"}
    simulation = cluster(
        node("n1", cpu="2"),
        priority_class("high", 10),
        gang("a", 2),
        may_bind=lambda bind: bind.name not in refused,
    )
    assert list(bound(simulation)) == ["a-main-0"]
    add(simulation, gang("b", 1, group={"priority_class_name": "high"}))
    assert code(simulation, "a") is Code.BACKOFF
    refused.clear()
    simulation.advance(2)

    assert list(bound(simulation)) == ["a-main-0", "a-main-1"]
    assert group(simulation, "a").status.phase == "Running"


def test_a_gang_that_stays_in_part_is_evicted_whole():
    simulation = cluster(
        node("n1", cpu="4"), gang("a", 3), may_bind=lambda bind: bind.name != "a-main-2"
    )
    simulation.advance(29)
    assert len(bound(simulation)) == 2
    simulation.advance(16)

    evicted = [intent.name for intent in simulation.intents if isinstance(intent, EvictPod)]
    assert evicted == ["a-main-0", "a-main-1"]
    assert [record.what for record in simulation.history].count("gang.evicted") == 1
    assert core_of(simulation).cluster.nodes.used[0, 0] == 0


def test_nobody_looks_at_jobs_that_nothing_could_have_helped(monkeypatch: pytest.MonkeyPatch):
    simulation = cluster(node("n1", cpu="4"), *(gang(f"big{n}", 9) for n in range(20)))
    core = core_of(simulation)
    looked_at: list[Any] = []
    original = core._conclude

    def noting(key: Any, *rest: Any) -> Any:
        looked_at.append(key[1])
        return original(key, *rest)

    monkeypatch.setattr(core, "_conclude", noting)
    add(simulation, gang("small", 1))
    change(simulation, "small-main-0", phase="Succeeded")

    assert set(looked_at) == {"small"}
    simulation._perform(core.handle(WokeUp(), now=simulation.now + 30))
    assert len(set(looked_at)) == 21


# Status.


def test_counts_and_phases_follow_the_pods():
    simulation = cluster(node("n1"), gang("a", 2))
    change(simulation, "a-main-0", phase="Running")
    change(simulation, "a-main-1", phase="Running")
    assert (group(simulation, "a").status.phase, group(simulation, "a").status.running) == (
        "Running",
        2,
    )
    change(simulation, "a-main-0", phase="Succeeded")
    change(simulation, "a-main-1", phase="Failed")
    status = group(simulation, "a").status

    assert status.phase == "Completed"
    assert (status.running, status.succeeded, status.failed) == (0, 1, 1)


def test_a_running_gang_that_lost_a_pod_is_unknown():
    simulation = cluster(node("n1"), gang("a", 2))
    for name in ("a-main-0", "a-main-1"):
        change(simulation, name, phase="Running")
    simulation.delete("pod", "test", "a-main-1")
    simulation.run()
    simulation.advance(2)

    assert group(simulation, "a").status.phase == "Unknown"
    assert "pod group is not ready, 1 Running, 2 minAvailable" in message(simulation, "a")


def test_the_end_of_a_job_reads_as_in_volcano():
    """The words of a real cluster: one task succeeded, the others are being removed."""
    simulation = cluster(node("n1"), gang("mpi", 4))
    change(simulation, "mpi-main-0", phase="Succeeded")
    for number in (1, 2, 3):
        name = f"mpi-main-{number}"
        found = simulation.get("pod", "test", name)
        metadata = replace(found.metadata, deletion_timestamp="2030-01-01T00:00:10Z")
        simulation.put(replace(found, metadata=metadata))
    simulation.run()
    simulation.advance(2)

    assert message(simulation, "mpi").startswith(
        "3/4 tasks in gang unschedulable: pod group is not ready, "
        "1 Succeeded, 3 Releasing, 4 minAvailable"
    )
    types = [condition.type for condition in group(simulation, "mpi").status.conditions]
    assert types == ["Scheduled", "Unschedulable"]


def test_the_same_reason_is_not_written_again_with_other_numbers_at_once():
    simulation = cluster(node("n1", cpu="4"), gang("first", 3), gang("second", 3))
    first = message(simulation, "second")
    assert first
    change(simulation, "first-main-0", phase="Succeeded")
    assert message(simulation, "second") == first

    simulation.advance(6)
    simulation._perform(simulation.core.handle(WokeUp(), now=simulation.now))
    simulation.run()
    assert message(simulation, "second") != first


# Bad facts.


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
