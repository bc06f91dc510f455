"""Hold back our own requests, so that a burst of ours is a queue here and not a flood there.

Two limits: how many requests are under way at once, and (optionally) how many start per
second. Both serve in the order of asking: nobody overtakes, nobody starves. Waiting counts
against the caller's own deadline; a call that gives up while waiting was never sent.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

__all__ = ["FlowLimit", "TokenBucket"]


class TokenBucket:
    """At most `per_second` starts in the long run and `burst` at once.

    Each caller takes the next free moment at once and then sleeps until it comes. A caller
    that is cancelled while it sleeps leaves its moment unused, which errs on the slow side.
    """

    def __init__(
        self, *, per_second: float, burst: int, clock: Callable[[], float] | None = None
    ) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(
                f"per_second {per_second!r} must be above 0 and burst {burst!r} at least 1"
            )
        self._interval_s = 1.0 / per_second
        self._burst = burst
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._next_free = float("-inf")

    def reserve_s(self) -> float:
        """Take the next start; how long to wait for it."""
        now = self._clock()
        # An idle bucket fills up to `burst` starts, which lie in the past.
        oldest_useful = now - (self._burst - 1) * self._interval_s
        start = max(self._next_free, oldest_useful)
        self._next_free = start + self._interval_s
        return max(0.0, start - now)


class FlowLimit:
    """A bounded number of slots, optionally behind a token bucket."""

    def __init__(self, *, max_in_flight: int, bucket: TokenBucket | None = None) -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight {max_in_flight!r} must be at least 1")
        self._slots = asyncio.Semaphore(max_in_flight)
        self._bucket = bucket
        self._in_flight = 0
        self._waiting = 0

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def waiting(self) -> int:
        return self._waiting

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None, None]:
        """Hold one slot for the time of a request."""
        self._waiting += 1
        try:
            if self._bucket is not None and (delay_s := self._bucket.reserve_s()) > 0:
                await asyncio.sleep(delay_s)
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._slots.release()
