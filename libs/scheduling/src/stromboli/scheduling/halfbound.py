"""Gangs of which only a part got bound: how long they have stood like that.

Binding is not atomic in Kubernetes. The unbound rest is tried before anything else; a gang that
is still not whole after the timeout holds room that others could use, and is evicted whole. How
long it has been is read from the pods where they say it, so that a restart does not begin anew.
"""

from dataclasses import dataclass, field

from stromboli.api.errors import TimestampError
from stromboli.api.timestamps import parse_time
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.pods import JobKey, TaskStatus

__all__ = ["HalfBound"]


@dataclass(slots=True)
class HalfBound:
    """Which gangs, and since when."""

    timeout_s: float
    _since: dict[JobKey, float] = field(default_factory=dict[JobKey, float])

    def note(self, job: Job, now: float) -> None:
        if job.is_half_bound:
            self._since.setdefault(job.key, _first_bound(job, now))
        else:
            self.forget(job.key)

    def forget(self, job: JobKey) -> None:
        self._since.pop(job, None)

    @property
    def jobs(self) -> frozenset[JobKey]:
        return frozenset(self._since)

    def deadline(self, job: JobKey) -> float | None:
        since = self._since.get(job)
        return None if since is None else since + self.timeout_s


def _first_bound(job: Job, now: float) -> float:
    moments = [now]
    for task in job.in_status(TaskStatus.BOUND, TaskStatus.RUNNING):
        try:
            moments.append(parse_time(task.bound_at).timestamp() if task.bound_at else now)
        except TimestampError:
            continue
    return min(moments)
