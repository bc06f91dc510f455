"""The budget of a scheduler that takes over: what its predecessor spent is in the pods."""

from datetime import UTC, datetime

from msgspec.structs import replace

from stromboli.api.core import Pod
from stromboli.api.meta import Condition
from stromboli.api.timestamps import format_time
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.scheduling_objects import node, pod, pod_group, priority_class
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import cluster

CONF = SchedulingConf(
    actions=("allocate", "preempt"),
    tiers=(
        (
            PluginConf("priority"),
            PluginConf("predicates"),
            PluginConf("eviction-budget", {"evictions": 1, "window": "1m"}),
        ),
    ),
)


def told_to_go(name: str, at: str, reason: str = "PreemptionByScheduler") -> Pod:
    made = pod(name, group="low", on="n1", phase="Running", ending=True)
    condition = Condition(
        type="DisruptionTarget", status="True", reason=reason, last_transition_time=at
    )
    return replace(made, status=replace(made.status, conditions=(condition,)))


def taken_over(*ending: Pod) -> Simulation:
    """Room for two, both taken; two that matter more wait."""
    standing = [
        pod(f"low-main-{number}", group="low", on="n1", phase="Running")
        for number in range(len(ending), 2)
    ]
    return cluster(
        node("n1", cpu="2"),
        priority_class("high", 10),
        pod_group("low", min_member=0, phase="Running"),
        *ending,
        *standing,
        pod_group("high", min_member=0, phase="Inqueue", priority_class_name="high"),
        *(pod(f"high-main-{number}", group="high") for number in range(2)),
        conf=CONF,
        lingering=True,
    )


def seconds_ago(simulation: Simulation, seconds: float) -> str:
    return format_time(datetime.fromtimestamp(simulation.now - seconds, tz=UTC))


def test_without_a_predecessor_the_whole_budget_is_there():
    assert len(taken_over().evictions) == 1


def test_pods_that_are_ending_because_a_scheduler_told_them_count():
    now = seconds_ago(cluster(), 0)

    assert taken_over(told_to_go("low-main-0", now)).evictions == []


def test_pods_that_are_ending_for_another_reason_do_not_count():
    now = seconds_ago(cluster(), 0)
    ending = told_to_go("low-main-0", now, reason="DeletionByTaintManager")

    assert len(taken_over(ending).evictions) == 1


def test_what_was_spent_before_the_window_does_not_count():
    before = seconds_ago(cluster(), 61)

    assert len(taken_over(told_to_go("low-main-0", before)).evictions) == 1


def test_a_successor_waits_for_the_same_moment_as_its_predecessor():
    simulation = taken_over()
    assert len(simulation.evictions) == 1
    simulation.advance(30)
    simulation.restart(SchedulerCore(CONF))
    assert len(simulation.evictions) == 1

    simulation.advance(31)
    assert len(simulation.evictions) == 2


def gangs_evicted(*, minimum: int) -> list[str]:
    """Two stand where one that matters more wants a place, and one may be told to go."""
    simulation = cluster(
        node("n1", cpu="2"),
        priority_class("high", 10),
        pod_group("low", min_member=minimum, phase="Running"),
        *(pod(f"low-main-{number}", group="low", on="n1", phase="Running") for number in range(2)),
        pod_group("high", min_member=1, phase="Inqueue", priority_class_name="high"),
        pod("high-main-0", group="high"),
        conf=SchedulingConf(actions=("allocate", "gangpreempt"), tiers=CONF.tiers),
        lingering=True,
    )
    return [name for _, name in simulation.evictions]


def test_of_pods_that_a_gang_can_spare_as_many_go_as_the_budget_allows():
    assert len(gangs_evicted(minimum=0)) == 1


def test_a_gang_that_can_spare_nothing_is_not_broken_up_for_a_part_of_it():
    assert gangs_evicted(minimum=2) == []
