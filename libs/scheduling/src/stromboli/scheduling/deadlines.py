"""Until when a job should have started: its creation plus the time it is ready to wait."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from stromboli.api.durations import SECOND, parse_duration
from stromboli.api.errors import DurationError, TimestampError
from stromboli.api.timestamps import parse_time
from stromboli.api.wellknown import SLA_WAITING_TIME
from stromboli.scheduling.jobs import Job

__all__ = ["created_at", "deadline_of", "waiting_time"]

_SHORT_NAME: Final = "sla-waiting-time"


def deadline_of(job: Job, *, otherwise_s: float | None) -> float | None:
    """Unix time; None for a job that may wait for ever.

    `otherwise_s` is how long a job waits that does not say so itself.
    """
    own = _annotated(job.annotations)
    waits = otherwise_s if own is None else own
    created = created_at(job)
    return None if waits is None or created is None else created + waits


def created_at(job: Job) -> float | None:
    return _moment(job.created) if job.created else None


def waiting_time(text: str) -> float | None:
    """Seconds; None for what is no positive duration, which as in Volcano says nothing."""
    try:
        nanoseconds = parse_duration(text)
    except DurationError:
        return None
    return nanoseconds / SECOND if nanoseconds > 0 else None


def _annotated(annotations: Mapping[str, str]) -> float | None:
    text = annotations.get(SLA_WAITING_TIME) or annotations.get(_SHORT_NAME)
    return waiting_time(text) if text else None


@lru_cache(maxsize=1 << 14)
def _moment(text: str) -> float | None:
    try:
        return parse_time(text).timestamp()
    except TimestampError:
        return None
