"""What a decision about a job is: the action that is taken, and why.

A Command comes before everything that happened; of what happened, the first that a policy
answers now. An action that needs a target and has none is no action.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from stromboli.api.batch import Action, JobPhase
from stromboli.api.bus import Command
from stromboli.api.scheduling import PodGroup
from stromboli.lifecycle.delays import Verdict, weigh
from stromboli.lifecycle.phases import (
    KILLING,
    TARGETED,
    Effect,
    Keep,
    What,
    effect_of,
    phase_of,
)
from stromboli.lifecycle.policies import Happening
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.retries import is_one_more_retry
from stromboli.lifecycle.situations import Situation
from stromboli.lifecycle.sorting import Hits, target_of
from stromboli.lifecycle.triggers import evicted, happenings, leaving
from stromboli.lifecycle.world import Entry

__all__ = ["Plan", "living_group", "plan_for"]

Missing = Mapping[str, frozenset[int]]
"""Task → indexes."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The action that is taken, why, and what it does in this phase."""

    phase: JobPhase
    effect: Effect
    action: str
    verdict: Verdict = Verdict()
    command: Entry | None = None
    hits: Hits | None = None
    """For a restart of a part: the pods that it is about."""
    missing: Missing = {}
    """The pods that were evicted."""

    @property
    def causes(self) -> tuple[Happening, ...]:
        """What the action answers; none if a Command asks for it."""
        return self.verdict.causes

    @property
    def why(self) -> str:
        if self.command is not None:
            command: Command = self.command.object
            said = f": {command.reason} {command.message}".rstrip(": ")
            return f"command {command.metadata.name}{said}"
        first, *others = (*(cause.words for cause in self.causes), "")
        return f"{first}, and {len(others) - 1} more" if len(others) > 1 else first


def plan_for(situation: Situation, records: Records) -> Plan:
    job = situation.job
    phase = phase_of(job)
    command = _next_command(situation, records)
    verdict = Verdict(waiting=records.delayed)
    action: str = Action.SYNC_JOB
    missing: Missing = {}
    if phase not in KILLING and job.status.state.phase:
        missing = evicted(job, situation.members, records, situation.vanished)
    if command is not None:
        action = command.object.action
    elif phase not in KILLING and job.status.state.phase:
        verdict = _weigh(situation, phase, records, missing)
        action = verdict.answer.action if verdict.answer is not None else action
    hits = None
    if action in TARGETED and verdict.causes:
        going = leaving(job, action, situation.members, records)
        hits = target_of(job, action, (*verdict.causes, *going))
    # A restart of a part that does not say of which: nothing to restart.
    effect = effect_of(phase, Action.SYNC_JOB if action in TARGETED and hits is None else action)
    if effect.what is What.KILL and job.status.retry_count >= job.spec.max_retry - 1:
        effect = replace(effect, keep=Keep.FINISHED)  # the last retry: people want to see why
    if hits is not None and effect.counts_as_retry:
        counts = is_one_more_retry(
            job, verdict.causes, situation.members, records, hits=hits, now=situation.now
        )
        effect = replace(effect, counts_as_retry=counts)
    return Plan(
        phase=phase,
        effect=effect,
        action=action,
        verdict=verdict,
        command=command,
        hits=hits,
        missing=missing,
    )


def _weigh(situation: Situation, phase: JobPhase, records: Records, missing: Missing) -> Verdict:
    job = situation.job
    happened = happenings(
        job,
        phase,
        situation.members,
        records,
        missing=missing,
        vanished=situation.vanished,
        group=living_group(situation, records),
    )
    return weigh(job, happened, records.delayed, now=situation.now)


def living_group(situation: Situation, records: Records) -> PodGroup | None:
    group = situation.group
    return None if group is None or group.uid == records.ended_group else group.object


def _next_command(situation: Situation, records: Records) -> Entry | None:
    # One at a time: the status has room for one, so it must be gone before the next.
    if any(command.uid == records.command for command in situation.commands):
        return None
    for command in situation.commands:
        target = command.object.target
        if target is not None and target.uid == situation.job.metadata.uid:
            return command
    return None
