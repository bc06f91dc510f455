import os

import pytest
from hypothesis import given, settings, strategies

from stromboli.testkit.effort import examples


def drawn() -> list[int]:
    numbers: list[int] = []

    @given(strategies.integers())
    @settings(max_examples=20)
    def look(number: int) -> None:
        numbers.append(number)

    look()
    return numbers


@pytest.mark.skipif("STROMBOLI_SEEDS" in os.environ, reason="new examples were asked for")
def test_property_tests_look_at_the_same_examples_each_time():
    assert drawn() == drawn()


def test_an_example_may_take_as_long_as_it_needs():
    assert settings().deadline is None


def test_more_effort_means_more_examples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STROMBOLI_EFFORT", "10")

    assert examples(30) == 300
