"""What is said on pods, PodGroups and queues, and that it is said once."""

from collections import Counter
from typing import Any

from msgspec.structs import replace

from stromboli.api.core import Pod, PodSchedulingGate
from stromboli.api.meta import Condition, KubeObject
from stromboli.contracts.intents import PatchObject
from stromboli.scheduling.conf_file import read_conf
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

PREEMPT = read_conf("""
actions: enqueue, allocate, backfill, preempt
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")


def cluster(*objects: KubeObject | list[KubeObject], **options: Any) -> Simulation:
    conf = options.pop("conf", PLAIN)
    simulation = Simulation(SchedulerCore(conf), **options)
    simulation.put(queue())
    add(simulation, *objects)
    return simulation


def add(simulation: Simulation, *objects: KubeObject | list[Any]) -> None:
    for item in objects:
        for one in item if isinstance(item, list) else [item]:
            simulation.put(one)
    simulation.run()


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
        "a-main-3: 0/1 nodes are unavailable: 1 Insufficient cpu.",
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


def test_it_can_be_asked_who_is_ahead():
    simulation = cluster(priority_class("high", 10), node("n1", cpu="2"))
    for name, others in (("c", {}), ("b", {}), ("a", {"priority_class_name": "high"})):
        add(simulation, gang(name, 3, group=others))
    core = simulation.core
    assert isinstance(core, SchedulerCore)

    assert core.ahead_of(("test", "c")) == [("test", "a"), ("test", "b")]
    assert core.ahead_of(("test", "a")) == []
    assert core.ahead_of(("test", "nobody")) == []
