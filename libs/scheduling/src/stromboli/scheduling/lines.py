"""Who waits for room in which queue, in the order of their turns.

Kept as jobs are looked at, so that naming those ahead of a job is a search and not a sort of all
that wait. A place is as old as the last look at its job; an order that moves with every pod, as
that by shares does, is therefore nearly right, which is enough for people.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TypeAlias

from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.pods import JobKey

__all__ = ["Lines"]

_Place: TypeAlias = tuple[SortKey, JobKey]


@dataclass(slots=True)
class Lines:
    """One line for each queue."""

    _lines: dict[str, list[_Place]] = field(default_factory=dict[str, list[_Place]])
    _places: dict[JobKey, tuple[str, _Place]] = field(
        default_factory=dict[JobKey, tuple[str, _Place]]
    )

    def put(self, job: JobKey, queue: str, turn: SortKey) -> None:
        place = (turn, job)
        if self._places.get(job) == (queue, place):
            return
        self.leave(job)
        self._places[job] = (queue, place)
        insort(self._lines.setdefault(queue, []), place)

    def leave(self, job: JobKey) -> None:
        queue, place = self._places.pop(job, ("", None))
        if place is None:
            return
        line = self._lines[queue]
        del line[bisect_left(line, place)]
        if not line:
            del self._lines[queue]

    def clear(self) -> None:
        """The order is another one: places in the old one can't be compared with it."""
        self._lines.clear()
        self._places.clear()

    def ahead_of(self, job: JobKey, most: int) -> tuple[int, tuple[JobKey, ...]]:
        """How many come before the job, and the first few of them."""
        queue, place = self._places.get(job, ("", None))
        if place is None:
            return 0, ()
        line = self._lines[queue]
        number = bisect_left(line, place)
        return number, tuple(other for _, other in line[: min(number, most)])
