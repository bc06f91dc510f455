"""A clock that moves only when the test says so.

It satisfies `stromboli.runtime.clock.Clock`. Sleepers wake in the order of their
deadlines, each seeing its own deadline as the present, so that a test of "renew every
second" sees the same sequence as a real second would bring.
"""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

from stromboli.runtime.clock import SystemClock

__all__ = ["ManualClock", "SetDate"]


class ManualClock:
    """Stands at 2030-01-01 00:00 UTC until it is advanced."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError(f"the start {start!r} has no time zone; pass tzinfo=UTC")
        self._start = start
        self._elapsed = 0.0
        self._skew = timedelta()
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self._elapsed

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed) + self._skew

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), wake))
        await wake

    @property
    def sleepers(self) -> int:
        """How many coroutines are asleep on this clock."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move on, waking each sleeper at its moment and letting it run before the next."""
        if seconds < 0:
            raise ValueError(f"time can't go back by {-seconds:g} s; use set_wall_back_by")
        target = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            moment, _, wake = heapq.heappop(self._sleepers)
            if wake.done():  # its sleeper was cancelled
                continue
            self._elapsed = moment
            wake.set_result(None)
            await self._let_others_run()
        self._elapsed = target
        await self._let_others_run()

    def set_wall_back_by(self, seconds: float) -> None:
        """What an administrator does to the date; `monotonic` does not notice."""
        self._skew -= timedelta(seconds=seconds)

    async def _let_others_run(self) -> None:
        # A woken coroutine may pass the news on through a few futures of its own.
        for _ in range(10):
            await asyncio.sleep(0)


class SetDate(SystemClock):
    """The date is what the test says; what lasts, lasts as long as it really does.

    For services in the test's own event loop: leases and deadlines of the bus go on as they
    do, while the time that is decided by stands still or makes a leap.
    """

    def __init__(self, timestamp: float) -> None:
        self.timestamp = timestamp

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp, UTC)
