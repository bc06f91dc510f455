"""When a cron schedule comes due, by the wall clock of its time zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.errors import BadSchedule, UnknownTimeZone
from stromboli.api.schedules import read_schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("schedule", "after", "following"),
    [
        ("* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
        ("* * * * *", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"),
        ("*/15 * * * *", "2026-01-01T00:46:00Z", "2026-01-01T01:00:00Z"),
        ("5/15 * * * *", "2026-01-01T00:06:00Z", "2026-01-01T00:20:00Z"),
        ("0 9-17/4 * * *", "2026-01-01T10:00:00Z", "2026-01-01T13:00:00Z"),
        ("30 8 * * MON-FRI", "2026-01-02T09:00:00Z", "2026-01-05T08:30:00Z"),
        ("0 0 1,15 * *", "2026-01-02T00:00:00Z", "2026-01-15T00:00:00Z"),
        ("0 0 29 FEB ?", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 13 * FRI", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),  # 13th or Friday
        ("0 0 13 * *", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
        ("0 0 */2 * FRI", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),  # odd day, or Friday
        ("0 0 31 12 *", "2026-12-31T00:00:00Z", "2027-12-31T00:00:00Z"),
        ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
        ("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("@midnight", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@every 90m", "2026-01-01T00:00:07Z", "2026-01-01T01:30:07Z"),
        ("@every 1ms", "2026-01-01T00:00:07Z", "2026-01-01T00:00:08Z"),
        ("  0   12 * * *  ", "2026-01-01T00:00:00Z", "2026-01-01T12:00:00Z"),
    ],
)
def test_the_following_time(schedule: str, after: str, following: str):
    assert read_schedule(schedule).following(at(after)) == at(following)


def test_a_day_that_never_comes_is_never_due():
    assert read_schedule("0 0 31 2 *").following(at("2026-01-01T00:00:00Z")) is None


def test_a_time_zone_moves_the_wall_clock():
    rome = read_schedule("0 8 * * *", "Europe/Rome")

    assert rome.following(at("2026-01-01T00:00:00Z")) == at("2026-01-01T07:00:00Z")
    assert rome.following(at("2026-07-01T00:00:00Z")) == at("2026-07-01T06:00:00Z")


def test_an_hour_that_the_clocks_leave_out_does_not_happen():
    """In New York, 02:30 on 8 March 2026 does not exist."""
    schedule = read_schedule("30 2 * * *", "America/New_York")

    assert schedule.following(at("2026-03-08T00:00:00-05:00")) == at("2026-03-09T02:30:00-04:00")


def test_an_hour_that_the_clocks_repeat_happens_twice():
    """In New York, 01:30 on 1 November 2026 comes two times, an hour apart."""
    schedule = read_schedule("30 1 * * *", "America/New_York")
    first = schedule.following(at("2026-11-01T00:00:00-04:00"))
    assert first == at("2026-11-01T01:30:00-04:00")
    second = schedule.following(at("2026-11-01T01:30:00-04:00"))

    assert second == at("2026-11-01T01:30:00-05:00")
    third = schedule.following(at("2026-11-01T01:30:00-05:00"))
    assert third == at("2026-11-02T01:30:00-05:00")


def test_every_hour_is_every_hour_also_when_the_clocks_change():
    schedule = read_schedule("0 * * * *", "America/New_York")
    moment = at("2026-11-01T03:30:00Z")
    for _ in range(6):
        following = schedule.following(moment)
        assert following is not None
        assert following - moment <= timedelta(hours=1)
        moment = following


def test_midnight_that_does_not_exist_is_skipped():
    """In Cairo the clocks went from 24 April 2026 00:00 to 01:00."""
    schedule = read_schedule("0 0 * * *", "Africa/Cairo")

    assert schedule.following(at("2026-04-23T12:00:00+02:00")) == at("2026-04-25T00:00:00+03:00")


def test_the_latest_time_is_found_however_long_ago_the_last_was():
    often, seldom = read_schedule("* * * * *"), read_schedule("0 0 29 2 *")
    now = at("2026-06-15T12:34:56Z")

    assert often.latest(at("2001-01-01T00:00:00Z"), now) == at("2026-06-15T12:34:00Z")
    assert seldom.latest(at("2001-01-01T00:00:00Z"), now) == at("2024-02-29T00:00:00Z")
    assert seldom.latest(at("2025-01-01T00:00:00Z"), now) is None
    assert often.latest(at("2026-06-15T12:34:00Z"), now) is None


def test_equal_distances_are_counted_from_the_last_time():
    every = read_schedule("@every 1h")
    start = at("2026-01-01T00:00:20Z")

    assert every.latest(start, at("2026-01-01T00:59:00Z")) is None
    assert every.latest(start, at("2026-01-01T03:10:00Z")) == at("2026-01-01T03:00:20Z")


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("", "expected 5 fields separated by spaces, found 0"),
        ("* * * *", "found 4"),
        ("* * * * * *", "found 6"),
        ("60 * * * *", "expected the minute to be from 0 to 59, found '60'"),
        ("* 24 * * *", "expected the hour to be from 0 to 23"),
        ("* * 0 * *", "expected the day of month to be from 1 to 31"),
        ("* * * 13 *", "expected the month to be from 1 to 12"),
        ("* * * * 7", "expected the day of week to be from 0 to 6"),
        ("* * * * MONDAY", "found 'MONDAY'"),
        ("10-5 * * * *", "begins after its end"),
        ("*/0 * * * *", "step of the minute"),
        ("a * * * *", "found 'a'"),
        ("1,,2 * * * *", "found ''"),
        ("-1 * * * *", "found ''"),
        ("@fortnightly", "expected one of @yearly"),
        ("@every soon", "300ms"),
        ("@every 0s", "nothing is due every 0s"),
        ("@every 0", "nothing is due every 0s"),
        ("@every 0h0m0.0s", "nothing is due every 0s"),
        ("@every -5m", "expected a time longer than -5m"),
        ("TZ=UTC 0 0 * * *", "belongs into the field timeZone"),
        ("CRON_TZ=UTC 0 0 * * *", "belongs into the field timeZone"),
        ("٣ * * * *", "found '٣'"),
        ("9" * 5000, "expected at most 1000 characters"),
        (f"{'9' * 900} * * * *", "found '99999999999999999999'"),
    ],
)
def test_a_schedule_that_nobody_can_read_is_refused_in_words(schedule: str, said: str):
    with pytest.raises(BadSchedule) as refused:
        read_schedule(schedule)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    "zone", ["", "Local", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b"]
)
def test_a_time_zone_that_is_none_is_refused(zone: str):
    with pytest.raises(UnknownTimeZone, match="unknown time zone"):
        read_schedule("* * * * *", zone)


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "30", "*/20", "1-3", "58,59"]),
    st.sampled_from(["*", "0", "2", "1-2", "23", "*/6"]),
    st.sampled_from(["*", "1", "29-31", "*/2", "8"]),
    st.sampled_from(["*", "3", "11", "2"]),
    st.sampled_from(["*", "0", "5", "mon-fri"]),
)
ZONES = st.sampled_from(
    ["UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu"]
)
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1)).map(  # noqa: DTZ001 (naive)
    lambda moment: moment.replace(tzinfo=UTC)
)


@settings(max_examples=60, deadline=None)
@given(FIELDS, ZONES, MOMENTS)
def test_no_time_is_left_out(fields: tuple[str, ...], zone: str, after: datetime):
    """Compared with looking at every minute of the next two days."""
    schedule = read_schedule(" ".join(fields), zone)
    start = after.replace(second=0, microsecond=0)
    end = start + timedelta(days=2)
    minutes = (start + timedelta(minutes=number) for number in range(1, 2 * 24 * 60 + 1))
    expected = [m for m in minutes if m > after and _matches(fields, m.astimezone(ZoneInfo(zone)))]
    found: list[datetime] = []
    moment = schedule.following(after)
    while moment is not None and moment <= end:
        found.append(moment)
        moment = schedule.following(moment)

    assert found == expected


def _matches(fields: tuple[str, ...], local: datetime) -> bool:
    minute, hour, day, month, weekday = fields
    by_day, by_weekday = _holds(day, local.day, 1), _holds(weekday, local.isoweekday() % 7, 0)
    is_day = by_day and by_weekday if "*" in {day, weekday} else by_day or by_weekday
    return (
        is_day
        and _holds(minute, local.minute, 0)
        and _holds(hour, local.hour, 0)
        and _holds(month, local.month, 1)
    )


def _holds(field: str, value: int, first: int) -> bool:
    if field == "*":
        return True
    if field.startswith("*/"):
        return (value - first) % int(field[2:]) == 0
    if field == "mon-fri":
        return 1 <= value <= 5
    low, _, high = field.partition("-")
    return str(value) in field.split(",") or bool(high and int(low) <= value <= int(high))


@pytest.mark.parametrize("schedule", ["* * * * *", "@every 1h"])
def test_there_is_an_end_of_time(schedule: str):
    assert read_schedule(schedule).following(at("9999-12-31T23:59:59Z")) is None
