"""Time as something that is passed in, so that a test can hold it still.

Two readings that must not be mixed up: `monotonic` measures how long something took and
never jumps; `now` is the date that people and Kubernetes know, and may be set back by an
administrator. Deadlines and lease lives use the first, timestamps in objects the second.
Cores get neither: their `now` is an argument.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Where a shell takes the time from."""

    def monotonic(self) -> float:
        """Seconds since some fixed point; only differences mean something."""
        ...

    def now(self) -> datetime:
        """The date and time, always with the UTC time zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds of this clock."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
