"""Cron expressions and time zones that admission lets pass."""

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.admitting.schedules import is_schedule, is_time_zone
from stromboli.lifecycle.errors import LifecycleError
from stromboli.lifecycle.schedules import read_schedule

PARTS: Final = st.sampled_from(
    ["*", "?", "0", "7", "59", "60", "1-5", "5-1", "*/2", "*/0", "1-9/3", "mon", "JAN-DEC", "1,2",
     ",", "1,,2", "-1", "+1", "a", "1/2/3", "1-2-3", "*-2", "*/", "/2", "32", "0/5"]
)  # fmt: skip
EXPRESSIONS: Final = st.one_of(
    st.lists(PARTS, min_size=4, max_size=6).map(" ".join),
    st.sampled_from(["@daily", "@hourly", "@every 1h", "@every x", "@never", "@every", "", " "]),
    st.text(max_size=12),
)


@pytest.mark.parametrize(
    "text", ["* * * * *", "*/5 0 1 JAN SUN", "0 0 ? * mon-fri", "1,2,3 * * * *", "@every 1h30m"]
)
def test_what_cron_knows_is_a_schedule(text: str) -> None:
    assert is_schedule(text)


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
     "* * * * 7", "5-1 * * * *", "*/0 * * * *", "@fortnightly", "@every soon", "x" * 2000],
)  # fmt: skip
def test_what_cron_does_not_know_is_none(text: str) -> None:
    assert not is_schedule(text)


@settings(max_examples=300, deadline=None)
@given(text=EXPRESSIONS)
def test_admission_accepts_exactly_what_the_controller_can_follow(text: str) -> None:
    try:
        read_schedule(text)
    except LifecycleError:
        assert not is_schedule(text)
    else:
        assert is_schedule(text)


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia"])
def test_the_zones_of_the_world_are_known(name: str) -> None:
    assert is_time_zone(name)


@pytest.mark.parametrize("name", ["", "Local", "Europe", "europe/berlin", "../etc", "UTC\x00"])
def test_other_names_are_no_zones(name: str) -> None:
    assert not is_time_zone(name)
