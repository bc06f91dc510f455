"""Cron expressions, as Kubernetes and Volcano read them (robfig/cron, "standard").

Five fields (minute, hour, day of month, month, day of week) of lists of numbers, names, ranges
and steps; or a descriptor such as @daily; or @every and a duration. Only validity is decided
here, not when the schedule comes due.
"""

import re
from functools import cache
from typing import Final, NamedTuple
from zoneinfo import available_timezones

from stromboli.api.durations import parse_duration
from stromboli.api.errors import DurationError

__all__ = ["is_schedule", "is_time_zone"]


class _Field(NamedTuple):
    lowest: int
    highest: int
    names: dict[str, int]


_MONTHS: Final = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final = (
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = frozenset(
    {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
)
_EVERY: Final = "@every "
_MAX_TEXT: Final = 1000
_DIGITS: Final = re.compile(r"\+?[0-9]{1,9}", re.ASCII)


def is_schedule(text: str) -> bool:
    """Whether `text` is a cron expression."""
    if len(text) > _MAX_TEXT:
        return False
    if text.startswith("@"):
        return text in _DESCRIPTORS or _is_interval(text)
    fields = text.split()
    return len(fields) == len(_FIELDS) and all(map(_is_field, fields, _FIELDS))


def is_time_zone(name: str) -> bool:
    """Whether the IANA database has a zone of this name."""
    return name in _zones()


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _is_interval(text: str) -> bool:
    if not text.startswith(_EVERY):
        return False
    try:
        parse_duration(text[len(_EVERY) :])
    except DurationError:
        return False
    return True


def _is_field(text: str, field: _Field) -> bool:
    return all(_is_part(part, field) for part in text.split(","))


def _is_part(text: str, field: _Field) -> bool:
    """One element of a list: `*`, `5`, `1-5`, `mon`, each with an optional `/step`."""
    span, slash, step = text.partition("/")
    if slash and (_DIGITS.fullmatch(step) is None or int(step) == 0):
        return False
    first, dash, last = span.partition("-")
    if first in ("*", "?"):
        return not dash
    low = _number(first, field)
    high = _number(last, field) if dash else low
    return low is not None and high is not None and field.lowest <= low <= high <= field.highest


def _number(text: str, field: _Field) -> int | None:
    if _DIGITS.fullmatch(text):
        return int(text)
    return field.names.get(text.lower())
