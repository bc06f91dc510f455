"""Durations and sizes are read with their unit and written so that they read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.runtime.units import Duration, Size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4s", 4.0),
        ("300ms", 0.3),
        ("1m30s", 90.0),
        ("2h", 7200.0),
        ("7d", 604800.0),
        ("1.5s", 1.5),
        ("250us", 0.00025),
        (" 4s ", 4.0),
        ("0", 0.0),
    ],
)
def test_a_duration_is_seconds(text: str, seconds: float):
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize("text", ["5", "4 s", "s", "", "-4s", "4parsecs", "1m30", "4S", "1e3s"])
def test_a_duration_without_a_known_unit_is_refused(text: str):
    with pytest.raises(ValueError, match="such as 4s"):
        Duration.parse(text)


@given(st.integers(min_value=0, max_value=10**14))
def test_a_duration_reads_back_as_it_is_written(microseconds: int):
    duration = Duration(microseconds / 1e6)

    assert Duration.parse(str(duration)) == duration


@pytest.mark.parametrize(
    ("text", "size"),
    [("1Mi", 2**20), ("512Ki", 2**19), ("10M", 10**7), ("64KiB", 2**16), ("1.5Ki", 1536), ("7", 7)],
)
def test_a_size_is_bytes(text: str, size: int):
    assert Size.parse(text) == size


@pytest.mark.parametrize("text", ["1mi", "-1", "1 Mi", "Mi", "0.3", "1m"])
def test_a_size_that_is_no_whole_number_of_bytes_is_refused(text: str):
    with pytest.raises(ValueError, match="expected a"):
        Size.parse(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_a_size_reads_back_as_it_is_written(number: int):
    assert Size.parse(str(Size(number))) == number
