"""Every key once, some in each step."""

import math

from stromboli.contracts.safety_walk import STEP_S, SafetyWalk


def steps(walk: SafetyWalk[int]) -> list[list[int]]:
    """All that are left, each at its time."""
    found: list[list[int]] = []
    while walk.next_step < math.inf:
        found.append(walk.step(walk.next_step))
    return found


def test_every_key_comes_once_and_about_as_many_in_each_step():
    walk: SafetyWalk[int] = SafetyWalk()
    walk.begin(range(10), now=100.0, within_s=4 * STEP_S)

    assert steps(walk) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_without_keys_or_before_its_time_there_is_no_step():
    walk: SafetyWalk[int] = SafetyWalk()
    walk.begin([], now=100.0, within_s=1.0)
    assert walk.next_step == math.inf
    assert walk.step(200.0) == []

    walk.begin([1, 2], now=200.0, within_s=10.0)
    assert walk.step(200.0) == [1]
    assert walk.step(200.0 + STEP_S / 2) == []


def test_a_pass_that_did_not_end_goes_on_before_another_begins():
    walk: SafetyWalk[int] = SafetyWalk()
    walk.begin(range(4), now=100.0, within_s=4 * STEP_S)
    assert walk.step(100.0) == [0]
    walk.begin(range(4), now=100.1, within_s=4 * STEP_S)

    assert steps(walk) == [[1], [2], [3]]


def test_a_date_that_was_set_back_does_not_stop_it_for_long():
    walk: SafetyWalk[int] = SafetyWalk()
    walk.begin(range(3), now=10_000.0, within_s=3 * STEP_S)
    assert walk.step(10_000.0) == [0]
    walk.begin(range(3), now=100.0, within_s=3 * STEP_S)

    assert walk.step(100.0) == [1]
    assert walk.next_step == 100.0 + STEP_S
