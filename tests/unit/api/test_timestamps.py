"""Timestamps are RFC 3339, in UTC."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from stromboli.api.errors import TimestampError
from stromboli.api.timestamps import format_micro_time, format_time, parse_time


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-28T09:18:50Z", datetime(2024, 5, 28, 9, 18, 50, tzinfo=UTC)),
        ("2024-05-28T09:18:50.5Z", datetime(2024, 5, 28, 9, 18, 50, 500_000, tzinfo=UTC)),
        ("2024-05-28T09:18:50.123456789Z", datetime(2024, 5, 28, 9, 18, 50, 123_456, tzinfo=UTC)),
        ("2024-05-28T11:18:50+02:00", datetime(2024, 5, 28, 9, 18, 50, tzinfo=UTC)),
    ],
)
def test_any_zone_is_read_into_utc(text: str, moment: datetime):
    assert parse_time(text) == moment
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "2024-05-28", "2024-05-28T09:18:50", "2024-05-28 09:18:50Z", "20240528T091850Z",
     "2024-W22-2T09:18:50Z", "2024-13-01T00:00:00Z", "2024-02-30T00:00:00Z", "now",
     "0001-01-01T00:00:00+23:00"],
)  # fmt: skip
def test_what_is_not_rfc_3339_is_refused(text: str):
    with pytest.raises(TimestampError, match="bad timestamp"):
        parse_time(text)


def test_times_are_cut_to_seconds_and_micro_times_keep_six_digits():
    moment = datetime(2024, 5, 28, 11, 18, 50, 999_999, tzinfo=timezone(timedelta(hours=2)))

    assert format_time(moment) == "2024-05-28T09:18:50Z"
    assert format_micro_time(moment) == "2024-05-28T09:18:50.999999Z"
    assert format_micro_time(moment.replace(microsecond=0)) == "2024-05-28T09:18:50.000000Z"
