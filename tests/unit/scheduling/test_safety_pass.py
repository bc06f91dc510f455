"""A safety pass finds what a lost wake-up has left lying, however busy the cluster is."""

from typing import Any

import pytest

from stromboli.contracts.stimuli import SafetyPass, WakeAt, WokeUp, tell
from stromboli.scheduling.attention import Attention
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.scheduling_objects import PLAIN, gang, node, pod, priority_class, queue
from stromboli.testkit.simulation import Simulation


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens to the cluster wakes nobody who waits for it."""
    monkeypatch.setattr(Attention, "_helped", lambda *_: [])
    monkeypatch.setattr(Attention, "refused_before", lambda *_: [])


def full(*, waiting: int) -> Simulation:
    """A node full of strangers, and jobs of one pod each that wait for it."""
    simulation = Simulation(SchedulerCore(PLAIN))
    simulation.put(queue())
    simulation.put(priority_class("high", 10))
    simulation.put(node("n1", cpu="1"))
    simulation.put(pod("old", cpu="1", on="n1", phase="Running", scheduler="default"))
    for number in range(waiting):
        for item in gang(f"job{number:03}", 1):
            simulation.put(item)
    simulation.run()
    simulation.advance(20)
    return simulation


def one_fact(simulation: Simulation) -> None:
    """Something happens that helps nobody."""
    simulation.put(queue("other", weight=1 + int(simulation.now) % 2))
    simulation.run()


def looked_at(simulation: Simulation) -> list[str]:
    """Waiting jobs that the last cycle looked at."""
    found = simulation.core.explanations.items()
    return sorted(name for (_, name), why in found if why.evaluated == simulation.now)


def begin(simulation: Simulation, *, within_s: float) -> None:
    """As the shell tells it."""
    stimulus = SafetyPass(within_s=within_s)
    simulation.perform(simulation.core.handle(stimulus, now=simulation.now))


@pytest.mark.usefixtures("deaf")
def test_a_lost_wake_up_is_repaired_while_facts_keep_coming_and_is_told():
    simulation = full(waiting=3)
    simulation.delete("pod", "test", "old")
    for _ in range(60):
        simulation.advance(1)
        one_fact(simulation)
    assert simulation.binds == {}

    begin(simulation, within_s=5.0)
    for _ in range(5):
        one_fact(simulation)
        simulation.advance(1)

    assert list(simulation.binds) == [("test", "job000-main-0")]
    assert simulation.repaired == ["job000"]


def test_a_job_that_was_woken_in_time_is_no_repair():
    simulation = full(waiting=3)
    simulation.delete("pod", "test", "old")
    begin(simulation, within_s=0.0)
    simulation.run()
    simulation.safety_pass()

    assert list(simulation.binds) == [("test", "job000-main-0")]
    assert simulation.repaired == []


@pytest.mark.usefixtures("deaf")
def test_the_pass_serves_a_higher_priority_first():
    simulation = full(waiting=3)
    for item in gang("urgent", 1, group={"priority_class_name": "high"}):
        simulation.put(item)
    simulation.run()
    simulation.delete("pod", "test", "old")
    begin(simulation, within_s=60.0)
    simulation.advance(2)

    assert simulation.repaired == ["urgent"]


def test_a_pass_looks_at_some_jobs_in_each_step():
    simulation = full(waiting=10)
    simulation.now += 1
    begin(simulation, within_s=1.0)
    seen: list[list[str]] = []
    for _ in range(5):
        simulation.run()
        seen.append(looked_at(simulation))
        simulation.advance(0.25)

    assert [len(names) for names in seen] == [3, 3, 3, 1, 0]
    assert len({name for names in seen for name in names}) == 10


def test_a_pass_that_comes_while_one_is_under_way_only_goes_on_with_it():
    simulation = full(waiting=10)
    simulation.now += 1
    seen: list[str] = []
    for _ in range(4):
        begin(simulation, within_s=1.0)
        simulation.run()
        seen += looked_at(simulation)
        simulation.now += 0.01

    assert len(seen) == len(set(seen)) == 10


def test_being_woken_without_a_reason_looks_at_nobody():
    simulation = full(waiting=3)
    simulation.now += 1
    simulation.perform(simulation.core.handle(WokeUp(), now=simulation.now))

    assert looked_at(simulation) == []


def test_a_pass_and_an_alarm_that_come_together_are_both_heard():
    simulation = full(waiting=3)
    simulation.now += 1
    together: list[Any] = [SafetyPass(within_s=0.0), WokeUp()]
    said = tell(simulation.core, together, now=simulation.now)

    assert looked_at(simulation) == ["job000", "job001", "job002"]
    assert WakeAt(simulation.now) in said
