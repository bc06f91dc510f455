"""How long jobs run: what they say themselves, else how long their like ran before.

Jobs are alike when they are in one namespace and their names differ only in what comes after the
last dash or in trailing digits, as generated names do. The median of the last few counts.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final, TypeAlias

from stromboli.api.scheduling import PodGroupPhase
from stromboli.api.wellknown import RUNNING_ESTIMATE
from stromboli.scheduling.jobs import ALLOCATED, Job
from stromboli.scheduling.moments import duration_s, moment_of
from stromboli.scheduling.pods import JobKey

__all__ = ["RunTimes"]

_FAMILIES: Final = 4096
_REMEMBERED: Final = 9
_TAIL: Final = re.compile(r"(-[a-z0-9]+|[0-9]+)$")

Family: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class RunTimes:
    """What is known of jobs that ended, and of those that run."""

    _since: dict[JobKey, float] = field(default_factory=dict[JobKey, float])
    _ran: dict[Family, deque[float]] = field(default_factory=dict[Family, deque[float]])

    def note(self, key: JobKey, job: Job | None, now: float) -> None:
        """A job changed, or is gone."""
        runs = job is not None and job.count(*ALLOCATED) > 0
        if runs and job is not None:
            self._since.setdefault(key, _started(job, now))
            return
        since = self._since.pop(key, None)
        if since is not None and (job is None or job.phase == PodGroupPhase.COMPLETED):
            self._remember(_family(key), now - since)

    def started(self, key: JobKey) -> float | None:
        return self._since.get(key)

    @property
    def running(self) -> Mapping[JobKey, float]:
        return self._since

    def estimate_s(self, job: Job) -> float | None:
        said = job.annotations.get(RUNNING_ESTIMATE)
        own = duration_s(said) if said else None
        if own is not None:
            return own
        ran = self._ran.get(_family(job.key))
        return median(ran) if ran else None

    def _remember(self, family: Family, ran_s: float) -> None:
        if family not in self._ran and len(self._ran) >= _FAMILIES:
            del self._ran[next(iter(self._ran))]
        self._ran.setdefault(family, deque(maxlen=_REMEMBERED)).append(ran_s)


def _family(key: JobKey) -> Family:
    namespace, name = key
    return namespace, _TAIL.sub("", name)


def _started(job: Job, now: float) -> float:
    moments = [moment_of(task.started_at or task.bound_at) for task in job.in_status(*ALLOCATED)]
    return min((moment for moment in moments if moment is not None), default=now)
