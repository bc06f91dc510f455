"""A gang starts whole or not at all, and is not cut below its minimum to make room for others.

Ready means: as many pods as the PodGroup's minimum hold a place or have finished, as many of
each role as the role's minimum, and as many whole sub-groups as its policies ask for. Until then
nothing of the gang is bound.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.scheduling.jobs import VALID, Contender
from stromboli.scheduling.plugins.api import Claim, Refusal, SortKey, Vote
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey, Task
from stromboli.scheduling.session import Session
from stromboli.scheduling.spare import Spare

NAME: Final = "gang"

NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
NOT_ENOUGH_OF_TASK: Final = "NotEnoughPodsOfTask"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Gang:
    """Holds jobs to their minimum."""

    name = NAME
    is_even_handed = True
    is_impartial = True
    protects = True
    judges_victims = True
    judges_by = "job"
    order_is_own = True
    is_by_minimum = True

    def __init__(self) -> None:
        self._session: Session | None = None

    def opened(self, session: Session) -> None:
        self._session = session

    def job_order(self, contender: Contender) -> SortKey:
        """A gang that is not complete yet comes before the extras of one that is."""
        return (contender.is_ready,)

    def invalid(self, contender: Contender) -> Refusal | None:
        job = contender.job
        valid = contender.valid()
        if valid < job.min_member:
            return Refusal(
                NOT_ENOUGH_TASKS,
                "Not enough valid tasks for gang-scheduling, "
                f"valid: {valid}, min: {job.min_member}",
            )
        if any(contender.valid(role) < least for role, least in job.role_minimums.items()):
            return Refusal(
                NOT_ENOUGH_OF_TASK, "Not enough valid pods of each task for gang-scheduling"
            )
        grouping = job.grouping
        if grouping is not None and grouping.missing(grouping.count(job.in_status(*VALID))):
            return Refusal(
                NOT_ENOUGH_OF_TASK, "Not enough valid subGroups of each task for gang-scheduling"
            )
        return None

    def job_ready(self, contender: Contender) -> bool:
        return contender.is_ready

    def job_pipelined(self, contender: Contender) -> Vote:
        return Vote.PERMIT if contender.is_pipelined else Vote.REJECT

    def job_starving(self, contender: Contender) -> bool:
        return contender.is_starving

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        return self._to_spare(candidates)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        return self._to_spare(candidates)

    def evictable(
        self, claim: Claim, candidates: Sequence[Task], *, reclaiming: bool
    ) -> Sequence[Task]:
        """Those who take whole gangs have made up their minds about gangs."""
        return candidates

    def _to_spare(self, candidates: Sequence[Task]) -> list[Task]:
        """Of each gang those that it can do without, the first ones."""
        if self._session is None:
            return []
        spare: dict[JobKey, Spare] = {}
        found: list[Task] = []
        for victim in candidates:
            left = spare.get(victim.job)
            if left is None:
                left = spare[victim.job] = Spare(self._session.contender(victim.job))
            if left.take(victim):
                found.append(victim)
        return found


def build(arguments: Mapping[str, Any]) -> Gang:
    read_arguments(NAME, Args, arguments)
    return Gang()
