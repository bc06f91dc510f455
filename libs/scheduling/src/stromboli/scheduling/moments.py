"""Times and spans of time as the objects write them; None for what can't be read."""

from stromboli.api.durations import parse_duration
from stromboli.api.errors import DurationError, TimestampError
from stromboli.api.timestamps import parse_time

__all__ = ["duration_s", "moment_of"]

_NANOSECONDS = 1e9


def moment_of(text: str) -> float | None:
    """A timestamp as Unix time."""
    try:
        return parse_time(text).timestamp() if text else None
    except TimestampError:
        return None


def duration_s(text: str) -> float | None:
    """Go's notation, such as `1h30m`."""
    try:
        return parse_duration(text) / _NANOSECONDS
    except DurationError:
        return None
