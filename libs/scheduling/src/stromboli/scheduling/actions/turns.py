"""Whose turn it is: the first queue by its order, and in it the first job by its own.

Where no plugin prefers a queue, the first job of all queues has the turn. A job may come back
for another turn; its place in the order is then found anew.
"""

import heapq
from collections.abc import Iterable

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.session import Session

__all__ = ["Turns"]


class Turns:
    """Jobs that still want a turn in this cycle."""

    def __init__(self, session: Session, contenders: Iterable[Contender]) -> None:
        self._session = session
        self._by_queue: dict[str, list[tuple[SortKey, Contender]]] = {}
        for contender in contenders:
            self._by_queue.setdefault(self._queue_of(contender), []).append(
                (session.job_order(contender), contender)
            )
        for jobs in self._by_queue.values():
            heapq.heapify(jobs)

    def push(self, contender: Contender) -> None:
        jobs = self._by_queue.setdefault(self._queue_of(contender), [])
        heapq.heappush(jobs, (self._session.job_order(contender), contender))

    def pop(self) -> Contender | None:
        if not self._by_queue:
            return None
        if len(self._by_queue) == 1:
            queue = next(iter(self._by_queue))
        else:
            queue = min(self._by_queue, key=self._order)
        jobs = self._by_queue[queue]
        _, contender = heapq.heappop(jobs)
        if not jobs:
            del self._by_queue[queue]
        return contender

    def _queue_of(self, contender: Contender) -> str:
        """One line for all, as long as nobody prefers a queue."""
        return contender.queue if self._session.panel.queue_order else ""

    def _order(self, queue: str) -> SortKey:
        return (
            self._session.queue_order(self._session.queues[queue]),
            self._by_queue[queue][0][0],
        )
