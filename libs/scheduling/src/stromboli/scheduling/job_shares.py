"""What part of the cluster each job has, with what a cycle gives it and takes from it."""

from stromboli.scheduling.accounts import Sums, add
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.session import Session
from stromboli.scheduling.shares import dominant_share
from stromboli.scheduling.trial import Eviction, Placement

__all__ = ["JobShares"]


class JobShares:
    """The part of a plugin that follows what a cycle does to jobs."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.total: dict[str, int] = {}
        self._placed: dict[JobKey, Sums] = {}
        """What this cycle gave to jobs, or took from them."""

    def opened(self, session: Session) -> None:
        if session.nodes_changed or self.session is None:
            self.total = session.totals()[0]
        self.session = session
        self._placed.clear()

    def held(self, key: JobKey) -> Sums:
        """A copy."""
        job = self.session.jobs.get(key) if self.session else None
        sums = dict(job.allocated) if job else {}
        add(sums, self._placed.get(key, {}))
        return sums

    def share(self, key: JobKey) -> float:
        """The largest part of any resource."""
        if key in self._placed:
            return dominant_share(self.held(key), self.total)
        job = self.session.jobs.get(key) if self.session else None
        return dominant_share(job.allocated, self.total) if job and job.allocated else 0.0

    def placed(self, placement: Placement) -> None:
        self.move(placement.contender.key, placement.kind.request, len(placement.tasks))

    def withdrawn(self, placement: Placement) -> None:
        self.move(placement.contender.key, placement.kind.request, -len(placement.tasks))

    def evicted(self, eviction: Eviction) -> None:
        self.move(eviction.contender.key, eviction.task.kind.request, -1)

    def restored(self, eviction: Eviction) -> None:
        self.move(eviction.contender.key, eviction.task.kind.request, 1)

    def move(self, key: JobKey, request: Amounts, count: int) -> None:
        """The job has so many pods of this request more, or less."""
        placed = self._placed.setdefault(key, {})
        for name, units in request:
            placed[name] = placed.get(name, 0) + units * count
