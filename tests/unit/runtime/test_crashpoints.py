"""Crash points that are off cost next to nothing; wrong names are refused."""

from collections.abc import Iterator

import pytest

from stromboli.runtime import crashpoints
from stromboli.runtime.errors import UnknownCrashPoint

POINT = crashpoints.declare("test.thing.happened", "something happened in a test")


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    crashpoints.arm({})


def test_reaching_a_point_does_nothing_unless_it_is_armed():
    crashpoints.arm({})

    crashpoints.reach(POINT)


def test_another_point_than_the_armed_one_does_nothing():
    crashpoints.arm({"STROMBOLI_CRASH_AT": POINT})

    crashpoints.reach("test.other.happened")


def test_the_points_before_the_nth_do_nothing():
    crashpoints.arm({"STROMBOLI_CRASH_AT": f"{POINT}:3"})

    crashpoints.reach(POINT)
    crashpoints.reach(POINT)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("test.thing.happenedd", "did you mean test.thing.happened"),
        ("gateway", "no such point"),
        (f"{POINT}:0", "a number from 1"),
        (f"{POINT}:often", "a number from 1"),
        (f"{POINT}:", "a number from 1"),
    ],
)
def test_what_can_never_happen_is_refused_at_start(given: str, reason: str):
    with pytest.raises(UnknownCrashPoint, match=reason):
        crashpoints.arm({"STROMBOLI_CRASH_AT": given})


def test_a_point_is_declared_once():
    with pytest.raises(ValueError, match="declared already"):
        crashpoints.declare(POINT, "again")


@pytest.mark.parametrize("name", ["lonely", "test.a:b"])
def test_a_point_has_a_name_that_can_be_given(name: str):
    with pytest.raises(ValueError, match=r"such as 'service\.thing\.happened'"):
        crashpoints.declare(name, "never")


def test_the_declared_points_can_be_listed():
    assert crashpoints.declared()[POINT] == "something happened in a test"
