"""Whose turn it is: the first queue by its order, and in it the first job by its own.

Jobs that must not wait (`session.first`) come before all queues. Where no plugin prefers a
queue, the first job of all queues has the turn. A job may come back for another turn; its place
in the order is then found anew. A queue may leave for the rest of the cycle.
"""

import heapq
from collections.abc import Iterable

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.session import Session

__all__ = ["Turns"]

_FIRST = "/first"
_ALL = "/all"
"""Lines that are no queue's; a queue's name has no slash."""


class Turns:
    """Jobs that still want a turn in this cycle."""

    def __init__(self, session: Session, contenders: Iterable[Contender]) -> None:
        self._session = session
        self._by_queue: dict[str, list[tuple[SortKey, Contender]]] = {}
        # A queue that may have to leave needs a line of its own.
        self._apart = bool(
            session.panel.queue_order
            or session.panel.watches_overuse
            or any(queue.strict_order for queue in session.queues.values())
        )
        for contender in contenders:
            line = self._by_queue.setdefault(self._line(contender), [])
            line.append((session.job_order(contender), contender))
        for jobs in self._by_queue.values():
            heapq.heapify(jobs)

    def push(self, contender: Contender) -> None:
        jobs = self._by_queue.setdefault(self._line(contender), [])
        heapq.heappush(jobs, (self._session.job_order(contender), contender))

    def pop(self) -> Contender | None:
        line = self._next_line()
        if line is None:
            return None
        jobs = self._by_queue[line]
        _, contender = heapq.heappop(jobs)
        while jobs:
            # What others placed may have put it behind them.
            order = self._session.job_order(contender)
            if order <= jobs[0][0]:
                break
            _, contender = heapq.heapreplace(jobs, (order, contender))
        if not jobs:
            del self._by_queue[line]
        return contender

    @property
    def nobody_waits(self) -> bool:
        return not self._by_queue

    def leave(self, contender: Contender) -> list[Contender]:
        """The job's queue has no more turns; who had wanted one."""
        if not self._apart:
            return []
        jobs = self._by_queue.pop(contender.queue, [])
        return [waiting for _, waiting in sorted(jobs)]

    def _line(self, contender: Contender) -> str:
        if contender.key in self._session.first:
            return _FIRST
        return contender.queue if self._apart else _ALL

    def _next_line(self) -> str | None:
        if len(self._by_queue) <= 1:
            return next(iter(self._by_queue), None)
        if _FIRST in self._by_queue:
            return _FIRST
        return min(self._by_queue, key=self._session.queue_order_of)
