"""What is of higher priority comes first, and what is of lower priority gives way.

A job's priority is that of its PodGroup's class; a pod's own priority orders the pods of one
job. A job may ask others to make room until all its pods run, not only its minimum.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim, SortKey
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey, Task
from stromboli.scheduling.session import Session

NAME: Final = "priority"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Priority:
    """Orders jobs and pods, and names victims, by priority."""

    name = NAME
    is_even_handed = True
    is_impartial = True
    judges_by = "job"
    order_is_own = True
    ordered_by = staticmethod(attrgetter("priority"))

    def __init__(self) -> None:
        self._session: Session | None = None

    def opened(self, session: Session) -> None:
        self._session = session

    def job_order(self, contender: Contender) -> SortKey:
        return (-contender.job.priority,)

    def task_order(self, task: Task) -> SortKey:
        return (-task.priority,)

    def job_starving(self, contender: Contender) -> bool:
        return contender.ready_or_pipelined() < len(contender.job.tasks)

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        own = claim.contender.key
        return [
            victim
            for victim in candidates
            if (
                victim.priority < claim.task.priority
                if victim.job == own
                else self._priority(victim.job) < claim.contender.job.priority
            )
        ]

    def evictable(
        self, claim: Claim, candidates: Sequence[Task], *, reclaiming: bool
    ) -> Sequence[Task] | None:
        if reclaiming:
            return None
        least = claim.contender.job.priority
        return [victim for victim in candidates if self._priority(victim.job) < least]

    def _priority(self, job: JobKey) -> int:
        return self._session.jobs[job].priority if self._session else 0


def build(arguments: Mapping[str, Any]) -> Priority:
    read_arguments(NAME, Args, arguments)
    return Priority()
