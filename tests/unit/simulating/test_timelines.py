"""Steps, clocks, gangs and fairness on hand-made stories."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from stromboli.api.core import Pod
from stromboli.api.wellknown import RUN_SECONDS
from stromboli.scheduling.queues import QueueInfo
from stromboli.simulating.clocks import Clock, Clocks
from stromboli.simulating.fairness import fairness_of, jain
from stromboli.simulating.gangs import Gang
from stromboli.simulating.steps import Steps, grid
from stromboli.simulating.timeline import Timeline
from stromboli.testkit.scheduling_objects import pod


def steps(*pairs: tuple[float, float]) -> Steps:
    made = Steps()
    for moment, value in pairs:
        made.set(moment, value)
    return made


# Steps.


def test_a_value_holds_until_the_next_and_is_zero_before_the_first():
    line = steps((10, 2), (20, 5))

    assert line.at(np.array([0.0, 10, 19, 20, 99])).tolist() == [0, 2, 2, 5, 5]


def test_what_held_for_no_time_leaves_no_trace():
    line = steps((10, 2), (20, 7), (20, 2), (30, 1))

    assert line.moments == [10, 30]


def test_time_never_goes_back():
    with pytest.raises(ValueError, match="time went back"):
        steps((10, 1), (5, 2))


def test_areas_and_means_are_those_of_the_steps():
    line = steps((0, 1), (10, 3))

    assert line.integral(5, 15) == 5 * 1 + 5 * 3
    assert line.mean(5, 15) == 2
    assert line.mean(12, 12) == 3
    assert line.means(np.array([0.0, 5, 10, 20])).tolist() == [1, 1, 3]
    assert grid([line, steps((7, 1))], 0, 10).tolist() == [0, 7]


# Clocks.


def test_a_clock_that_was_stopped_goes_on_where_it_stood():
    clocks, clock = Clocks(), Clock(("ns", "a", "uid"), needs_s=100)
    clocks.start(clock, 0)
    clocks.stop(clock, 30)
    assert clocks.next_end == math.inf
    clocks.start(clock, 50)

    assert clocks.next_end == 120
    assert clocks.due(119) == []
    assert clocks.due(120) == [clock.pod]
    assert clocks.next_end == math.inf


def test_clocks_that_end_together_are_told_in_the_order_they_were_started():
    clocks = Clocks()
    for name in "bca":
        clocks.start(Clock(("ns", name, "uid"), needs_s=5), 0)

    assert [name for _, name, _ in clocks.due(5)] == ["b", "c", "a"]


def test_a_clock_without_an_end_is_never_due():
    clocks = Clocks()
    clocks.start(Clock(("ns", "a", "uid"), needs_s=math.inf), 0)

    assert clocks.next_end == math.inf


# Gangs.


def running(name: str, seconds: int = 100) -> Pod:
    made = pod(name, on="n1", phase="Running")
    annotations = {RUN_SECONDS: str(seconds)}
    return replace(made, metadata=replace(made.metadata, annotations=annotations))


def in_phase(item: Pod, phase: str) -> Pod:
    return replace(item, status=replace(item.status, phase=phase))


def test_a_worker_without_its_servers_computes_nothing():
    clocks, gang = Clocks(), Gang("default", 2)
    gang.see(running("a"), clocks, 0)
    assert (gang.works, gang.is_short) == (False, True)
    assert clocks.next_end == math.inf
    gang.see(running("b"), clocks, 40)
    assert (gang.works, clocks.next_end) == (True, 140)
    gang.lose(running("b"), clocks, 60, counts=True)
    assert (gang.works, gang.wasted_s, clocks.next_end) == (False, 20, math.inf)
    gang.see(running("b"), clocks, 100)

    assert clocks.due(180) == [("test", "a", "pod-test-a")]
    assert clocks.next_end == 200


def test_those_that_have_succeeded_count_among_those_that_work():
    clocks, gang = Clocks(), Gang("default", 2)
    short, long = running("short", 10), running("long", 50)
    gang.see(short, clocks, 0)
    gang.see(long, clocks, 0)
    gang.see(in_phase(short, "Succeeded"), clocks, 10)

    assert gang.works
    assert (gang.placed, gang.succeeded, gang.done) == (
        1,
        1,
        {"cpu": 1000, "memory": 1 << 30, "pods": 1},
    )
    assert clocks.next_end == 50


def test_the_work_of_a_pod_that_failed_is_lost():
    clocks, gang = Clocks(), Gang("default", 1)
    gang.see(running("a"), clocks, 0)
    gang.see(in_phase(running("a"), "Failed"), clocks, 25)

    assert gang.wasted_s == 25
    assert gang.placed == 0


def test_what_a_pod_takes_is_told_once_when_it_begins_and_when_it_ends():
    clocks, gang = Clocks(), Gang("default", 1)
    asked = (("cpu", 1000), ("memory", 1 << 30), ("pods", 1))

    assert gang.see(in_phase(running("a"), "Pending"), clocks, 0) == asked
    assert gang.see(running("a"), clocks, 1) is None
    assert gang.see(in_phase(running("a"), "Succeeded"), clocks, 101) == asked
    assert gang.lose(running("a"), clocks, 102, counts=False) is None


# Fairness.


def contended(**allocated: float) -> Timeline:
    """Queues that all want the whole cluster of 12 cpu for 100 s, and somebody waits."""
    timeline = Timeline(capacity={"cpu": steps((0, 12_000))})
    for name, cpus in allocated.items():
        line = timeline.queue(name)
        line.wanted["cpu"] = steps((0, 12_000), (100, 0))
        line.allocated["cpu"] = steps((0, cpus * 1000), (100, 0))
        line.waiting = steps((0, 1), (100, 0))
    return timeline


def of_weights(**weights: int) -> dict[str, QueueInfo]:
    return {name: QueueInfo(name, weight=weight) for name, weight in weights.items()}


def test_who_has_what_its_weight_says_has_a_ratio_of_one():
    found = fairness_of(contended(a=9, b=3), of_weights(a=3, b=1), 0, 200)

    assert found.contended_s == 100
    assert found.index == pytest.approx(1)
    assert found.parts["a"].ratio == pytest.approx(1)
    assert (found.parts["b"].got, found.parts["b"].deserved) == (0.25, 0.25)


def test_who_has_everything_makes_it_as_unfair_as_can_be():
    found = fairness_of(contended(a=12, b=0), of_weights(a=1, b=1), 0, 200)

    assert found.index == pytest.approx(0.5)
    assert found.parts["a"].ratio == 2
    assert found.parts["b"].ratio == 0


def test_time_in_which_nobody_waits_does_not_count():
    timeline = contended(a=12, b=0)
    timeline.queues["a"].waiting = timeline.queues["b"].waiting = Steps()

    assert fairness_of(timeline, of_weights(a=1, b=1), 0, 200).index is None


def test_nobody_deserves_more_than_it_wants():
    timeline = contended(a=10, b=2)
    timeline.queues["b"].wanted["cpu"] = steps((0, 2000), (100, 0))
    found = fairness_of(timeline, of_weights(a=1, b=1), 0, 100)

    assert found.index == pytest.approx(1)


def test_what_was_promised_comes_before_weights():
    queues = of_weights(a=1) | {"b": QueueInfo("b", weight=1, deserved=(("cpu", 9000),))}
    found = fairness_of(contended(a=3, b=9), queues, 0, 100)

    assert found.index == pytest.approx(1)


def test_below_a_parent_queues_share_what_the_parent_deserves():
    queues = of_weights(top=3, c=1) | {
        "a": QueueInfo("a", weight=2, parent="top"),
        "b": QueueInfo("b", weight=1, parent="top"),
    }
    found = fairness_of(contended(a=6, b=3, c=3), queues, 0, 100)

    assert found.index == pytest.approx(1)


def test_a_share_is_the_largest_part_of_any_resource():
    timeline = contended(a=3)
    timeline.capacity["nvidia.com/gpu"] = steps((0, 4000))
    line = timeline.queue("a")
    line.allocated["nvidia.com/gpu"] = steps((0, 2000))
    line.wanted["nvidia.com/gpu"] = steps((0, 4000))
    found = fairness_of(timeline, of_weights(a=1), 0, 100)

    assert found.parts["a"].got == 0.5


@pytest.mark.parametrize(
    ("ratios", "index"), [((1, 1, 1), 1), ((3, 0, 0), 1 / 3), ((1,), None), ((), None)]
)
def test_jains_index(ratios: tuple[float, ...], index: float | None):
    assert jain(ratios) == (None if index is None else pytest.approx(index))
