"""How long ago something was, in few characters to read at a glance: 45s, 3m20s, 5h."""

from datetime import datetime
from typing import Any, Final

__all__ = ["UNKNOWN", "age_of", "human_duration", "instant"]

UNKNOWN: Final = "<unknown>"
_INVALID: Final = "<invalid>"


def instant(text: Any) -> datetime | None:
    """An RFC 3339 timestamp; None if it is none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def age_of(timestamp: Any, now: datetime) -> str:
    if timestamp is None or timestamp == "":
        return UNKNOWN
    moment = instant(timestamp)
    return _INVALID if moment is None else human_duration((now - moment).total_seconds())


def human_duration(seconds: float) -> str:
    """Two digits of precision, as kube rounds: the longer it was, the coarser it is told."""
    whole = int(seconds)
    if whole < -1:
        return _INVALID
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // 60, whole // 3600
    days, years = hours // 24, hours // 24 // 365
    if minutes < 10:
        return _told((minutes, "m"), (whole % 60, "s"))
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _told((hours, "h"), (minutes % 60, "m"))
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _told((days, "d"), (hours % 24, "h"))
    if years < 2:
        return f"{days}d"
    if years < 8:
        return _told((years, "y"), (days % 365, "d"))
    return f"{years}y"


def _told(large: tuple[int, str], small: tuple[int, str]) -> str:
    head = f"{large[0]}{large[1]}"
    return f"{head}{small[0]}{small[1]}" if small[0] else head
