"""Nobody is asked to go before it has run for a while, so that work is not thrown away.

Ours, off by default. How long that is, the PodGroup says (`stromboli.sh/min-run-time`), else its
queue (the same annotation), else the configuration for all.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.scheduling.errors import BadValue
from stromboli.scheduling.moments import duration_s, moment_of
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task
from stromboli.scheduling.session import Session

NAME: Final = "min-run-time"
ANNOTATION: Final = "stromboli.sh/min-run-time"


class Args(msgspec.Struct, frozen=True):
    """For jobs and queues that say nothing themselves."""

    otherwise: str = msgspec.field(default="0s", name="min-run-time")


class MinRunTime:
    """Protects pods that have only just begun."""

    name = NAME

    def __init__(self, otherwise_s: float) -> None:
        self._otherwise_s = otherwise_s
        self._session: Session | None = None
        self._until = math.inf
        """When the first of those that were spared in this cycle may be asked."""

    def opened(self, session: Session) -> None:
        self._session, self._until = session, math.inf

    def closed(self, session: Session) -> None:
        """Who was refused victims is looked at again when there may be some."""
        if self._until < math.inf:
            for key, contender in session.contenders.items():
                if contender.waiting:
                    session.look_again(key, self._until)

    def may_go(self, task: Task) -> bool:
        since = moment_of(task.started_at) or moment_of(task.bound_at)
        if self._session is None or since is None:
            return True
        until = since + self._wanted_s(self._session, task)
        if self._session.now >= until:
            return True
        self._until = min(self._until, until)
        return False

    def _wanted_s(self, session: Session, task: Task) -> float:
        job = session.jobs[task.job]
        queue = session.queues.get(session.queue_of(job))
        for annotations in (job.annotations, queue.annotations if queue else {}):
            said = duration_s(annotations[ANNOTATION]) if ANNOTATION in annotations else None
            if said is not None:
                return said
        return self._otherwise_s


def build(arguments: Mapping[str, Any]) -> MinRunTime:
    args = read_arguments(NAME, Args, arguments)
    otherwise_s = duration_s(args.otherwise)
    if otherwise_s is None or otherwise_s < 0:
        raise BadValue(f"the span of time of {NAME}", args.otherwise, "one such as 10m or 1h30m")
    return MinRunTime(otherwise_s)
