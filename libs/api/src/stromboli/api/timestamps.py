"""RFC 3339 timestamps as Kubernetes writes them: whole seconds, or microseconds for leases.

Objects keep their timestamps as text, because most are only passed on; this is for the few
that are compared. Results are always aware and in UTC. What "now" is, somebody else must say.
"""

import re
from datetime import UTC, datetime
from typing import Final

from stromboli.api.errors import TimestampError

__all__ = ["format_micro_time", "format_time", "parse_time"]

_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def parse_time(text: str) -> datetime:
    """The moment in UTC; digits finer than a microsecond are cut."""
    # fromisoformat reads much that is not RFC 3339, such as week dates.
    if _RFC_3339.fullmatch(text) is None:
        raise TimestampError(text)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as fault:
        raise TimestampError(text) from fault


def format_time(moment: datetime) -> str:
    """metav1.Time: whole seconds, cut."""
    return f"{_utc(moment).isoformat(timespec='seconds')}Z"


def format_micro_time(moment: datetime) -> str:
    """metav1.MicroTime: always six digits after the seconds."""
    return f"{_utc(moment).isoformat(timespec='microseconds')}Z"


def _utc(moment: datetime) -> datetime:
    # Without its zone, so that isoformat leaves the offset to us.
    return moment.astimezone(UTC).replace(tzinfo=None)
