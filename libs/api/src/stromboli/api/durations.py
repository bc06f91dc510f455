"""Go durations: "1h30m", "1.5s", "-300ms".

Volcano's policies and estimates are written in them. A duration is an int of nanoseconds, the
unit Go counts in; fractions are rounded by Go's own floating-point arithmetic, so that
"0.3333333333333333333h" is 20 minutes here too.
"""

import re
from typing import Final

from stromboli.api.errors import DurationError

__all__ = [
    "HOUR",
    "MICROSECOND",
    "MILLISECOND",
    "MINUTE",
    "SECOND",
    "format_duration",
    "parse_duration",
]

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000 * MICROSECOND
SECOND: Final = 1_000 * MILLISECOND
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

_UNITS: Final = {
    "ns": 1,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,  # the micro sign
    "\u03bcs": MICROSECOND,  # the Greek letter
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_MAX: Final = 2**63 - 1
_MAX_TEXT: Final = 200
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")
_EXPECTED: Final = "numbers with units ns, us, ms, s, m or h, such as 300ms or 1h30m"


def parse_duration(text: str) -> int:
    """Nanoseconds; raises DurationError where Go's time.ParseDuration would fail."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    if not unsigned or len(unsigned) > _MAX_TEXT:
        raise DurationError(text, _EXPECTED)
    total = position = 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        if part is None:
            raise DurationError(text, _EXPECTED)
        whole, fraction, unit_name = part.groups(default="")
        unit = _UNITS.get(unit_name)
        if unit is None or not (whole or fraction):
            raise DurationError(text, _EXPECTED)
        total += int(whole or "0") * unit + _fraction_of(unit, fraction)
        position = part.end()
    negative = text.startswith("-")
    if total > _MAX + negative:
        raise DurationError(text, "at most 2^63-1 nanoseconds, about 292 years")
    return -total if negative else total


def format_duration(nanoseconds: int) -> str:
    """As Go prints it: 1h30m0s, 1.5s, 300ms, 0s."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < MICROSECOND:
        return f"{sign}{rest}ns"
    if rest < MILLISECOND:
        return f"{sign}{_decimal(rest, MICROSECOND)}\u00b5s"
    if rest < SECOND:
        return f"{sign}{_decimal(rest, MILLISECOND)}ms"
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds = f"{_decimal(rest, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _fraction_of(unit: int, digits: str) -> int:
    kept, scale = 0, 1.0
    for digit in digits:
        longer = kept * 10 + int(digit)
        if longer > _MAX:
            break  # Go drops the digits that no longer fit into an int64
        kept, scale = longer, scale * 10
    return int(kept * (unit / scale))


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    width = len(str(unit)) - 1
    return f"{whole}.{rest:0{width}d}".rstrip("0")
