"""Decide what a job needs next: its PodGroup, its pods, its status.

One decision looks at everything that is there, takes one action (a Command's, a policy's, or
none) through the table of phases, and asks for creations, then the new status, then
deletions. That order is what makes an interrupted decision harmless: deletions follow the
status that explains them, so no pod that we delete ourselves is ever taken for evicted.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.api.batch import Action, Job, JobEvent, JobPhase, JobStatus
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.assurance import is_assured, next_check
from stromboli.lifecycle.census import Census, take_census
from stromboli.lifecycle.dependencies import unstartable_pods
from stromboli.lifecycle.endings import blocked, ending_of, lasting
from stromboli.lifecycle.equipping import PODS_AT_ONCE, equip
from stromboli.lifecycle.events import (
    Notice,
    action_event,
    command_event,
    delay_notice,
    tell,
)
from stromboli.lifecycle.phases import FINISHED, KILLING, Keep, What, retries_after, settled
from stromboli.lifecycle.planning import Plan, living_group, plan_for
from stromboli.lifecycle.podgroups import pending_reason
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.remembering import (
    asked_about,
    cleared_away,
    ended_after,
    generation_after,
    hits_nothing,
    renewed_after,
    roster_after,
    still_waiting,
    unanswered_evictions,
)
from stromboli.lifecycle.retries import restarted_after
from stromboli.lifecycle.situations import JobDecision, Situation
from stromboli.lifecycle.sorting import sort_pods
from stromboli.lifecycle.statuses import new_status, status_patch
from stromboli.lifecycle.troubles import Trouble, refused
from stromboli.lifecycle.world import Entry

__all__ = ["PODS_AT_ONCE", "JobDecision", "Situation", "decide_job"]

_LOOK_AGAIN_S: Final = 60.0
"""After this a job that does not get on is looked at again, should nothing else happen."""

_JOB: Final = kinds.VC_JOB.token
_GROUP: Final = kinds.VC_POD_GROUP.token
_POD: Final = kinds.POD.token
_EVENT: Final = kinds.EVENT.token


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision comes to, before it is told and asked for."""

    phase: JobPhase
    census: Census
    records: Records
    version: int
    retry_count: int
    doomed: list[tuple[str, str, str]]
    """(kind, name, uid) of what is to be deleted."""
    trouble: Trouble = Trouble()
    ending: Trouble = Trouble()
    """Why the job has failed with this decision."""
    is_kill: bool = False


def decide_job(situation: Situation, asker: Asker) -> JobDecision | None:
    """One decision about one job; None when it is being deleted and none of our business."""
    job = situation.job
    if job.metadata.deletion_timestamp is not None:
        return None
    records = Records.read(job.status.controlled_resources)
    made = {**records.made, **situation.made}
    records = replace(records, made={place: uid for place, uid in made.items() if uid})
    plan = plan_for(situation, records)
    if plan.command is not None:
        records = replace(records, command=plan.command.uid)
    if plan.effect.what is What.KILL:
        result = _kill(situation, plan, records)
    else:
        result = _sync(situation, plan, records, asker)
    # Before the status, after which nothing of this would be done, nor told, again.
    records = _tell(situation, plan, result, asker)
    status = new_status(
        job,
        phase=result.phase,
        census=result.census,
        records=records,
        version=result.version,
        retry_count=result.retry_count,
        is_kill=result.is_kill,
        trouble=lasting(job, result.phase, result.ending) or result.trouble,
        now=situation.now,
    )
    _write(situation, status, result, asker)
    return JobDecision(
        action=plan.action,
        why=plan.why or status.state.message,
        before=job.status.state.phase,
        phase=result.phase,
        look_again_at=_look_again_at(situation, plan, result),
    )


def _write(situation: Situation, status: JobStatus, result: _Result, asker: Asker) -> None:
    metadata = situation.job.metadata
    patch = status_patch(situation.job.status, status)
    if patch:
        asker.patch(
            _JOB,
            metadata.namespace,
            metadata.name,
            uid=metadata.uid,
            body=patch,
            subresource="status",
        )
    for kind, doomed_name, uid in result.doomed:
        asker.delete(kind, metadata.namespace, doomed_name, uid=uid)
    for command in situation.commands:
        if _is_done_with(command, situation.job, status):
            name = command.object.metadata.name
            asker.delete(kinds.COMMAND.token, metadata.namespace, name, uid=command.uid)


def _look_again_at(situation: Situation, plan: Plan, result: _Result) -> float | None:
    times = [plan.verdict.next_at]
    if result.trouble:
        times.append(situation.now + _LOOK_AGAIN_S)
    if result.phase not in KILLING:
        times.append(next_check(situation, result.records))
    return min((at for at in times if at is not None), default=None)


def _is_done_with(command: Entry, job: Job, status: JobStatus) -> bool:
    """Carried out, or meant for a job of this name that is no more."""
    target = command.object.target
    if target is None or target.uid != job.metadata.uid:
        return True
    return Records.read(status.controlled_resources).command == command.uid


# Ending it.


def _kill(situation: Situation, plan: Plan, records: Records) -> _Result:
    job = situation.job
    effect = plan.effect
    pods = sort_pods(job, situation.members, effect, records, keep=effect.keep)
    retry_count = retries_after(job, effect)
    records = ended_after(situation, pods.staying, records, keep=effect.keep, hits=hits_nothing)
    cleared = cleared_away(pods.staying, records)
    census = take_census(pods.staying, ending=pods.ending, cleared=cleared)
    reached = effect.enters or settled(
        effect.rule, plan.phase, job, census, retry_count=retry_count
    )
    doomed = [(_POD, pod.name, pod.uid) for pod in pods.to_delete]
    group = None if _keeps_place(situation, reached) else situation.group
    if group is not None:
        doomed.append((_GROUP, group.object.metadata.name, group.uid))
    records = replace(records, pods={}, renewed={}, restarted={}, delayed={})
    if effect.begins_version:
        records = replace(
            records,
            kept=effect.keep,
            ended_group=group.uid if group else "",
            told={},
            generation=asked_about(job),
            claims=records.claims & (situation.claims or frozenset()),
        )
    if reached in KILLING:
        # A job that starts again keeps what its plugins made; one that ends gives it back.
        # The record goes when the object is known to be gone, so that none is forgotten.
        doomed += [(kind, name, uid) for (kind, name), uid in records.made.items()]
        records = replace(records, plugins=frozenset(), content={})
    return _Result(
        phase=reached,
        census=census,
        records=records,
        version=job.status.version + effect.begins_version,
        retry_count=retry_count,
        doomed=doomed,
        trouble=refused(situation) if doomed else Trouble(),
        ending=ending_of(effect.rule, job, reached, census, {}),
        is_kill=True,
    )


def _keeps_place(situation: Situation, reached: JobPhase) -> bool:
    """A job that starts again in a queue that is shut would get no new PodGroup there."""
    return reached is JobPhase.RESTARTING and bool(situation.shut)


# Keeping it as it should be.


def _sync(situation: Situation, plan: Plan, records: Records, asker: Asker) -> _Result:
    job = situation.job
    phase, effect = plan.phase, plan.effect
    hits = plan.hits or hits_nothing
    pods = sort_pods(job, situation.members, effect, records, keep=records.kept, hits=hits)
    retry_count = retries_after(job, effect)
    records = ended_after(situation, pods.staying, records, keep=Keep.FINISHED, hits=hits)
    cleared = cleared_away(pods.staying, records)
    census = take_census(pods.staying, ending=pods.ending, cleared=cleared)
    lost = {} if plan.verdict.waiting else unstartable_pods(job, situation.members, records)
    reached = effect.enters or settled(
        *(effect.rule, phase, job, census),
        retry_count=retry_count,
        unstartable=sum(number for number, _ in lost.values()),
    )
    doomed = [(_POD, pod.name, pod.uid) for pod in pods.to_delete]
    unanswered = unanswered_evictions(plan, hits)
    trouble = Trouble()
    if reached not in FINISHED:
        # A new pod would hide that the one before it was evicted, until that is answered and told.
        is_told = effect.what is What.SYNC and plan.verdict.waiting == records.delayed
        trouble, records = equip(
            *(situation, asker, records),
            pods_too=is_told and not unanswered,
            is_assured=is_assured(situation, records) and not _has_lost_more(plan, records),
        )
        group = situation.group
        if group is not None and group.uid == records.ended_group:
            doomed.append((_GROUP, group.object.metadata.name, group.uid))
    return _Result(
        phase=reached,
        census=census,
        records=replace(
            records,
            pods=roster_after(situation, pods, records, unanswered, hits),
            renewed=renewed_after(situation, records, hits, retry_count),
            restarted=_restarted_after(situation, plan, records),
            delayed=still_waiting(plan.verdict.waiting, hits),
            generation=generation_after(plan, job, records),
        ),
        version=job.status.version,
        retry_count=retry_count,
        doomed=doomed,
        trouble=trouble or blocked(job, phase, census, lost),
        ending=ending_of(effect.rule, job, reached, census, lost),
    )


def _has_lost_more(plan: Plan, records: Records) -> bool:
    """Are pods missing that were not missed before? One that a policy waits for was."""
    return any(
        not indexes <= records.delayed.get((JobEvent.POD_EVICTED, task), {}).keys()
        for task, indexes in plan.missing.items()
    )


def _restarted_after(
    situation: Situation, plan: Plan, records: Records
) -> dict[str, frozenset[int]]:
    if plan.hits is None or plan.effect.what is not What.KILL_TARGET:
        return records.restarted
    before = {} if plan.effect.counts_as_retry else records.restarted
    lost = [(task, index) for task, indexes in plan.missing.items() for index in indexes]
    return restarted_after(before, lost, situation.members, hits=plan.hits)


# Telling people.


def _tell(situation: Situation, plan: Plan, result: _Result, asker: Asker) -> Records:
    """Ask for the events that are new; returns the records with what is told by then."""
    job, now = situation.job, situation.now
    if plan.command is not None:
        does_something = _changes_anything(plan)
        asker.create(_EVENT, command_event(job, plan.action, does_something, now=now))
    elif plan.action != Action.SYNC_JOB and _changes_anything(plan):
        asker.create(_EVENT, action_event(job, plan.action, now=now))
    told: Mapping[str, str] = result.records.told
    for notice in _notices(situation, plan, result):
        event, told = tell(job, notice, told, now=now)
        if event is not None:
            asker.create(_EVENT, event)
    return replace(result.records, told=dict(told))


def _changes_anything(plan: Plan) -> bool:
    """A repeated kill in the phase that it led to is none."""
    effect = plan.effect
    return effect.what is What.KILL_TARGET or effect.enters is not None or effect.begins_version


def _notices(situation: Situation, plan: Plan, result: _Result) -> Iterable[Notice]:
    for answer in plan.verdict.announced:
        yield delay_notice(answer.action, answer.timeout or "")
    for trouble in (result.ending, result.trouble):
        if trouble:
            yield Notice(reason=trouble.reason, message=trouble.message)
    group = living_group(situation, result.records)
    why = None if group is None or result.phase in KILLING else pending_reason(group)
    if why is not None:
        metadata = situation.job.metadata
        waits = f"{why.type.lower()}, reason: {why.message}"
        message = f"PodGroup {metadata.namespace}:{metadata.name} {waits}"
        # Numbers in the message change all the time; since when it waits for this does not.
        same = f"{why.type} {why.last_transition_time}" if why.last_transition_time else ""
        yield Notice(reason="PodGroupPending", message=message, same_as=same)
