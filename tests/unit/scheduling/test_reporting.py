"""What is said on pods, PodGroups and queues, and that it is said once."""

from collections import Counter
from typing import Any

from msgspec.structs import replace

from stromboli.api.core import Pod, PodSchedulingGate
from stromboli.api.meta import Condition
from stromboli.api.timestamps import parse_time
from stromboli.contracts.intents import PatchObject
from stromboli.scheduling.conf_file import read_conf
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
from stromboli.testkit.small_clusters import add, cluster, core_of, message

PREEMPT = read_conf("""
actions: enqueue, allocate, backfill, preempt
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")


def scheduled_condition(simulation: Simulation, name: str) -> tuple[str, str, str] | None:
    found: Pod = simulation.get("pod", "test", name)
    for condition in found.status.conditions:
        if condition.type == "PodScheduled":
            return condition.status, condition.reason, condition.message
    return None


def patches(simulation: Simulation, kind: str) -> list[PatchObject]:
    return [i for i in simulation.intents if isinstance(i, PatchObject) and i.kind == kind]


def reasons(simulation: Simulation) -> Counter[tuple[str, str]]:
    return Counter((e["involvedObject"]["kind"], e["reason"]) for e in simulation.events)


# Pods.


def test_pods_of_a_gang_that_waits_are_told_why_but_not_at_once():
    simulation = cluster(node("n1", cpu="3"), gang("a", 4))
    assert patches(simulation, "pod") == []

    simulation.advance(2)
    assert scheduled_condition(simulation, "a-main-0") == (
        "False",
        "Schedulable",
        "Pod test/a-main-0 can possibly be assigned to n1, once minAvailable is satisfied",
    )
    assert scheduled_condition(simulation, "a-main-3") == (
        "False",
        "Unschedulable",
        "0/1 nodes are unavailable: 1 Insufficient cpu.",
    )
    assert len(patches(simulation, "pod")) == 4
    assert reasons(simulation)["Pod", "FailedScheduling"] == 1


def test_pods_are_not_told_the_same_again():
    simulation = cluster(node("n1", cpu="3"), gang("a", 4))
    simulation.advance(2)
    asked = len(patches(simulation, "pod"))

    add(simulation, node("n2", cpu="500m"))
    simulation.advance(40)
    assert len(patches(simulation, "pod")) == asked


def test_conditions_of_others_stay_on_the_pod():
    waiting = pod("a-main-0", group="a", cpu="9")
    theirs = Condition(type="example.com/Checked", status="True", reason="Fine")
    waiting = replace(waiting, status=replace(waiting.status, conditions=(theirs,)))
    simulation = cluster(node("n1"), pod_group("a", min_member=1), waiting)

    simulation.advance(2)
    found: Pod = simulation.get("pod", "test", "a-main-0")
    assert [c.type for c in found.status.conditions] == ["example.com/Checked", "PodScheduled"]


def test_a_gated_pod_is_told_nothing():
    gated = pod("a-main-0", group="a", scheduling_gates=(PodSchedulingGate(name="wait"),))
    simulation = cluster(node("n1", cpu="1"), pod_group("a", min_member=1), gated)

    simulation.advance(5)
    assert patches(simulation, "pod") == []


def test_many_pods_are_told_in_portions():
    simulation = cluster(node("n1", cpu="1"), gang("a", 450))

    simulation.advance(1.01)
    assert len(patches(simulation, "pod")) == 200
    simulation.advance(1)
    assert len(patches(simulation, "pod")) == 450


# Binds that fail.


def test_a_pod_whose_binding_failed_is_told_so():
    refusing = {"a-main-0"}
    simulation = cluster(node("n1"), gang("a", 2), may_bind=lambda bind: bind.name not in refusing)

    assert scheduled_condition(simulation, "a-main-0") == (
        "False",
        "SchedulerError",
        "failed to bind to node n1: the rule of the simulation refuses it",
    )
    assert scheduled_condition(simulation, "a-main-1") is None
    failed = [e["message"] for e in simulation.events if e["reason"] == "FailedScheduling"]
    assert failed == ["failed to bind to node n1: the rule of the simulation refuses it"]


def test_binding_that_fails_again_and_again_is_written_once():
    attempts: list[str] = []

    def may_bind(bind: Any) -> bool:
        attempts.append(bind.name)
        return False

    simulation = cluster(node("n1"), gang("a", 2), may_bind=may_bind)
    simulation.advance(25)
    assert len(attempts) > 6

    assert len(patches(simulation, "pod")) == 2
    assert reasons(simulation)["Pod", "FailedScheduling"] == 1


def test_a_pod_that_could_not_be_bound_and_now_has_no_room_says_that():
    simulation = cluster(node("n1", cpu="2"), gang("a", 2), may_bind=lambda _: False)
    simulation.put(pod("other", cpu="2", on="n1"))
    simulation.advance(40)

    found = scheduled_condition(simulation, "a-main-0")
    assert found is not None
    assert found[1] == "Unschedulable"


# Evictions.


def preempted(**options: Any) -> Simulation:
    simulation = cluster(
        priority_class("high", 100),
        node("n1", cpu="2"),
        gang("low", 2, min_member=0),
        conf=PREEMPT,
        **options,
    )
    add(simulation, gang("high", 1, group={"priority_class_name": "high"}))
    return simulation


def test_the_node_that_others_leave_is_named_on_the_pod():
    simulation = preempted(lingering=True)

    assert simulation.evictions == [("test", "low-main-1")]
    found: Pod = simulation.get("pod", "test", "high-main-0")
    assert found.status.nominated_node_name == "n1"
    assert scheduled_condition(simulation, "high-main-0") == (
        "False",
        "Unschedulable",
        (
            "Pod test/high-main-0 can possibly be assigned to n1, "
            "once resource is released and minAvailable is satisfied"
        ),
    )
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    assert core.explanations["test", "high"].code is Code.WAITING_FOR_RELEASE
    assert reasons(simulation)["Pod", "Evict"] == 1
    assert reasons(simulation)["PodGroup", "Evict"] == 1


def conditions(simulation: Simulation, name: str) -> dict[str, tuple[str, str, str]]:
    found: Pod = simulation.get("pod", "test", name)
    return {c.type: (c.status, c.reason, c.message) for c in found.status.conditions}


def test_a_victim_says_that_it_was_told_to_go():
    simulation = preempted(lingering=True)

    assert conditions(simulation, "low-main-1") == {
        "DisruptionTarget": (
            "True",
            "PreemptionByScheduler",
            "volcano: preempting to accommodate a higher priority pod",
        ),
        "Ready": ("False", "Evict", ""),
    }
    assert conditions(simulation, "low-main-0") == {}


def test_a_pod_that_its_budget_keeps_is_no_victim():
    simulation = preempted(may_evict=lambda _: False)
    simulation.advance(60)

    assert conditions(simulation, "low-main-1") == {}


def test_a_node_where_a_pod_no_longer_waits_is_not_named_any_more():
    simulation = preempted(lingering=True)
    simulation.put(pod("intruder", cpu="1", on="n1"))
    simulation.delete("pod", "test", "low-main-1")
    low = simulation.get("pod", "test", "low-main-0")
    simulation.put(
        replace(
            low,
            metadata=replace(
                low.metadata,
                annotations={**low.metadata.annotations, "volcano.sh/preemptable": "false"},
            ),
        )
    )
    simulation.run()
    simulation.advance(3)

    found: Pod = simulation.get("pod", "test", "high-main-0")
    assert found.status.nominated_node_name == ""
    assert scheduled_condition(simulation, "high-main-0") is not None
    asked = len(patches(simulation, "pod"))
    simulation.advance(120)
    assert len(patches(simulation, "pod")) == asked


def test_it_binds_there_when_they_are_gone():
    simulation = preempted(lingering=True)
    simulation.end_pods()
    simulation.run()

    assert simulation.binds["test", "high-main-0"] == "n1"
    assert len(simulation.evictions) == 1


def test_nobody_else_is_evicted_while_the_victim_takes_its_time():
    simulation = preempted(lingering=True)
    simulation.advance(120)

    assert len(simulation.evictions) == 1


def test_a_victim_that_may_not_go_is_asked_again_only_after_a_while():
    asked: list[str] = []

    def may_evict(intent: Any) -> bool:
        asked.append(intent.name)
        return False

    simulation = preempted(may_evict=may_evict)
    assert asked == ["low-main-1", "low-main-0"]

    simulation.advance(5)
    assert len(asked) == 2
    simulation.advance(10)
    assert len(asked) == 4


def test_a_new_core_does_not_evict_twice():
    simulation = preempted(lingering=True)
    simulation.restart(SchedulerCore(PREEMPT))

    assert len(simulation.evictions) == 1
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    assert core.pipelined == {("test", "high-main-0"): "n1"}


# Events.


def test_a_job_that_waits_is_announced_once_per_reason():
    simulation = cluster(node("n1", cpu="3"), gang("a", 4))
    simulation.advance(30)
    add(simulation, node("n2", cpu="100m"))
    simulation.advance(30)

    assert reasons(simulation)["PodGroup", "Unschedulable"] == 1


def test_what_was_announced_is_not_announced_again_after_a_restart():
    simulation = cluster(node("n1", cpu="3"), gang("a", 4))
    simulation.advance(30)
    told = len(simulation.events)
    simulation.restart(SchedulerCore(PLAIN))
    simulation.advance(30)

    assert len(simulation.events) == told


def test_a_large_gang_is_no_storm_of_events():
    nodes = [node(f"n{number}", cpu="400", memory="1Ti", pods="400") for number in range(3)]
    simulation = cluster(*nodes, gang("a", 1000))

    assert len(simulation.binds) == 1000
    assert 50 <= reasons(simulation)["Pod", "Scheduled"] <= 100
    message = next(e["message"] for e in simulation.events if e["reason"] == "Scheduled")
    assert message in {"pod group is ready", "Successfully assigned test/a-main-0 to n0"}


def test_jobs_that_are_refused_cost_the_same_writes_however_often_they_are_looked_at():
    simulation = cluster(node("n1", cpu="3"))
    for number in range(20):
        add(simulation, gang(f"j{number:02}", 4))
    simulation.advance(3)
    written = len(simulation.intents)
    told = len(simulation.history)

    for number in range(30):
        # Everything is looked at again, while what is free goes up and down.
        simulation.put(node("n1", cpu=str(2 + number % 2)))
        simulation.run()
        simulation.safety_pass()
        simulation.advance(0.1)

    assert len(simulation.intents) == written
    assert len(simulation.history) == told
    assert reasons(simulation)["PodGroup", "Unschedulable"] == 20


# Queues.


def allocated(simulation: Simulation, name: str) -> dict[str, Any]:
    return simulation.get("queue", "", name).status.allocated


def test_a_queue_shows_what_its_pods_use_and_so_does_its_parent():
    simulation = cluster(
        queue("root"),
        queue("team", parent="root"),
        node("n1"),
        gang("a", 2, group={"in_queue": "team"}),
    )
    simulation.advance(2)

    used = {"cpu": "2", "memory": "2147483648", "pods": "2"}
    assert allocated(simulation, "team") == used
    assert allocated(simulation, "root") == used
    assert allocated(simulation, "default") == {}


def test_the_figure_goes_down_again_and_is_written_only_on_change():
    simulation = cluster(node("n1"), gang("a", 2))
    simulation.advance(2)
    written = len(patches(simulation, "queue"))
    simulation.advance(60)
    assert len(patches(simulation, "queue")) == written

    for number in range(2):
        simulation.delete("pod", "test", f"a-main-{number}")
    simulation.run()
    simulation.advance(2)
    assert allocated(simulation, "default") == {}


# Explanations.


def test_an_explanation_says_since_when_and_when_it_was_last_looked_at():
    simulation = cluster(node("n1", cpu="2"), gang("a", 4))
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    began = simulation.now
    simulation.advance(10)
    add(simulation, node("n2", cpu="1"))

    explanation = core.explanations["test", "a"]
    assert (explanation.since, explanation.evaluated) == (began, began + 10)
    assert explanation.short_by == (("cpu", 1000),)


def full_cluster() -> Simulation:
    simulation = cluster(priority_class("high", 10), node("n1", cpu="4"), gang("runs", 2))
    for name, others in (("c", {}), ("b", {}), ("a", {"priority_class_name": "high"})):
        add(simulation, gang(name, 3, group=others))
    return simulation


def test_a_job_that_waits_for_its_turn_is_told_who_comes_first():
    simulation = full_cluster()
    simulation.advance(31)
    core = core_of(simulation)
    simulation.safety_pass()

    explanation = core.explanations["test", "c"]
    assert (explanation.ahead, explanation.ahead_in_all) == (("test/a", "test/b"), 2)
    assert "; 2 of its queue come first (test/a, test/b); it goes on when" in message(
        simulation, "c"
    )
    assert core.explanations["test", "a"].ahead == ()


def test_it_can_be_asked_who_is_ahead():
    simulation = full_cluster()
    core = core_of(simulation)
    assert core.ahead_of(("test", "c")) == [("test", "a"), ("test", "b")]
    assert core.ahead_of(("test", "a")) == []
    assert core.ahead_of(("test", "nobody")) == []

    # A job that no room could help is in nobody's way, nor is one that is gone.
    simulation.delete("vcpodgroup", "test", "b")
    add(simulation, gang("hopeless", 9, group={"priority_class_name": "high"}))
    assert core.ahead_of(("test", "c")) == [("test", "a")]


def test_a_job_whose_pods_are_gated_says_so():
    gated = pod("a-main-0", group="a", scheduling_gates=(PodSchedulingGate(name="wait"),))
    simulation = cluster(
        node("n1"), pod_group("a", min_member=2), gated, pod("a-main-1", group="a")
    )

    assert core_of(simulation).explanations["test", "a"].code is Code.HELD
    assert "Held: 1 of its pods are held by scheduling gates" in message(simulation, "a")


def test_since_when_a_job_waits_stands_in_its_condition_and_outlives_the_scheduler():
    simulation = cluster(node("n1", cpu="2"), gang("a", 4))
    began = simulation.now
    simulation.advance(100)
    add(simulation, node("n2", cpu="1"))
    assert "lack 1 cpu" in message(simulation, "a")

    (condition,) = simulation.get("vcpodgroup", "test", "a").status.conditions
    assert parse_time(condition.last_transition_time).timestamp() == began
    told = len(simulation.history)

    simulation.restart(SchedulerCore(PLAIN))
    assert core_of(simulation).explanations["test", "a"].since == began
    assert len(simulation.history) == told


def test_room_in_crumbs_and_no_room_are_not_told_in_turns():
    simulation = cluster(node("n1", cpu="4"), node("n2", cpu="4"), gang("runs", 6))
    add(simulation, gang("waits", 1, cpu="3"))
    simulation.advance(3)
    written, told = len(simulation.intents), len(simulation.history)

    for number in range(20):
        simulation.put(node("n2", cpu=("4", "5")[number % 2]))
        simulation.run()
        simulation.advance(0.2)

    assert (len(simulation.intents), len(simulation.history)) == (written, told)
