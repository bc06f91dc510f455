"""A gang starts whole or not at all.

Ready means: as many pods as the PodGroup's minimum hold a place or have finished, and as many
of each role as the role's minimum. Until then nothing of the gang is bound.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Refusal, SortKey, Vote
from stromboli.scheduling.plugins.arguments import read_arguments

NAME: Final = "gang"

NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
NOT_ENOUGH_OF_TASK: Final = "NotEnoughPodsOfTask"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Gang:
    """Holds jobs to their minimum."""

    name = NAME

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
        return None

    def job_ready(self, contender: Contender) -> bool:
        return contender.is_ready

    def job_pipelined(self, contender: Contender) -> Vote:
        return Vote.PERMIT if contender.is_pipelined else Vote.REJECT


def build(arguments: Mapping[str, Any]) -> Gang:
    read_arguments(NAME, Args, arguments)
    return Gang()
