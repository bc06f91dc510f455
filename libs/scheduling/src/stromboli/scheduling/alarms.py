"""Moments at which jobs are to be looked at again, whatever happens until then."""

import heapq
import math
from dataclasses import dataclass, field

from stromboli.scheduling.pods import JobKey

__all__ = ["Alarms"]


@dataclass(slots=True)
class Alarms:
    """A job may have several; asking twice for one moment is asking once."""

    _heap: list[tuple[float, JobKey]] = field(default_factory=list[tuple[float, JobKey]])
    _of_job: dict[JobKey, set[float]] = field(default_factory=dict[JobKey, set[float]])

    def put(self, job: JobKey, at: float) -> None:
        moments = self._of_job.setdefault(job, set())
        if at not in moments:
            moments.add(at)
            heapq.heappush(self._heap, (at, job))

    def ring(self, now: float) -> list[JobKey]:
        """Jobs whose moment has come; they are forgotten."""
        due: list[JobKey] = []
        while self._heap and self._heap[0][0] <= now:
            at, job = heapq.heappop(self._heap)
            if self._drop(job, at):
                due.append(job)
        return due

    @property
    def next(self) -> float:
        while self._heap and self._heap[0][0] not in self._of_job.get(self._heap[0][1], ()):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def forget(self, job: JobKey) -> None:
        self._of_job.pop(job, None)

    def _drop(self, job: JobKey, at: float) -> bool:
        moments = self._of_job.get(job)
        if moments is None or at not in moments:
            return False
        moments.remove(at)
        if not moments:
            del self._of_job[job]
        return True
