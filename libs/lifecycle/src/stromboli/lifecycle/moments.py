"""Times between what objects say, RFC 3339 text, and what a core is told, Unix seconds."""

from datetime import UTC, datetime

from stromboli.api.errors import TimestampError
from stromboli.api.timestamps import format_time, parse_time

__all__ = ["as_text", "as_unix"]


def as_text(unix: float) -> str:
    """Whole seconds, cut."""
    return format_time(datetime.fromtimestamp(unix, UTC))


def as_unix(text: str | None) -> float | None:
    """None for a time that is not there or that nobody can read."""
    if text is None:
        return None
    try:
        return parse_time(text).timestamp()
    except TimestampError:
        return None
