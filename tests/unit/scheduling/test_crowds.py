"""Of waiting jobs that are alike the first is looked at, and the next when that one started."""

import pytest

from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.scheduling_objects import PLAIN, gang, node, pod, priority_class, queue
from stromboli.testkit.simulation import Simulation

LIMITED = SchedulingConf(
    tiers=(
        (PluginConf("priority"), PluginConf("gang")),
        (PluginConf("predicates"), PluginConf("capacity")),
    )
)
EVICTING = SchedulingConf(
    actions=("enqueue", "allocate", "preempt", "reclaim", "backfill"), tiers=PLAIN.tiers
)


def waiting_behind(olds: int, conf: SchedulingConf = PLAIN, *, waiting: int = 6) -> Simulation:
    """A node full of strangers, and jobs of one pod each that wait for it."""
    simulation = Simulation(SchedulerCore(conf))
    simulation.put(queue())
    simulation.put(priority_class("high", 10))
    simulation.put(node("n1", cpu=str(olds)))
    for number in range(olds):
        simulation.put(pod(f"old-{number}", cpu="1", on="n1", phase="Running", scheduler="default"))
    for number in range(waiting):
        for item in gang(f"job{number}", 1):
            simulation.put(item)
    simulation.run()
    simulation.advance(20)
    return simulation


def bound(simulation: Simulation) -> list[str]:
    return sorted(name for _, name in simulation.binds)


def looked_at(simulation: Simulation) -> list[str]:
    """Waiting jobs that the last cycle looked at."""
    found = simulation.core.explanations.items()
    return sorted(name for (_, name), why in found if why.evaluated == simulation.now)


@pytest.mark.parametrize("conf", [PLAIN, EVICTING], ids=["plain", "evicting"])
def test_when_a_pod_ends_one_job_starts_and_one_more_is_looked_at(conf: SchedulingConf):
    simulation = waiting_behind(2, conf)
    simulation.now += 1

    simulation.delete("pod", "test", "old-0")
    simulation.run()

    assert bound(simulation) == ["job0-main-0"]
    assert looked_at(simulation) == ["job1"]


def test_as_many_start_as_have_room_in_the_order_of_their_turns():
    simulation = waiting_behind(3)

    for number in range(3):
        simulation.delete("pod", "test", f"old-{number}")
    simulation.run()

    assert bound(simulation) == [f"job{number}-main-0" for number in range(3)]


def test_all_of_a_higher_priority_start_before_the_first_of_a_lower_one():
    simulation = waiting_behind(2)
    for number in range(2):
        for item in gang(f"urgent{number}", 1, group={"priority_class_name": "high"}):
            simulation.put(item)
    simulation.run()

    for number in range(2):
        simulation.delete("pod", "test", f"old-{number}")
    simulation.run()

    assert bound(simulation) == ["urgent0-main-0", "urgent1-main-0"]


def test_those_that_slept_on_wait_for_the_same_as_the_one_that_was_looked_at():
    """First the node is full, then it is the queue."""
    simulation = waiting_behind(4, LIMITED)
    simulation.put(queue(capability={"cpu": "1"}))
    simulation.run()
    for number in range(4):
        simulation.delete("pod", "test", f"old-{number}")
    simulation.run()
    assert bound(simulation) == ["job0-main-0"]

    simulation.put(queue(capability={"cpu": "3"}))
    simulation.run()

    assert bound(simulation) == [f"job{number}-main-0" for number in range(3)]


def test_where_the_first_cannot_be_bound_the_next_is_tried():
    simulation = waiting_behind(2)
    simulation.delete("pod", "test", "old-0")
    simulation.run()
    simulation.put(pod("old-2", cpu="1", on="n1", phase="Running", scheduler="default"))
    simulation.delete("vcpodgroup", "test", "job1")
    simulation.run()

    simulation.delete("pod", "test", "old-1")
    simulation.delete("pod", "test", "old-2")
    simulation.run()

    assert bound(simulation) == ["job0-main-0", "job2-main-0"]


def test_the_safety_pass_looks_at_all():
    simulation = waiting_behind(1)
    simulation.now += 1

    simulation.safety_pass()

    assert looked_at(simulation) == [f"job{number}" for number in range(6)]
