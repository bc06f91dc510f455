"""Durations are read and printed as Go does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.api.durations import HOUR, MINUTE, SECOND, format_duration, parse_duration
from stromboli.api.errors import DurationError

MAX_INT64 = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("+0", 0),
        ("0s", 0),
        ("5s", 5 * SECOND),
        ("+5s", 5 * SECOND),
        ("-2m", -2 * MINUTE),
        ("1h30m", HOUR + 30 * MINUTE),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", SECOND),
        ("300ms", 300_000_000),
        ("10us", 10_000),
        ("10\u00b5s", 10_000),
        ("10\u03bcs", 10_000),
        ("7ns", 7),
        ("3h2s1m", 3 * HOUR + 2 * SECOND + MINUTE),
        ("0.3333333333333333333h", 20 * MINUTE),
        ("0.100000000000000000000h", 6 * MINUTE),
        ("0.830103483285477580700h", 49 * MINUTE + 48 * SECOND + 372_539_827),
        ("9223372036854775807ns", MAX_INT64),
        ("-9223372036854775808ns", -MAX_INT64 - 1),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, nanoseconds: int):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", "3", "s", ".", "-.", ".s", "+.s", "1d", "1h 2m", " 1s", "1s ", "1e3s", "--1s",
     "1.2.3s", "\uff11s", "9223372036854775808ns", "9223372036854775.808us",
     "-9223372036854775809ns", "3000000h", "1" * 300 + "s"],
)  # fmt: skip
def test_what_go_refuses_is_refused(text: str):
    with pytest.raises(DurationError, match="bad duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (300_000_000, "300ms"),
        (3_300_000_000, "3.3s"),
        (SECOND, "1s"),
        (60 * SECOND, "1m0s"),
        (245_000_000_000, "4m5s"),
        (245_001_000_000, "4m5.001s"),
        (HOUR + 30 * MINUTE, "1h30m0s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (480_000_000_001, "8m0.000000001s"),
        (-1_500_000_000, "-1.5s"),
        (MAX_INT64, "2562047h47m16.854775807s"),
        (-MAX_INT64 - 1, "-2562047h47m16.854775808s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(nanoseconds: int, text: str):
    assert format_duration(nanoseconds) == text


@given(st.integers(min_value=-(2**52), max_value=2**52))
def test_what_is_printed_reads_back_the_same(nanoseconds: int):
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
