"""When pods have done their work, if their work goes on only while somebody lets it.

The work of a gang goes on while enough of it runs: a worker whose parameter server has no node
yet computes nothing, however long it waits. So clocks can be stopped and started again.
"""

import heapq
import math
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["Clock", "Clocks", "seconds"]

_DIGITS: Final = 6
"""A microsecond is more than what a moment of 2030 loses as a floating point number."""


def seconds(moment: float, begin: float) -> float:
    """How far a moment is from the beginning, without the noise of large numbers."""
    return round(moment - begin, _DIGITS)


PodId: TypeAlias = tuple[str, str, str]
"""Namespace, name and uid."""


@dataclass(slots=True)
class Clock:
    """The work of one pod."""

    pod: PodId
    needs_s: float
    """Infinity for one that never ends by itself."""
    done_s: float = 0.0
    since: float | None = None
    """When it was started last; None while it stands."""
    turn: int = 0

    def done_by(self, now: float) -> float:
        return self.done_s + (now - self.since if self.since is not None else 0.0)


@dataclass(slots=True)
class Clocks:
    """All clocks that run, by their end."""

    _ends: list[tuple[float, int, Clock, int]] = field(
        default_factory=list[tuple[float, int, Clock, int]]
    )
    _count: int = 0
    """Tells equal ends apart, in the order in which the clocks were started."""

    def start(self, clock: Clock, now: float) -> None:
        if clock.since is not None:
            return
        clock.since = now
        clock.turn += 1
        if math.isfinite(clock.needs_s):
            self._count += 1
            end = max(now, round(now + clock.needs_s - clock.done_s, _DIGITS))
            heapq.heappush(self._ends, (end, self._count, clock, clock.turn))

    def stop(self, clock: Clock, now: float) -> None:
        if clock.since is not None:
            clock.done_s += now - clock.since
            clock.since = None

    @property
    def next_end(self) -> float:
        """When the next pod has done its work; infinity if none will."""
        self._drop_stopped()
        return self._ends[0][0] if self._ends else math.inf

    def due(self, now: float) -> list[PodId]:
        """The pods that have done their work by now; each is told once."""
        found: list[PodId] = []
        while self.next_end <= now:
            _, _, clock, _ = heapq.heappop(self._ends)
            found.append(clock.pod)
        return found

    def _drop_stopped(self) -> None:
        ends = self._ends
        while ends and (ends[0][2].since is None or ends[0][2].turn != ends[0][3]):
            heapq.heappop(ends)
