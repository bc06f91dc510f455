"""Cron schedules: the five fields, the names for common ones, and `@every`.

The dialect is that of Volcano and Kubernetes (robfig/cron, standard parser). A moment belongs
to a schedule when its wall clock in the schedule's time zone matches: so an hour that a
change of clocks leaves out does not happen, and one that it repeats happens twice.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo

import msgspec

from stromboli.api.durations import SECOND, parse_duration
from stromboli.api.errors import BadSchedule, DurationError, UnknownTimeZone
from stromboli.api.numerals import as_number

__all__ = ["Interval", "Schedule", "read_schedule", "read_zone"]

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_LONGEST: Final = 1000
_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LOOK_AHEAD: Final = timedelta(days=5 * 366)
"""Longer than from one 29 February to the next, save around the year 2100."""
_LAST_YEAR: Final = 9000
"""Somebody may write any time into a status, and there is none after the year 9999."""
_BACK: Final = tuple(timedelta(days=days) for days in (1 / 24, 1, 32, 367))


class Schedule(Protocol):
    def following(self, after: datetime) -> datetime | None:
        """The first time after this one; None if there will be none for years."""
        ...

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last time after the one and not after the other."""
        ...


class _Field(msgspec.Struct, frozen=True):
    values: frozenset[int]
    is_any: bool
    """Written as `*` or `?`, without a step."""


class Interval(msgspec.Struct, frozen=True):
    """`@every`: at equal distances, counted from the last time."""

    every: timedelta

    def following(self, after: datetime) -> datetime | None:
        return None if after.year >= _LAST_YEAR else after.replace(microsecond=0) + self.every

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        start = after.replace(microsecond=0)
        number = (until - start) // self.every
        return start + number * self.every if number > 0 else None


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """The five fields in a time zone."""

    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field
    zone: ZoneInfo

    def following(self, after: datetime) -> datetime | None:
        if after.year >= _LAST_YEAR:
            return None
        # Steps are taken in absolute time, so that changes of clocks need no special care.
        moment = after.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = moment + _LOOK_AHEAD
        while moment < end:
            local = moment.astimezone(self.zone)
            if local.month not in self.months.values:
                moment = self._later(moment, _first_of_next_month(local))
            elif not self._is_day(local):
                moment = self._later(moment, _next_midnight(local))
            elif local.hour not in self.hours.values:
                moment += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minutes.values:
                moment += timedelta(minutes=1)
            else:
                return moment
        return None

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        for back in _BACK:
            start = max(after, until - back)
            found = self._last_between(start, until)
            if found is not None or start == after:
                return found
        return self._last_between(after, until)

    def _last_between(self, after: datetime, until: datetime) -> datetime | None:
        found = None
        following = self.following(after)
        while following is not None and following <= until:
            found = following
            following = self.following(found)
        return found

    def _is_day(self, local: datetime) -> bool:
        by_date = local.day in self.days.values
        by_weekday = local.isoweekday() % 7 in self.weekdays.values
        # Cron's oddity: two that are given are alternatives, one alone is a condition.
        if self.days.is_any or self.weekdays.is_any:
            return by_date and by_weekday
        return by_date or by_weekday

    def _later(self, moment: datetime, wall: datetime) -> datetime:
        """The absolute time of a wall clock, and in any case later than before."""
        there = wall.replace(tzinfo=self.zone).astimezone(UTC)
        return max(there, moment + timedelta(minutes=1))


def _next_midnight(local: datetime) -> datetime:
    return datetime(local.year, local.month, local.day) + timedelta(days=1)  # noqa: DTZ001 (wall)


def _first_of_next_month(local: datetime) -> datetime:
    year, month = divmod(local.year * 12 + local.month, 12)
    return datetime(year, month + 1, 1)  # noqa: DTZ001 (a wall clock has no zone)


@lru_cache(maxsize=4096)
def read_schedule(text: str, zone: str | None = None) -> Schedule:
    """Raises BadSchedule or UnknownTimeZone, which say in words what is wrong."""
    if len(text) > _LONGEST:
        raise BadSchedule(f"{text[:20]}…", f"expected at most {_LONGEST} characters")
    if "TZ=" in text:
        raise BadSchedule(text, "a time zone belongs into the field timeZone")
    where = read_zone(zone)
    words = text.strip()
    if words.startswith(_EVERY):
        return _interval(text, words.removeprefix(_EVERY).strip())
    if words.startswith("@"):
        if words not in _MACROS:
            raise BadSchedule(text, f"expected one of {', '.join(_MACROS)} or @every")
        words = _MACROS[words]
    fields = words.split()
    if len(fields) != 5:
        raise BadSchedule(text, f"expected 5 fields separated by spaces, found {len(fields)}")
    minute, hour, day, month, weekday = fields
    return Calendar(
        minutes=_field(text, minute, "minute", (0, 59)),
        hours=_field(text, hour, "hour", (0, 23)),
        days=_field(text, day, "day of month", (1, 31)),
        months=_field(text, month, "month", (1, 12), _MONTHS),
        weekdays=_field(text, weekday, "day of week", (0, 6), _DAYS),
        zone=where,
    )


def read_zone(name: str | None) -> ZoneInfo:
    if name is None:
        return ZoneInfo("UTC")
    if not name or name == "Local":
        raise UnknownTimeZone(name)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as problem:
        # A folder of the time zone database, or a path out of it, is an OSError.
        raise UnknownTimeZone(name) from problem


def _interval(text: str, duration: str) -> Interval:
    try:
        nanoseconds = parse_duration(duration)
    except DurationError as problem:
        raise BadSchedule(text, str(problem)) from problem
    if nanoseconds <= 0:
        raise BadSchedule(text, f"expected a time longer than {duration}: nothing is due every 0s")
    return Interval(timedelta(seconds=max(1, nanoseconds // SECOND)))


def _field(
    text: str, words: str, what: str, bounds: tuple[int, int], names: Sequence[str] = ()
) -> _Field:
    values: set[int] = set()
    is_any = False
    for part in words.split(","):
        span, slash, step = part.partition("/")
        low, dash, high = span.partition("-")
        if span in {"*", "?"}:
            first, last = bounds
        else:
            first = _number(text, low, what, bounds, names)
            last = _number(text, high, what, bounds, names) if dash else first
            if slash and not dash:
                last = bounds[1]
        stride = _number(text, step, f"step of the {what}", (1, bounds[1] + 1)) if slash else 1
        if first > last:
            raise BadSchedule(text, f"{what} {part!r} begins after its end")
        values.update(range(first, last + 1, stride))
        is_any = is_any or (span in {"*", "?"} and stride == 1)
    return _Field(frozenset(values), is_any)


def _number(
    text: str, word: str, what: str, bounds: tuple[int, int], names: Sequence[str] = ()
) -> int:
    if word.lower() in names:
        return names.index(word.lower()) + bounds[0]
    number = as_number(word)
    if number is None or not bounds[0] <= number <= bounds[1]:
        expected = f"expected the {what} to be from {bounds[0]} to {bounds[1]}"
        raise BadSchedule(text, f"{expected}, found {word[:20]!r}")
    return number
