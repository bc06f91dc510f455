"""Decide what a job needs next: its PodGroup, its pods, its status.

One decision looks at everything that is there, takes one action (a Command's, a policy's, or
none) through the table of phases, and asks for creations, then the new status, then
deletions. That order is what makes an interrupted decision harmless: deletions follow the
status that explains them, so no pod that we delete ourselves is ever taken for evicted.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.api.batch import Action, Job, JobPhase, JobStatus
from stromboli.api.bus import Command
from stromboli.api.errors import ApiError
from stromboli.api.kinds import controller_reference
from stromboli.api.scheduling import PodGroup
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.census import Member, take_census
from stromboli.lifecycle.events import action_event, command_event
from stromboli.lifecycle.manifests import compact_manifest
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.phases import (
    FINISHED,
    KILLING,
    Effect,
    Keep,
    What,
    effect_of,
    phase_of,
    settled,
    total_replicas,
)
from stromboli.lifecycle.plugins import NeededSecret, plugins_of, unknown_plugins
from stromboli.lifecycle.podgroups import FOLLOWS_JOB, admits_pods, build_pod_group, queue_of
from stromboli.lifecycle.pods import build_pod
from stromboli.lifecycle.policies import Happening
from stromboli.lifecycle.quota import PriorityOf
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.sorting import Sorted, missing_pods, sort_pods
from stromboli.lifecycle.statuses import new_status, status_patch
from stromboli.lifecycle.triggers import evicted, happenings, trigger
from stromboli.lifecycle.world import Entry

__all__ = ["PODS_AT_ONCE", "JobDecision", "Situation", "decide_job"]

PODS_AT_ONCE: Final = 250
"""Creations per decision; the rest follows when these are there."""

MOST_PODS: Final = 100_000
"""More than a cluster has room for; the names alone would not fit into one ConfigMap."""

_JOB: Final = kinds.VC_JOB.token
_GROUP: Final = kinds.VC_POD_GROUP.token
_POD: Final = kinds.POD.token
_EVENT: Final = kinds.EVENT.token


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision about a job rests on."""

    job: Job
    members: tuple[Member, ...] = ()
    group: Entry | None = None
    commands: tuple[Entry, ...] = ()
    queue_exists: bool = True
    made: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)
    """(kind, name) → uid of objects that outcomes said were made; empty: deleted again."""
    vanished: frozenset[tuple[str, int, int]] = frozenset()
    trouble: str = ""
    """Why something that was asked for last time was refused."""
    priority_of: PriorityOf = lambda _name: 0
    now: float


class JobDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Why, in words for the job's history; what is asked for is with the Asker."""

    action: str
    why: str = ""
    before: str = ""
    phase: JobPhase


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The action that is taken, why, and what it does in this phase."""

    phase: JobPhase
    effect: Effect
    action: str
    happening: Happening | None = None
    command: Entry | None = None

    @property
    def why(self) -> str:
        if self.command is not None:
            command: Command = self.command.object
            said = f": {command.reason} {command.message}".rstrip(": ")
            return f"command {command.metadata.name}{said}"
        return self.happening.words if self.happening is not None else ""


def decide_job(situation: Situation, asker: Asker) -> JobDecision | None:
    """One decision about one job; None when it is being deleted and none of our business."""
    job = situation.job
    if job.metadata.deletion_timestamp is not None:
        return None
    records = Records.read(job.status.controlled_resources)
    made = {**records.made, **situation.made}
    records = replace(records, made={place: uid for place, uid in made.items() if uid})
    plan = _plan(situation, records)
    if plan.command is not None:
        records = replace(records, command=plan.command.uid)
    if plan.effect.what is What.KILL:
        status, doomed = _kill(situation, plan, records)
    else:
        status, doomed = _sync(situation, plan, records, asker)
    # Before the status, after which the action would not be taken, nor told, again.
    if plan.command is not None:
        asker.create(_EVENT, command_event(job, plan.action, now=situation.now))
    elif plan.action != Action.SYNC_JOB:
        asker.create(_EVENT, action_event(job, plan.action, now=situation.now))
    patch = status_patch(job.status, status)
    namespace, name = job.metadata.namespace, job.metadata.name
    if patch:
        asker.patch(_JOB, namespace, name, uid=job.metadata.uid, body=patch, subresource="status")
    for kind, doomed_name, uid in doomed:
        asker.delete(kind, namespace, doomed_name, uid=uid)
    for command in situation.commands:
        if _is_done_with(command, job, status):
            asker.delete(
                kinds.COMMAND.token, namespace, command.object.metadata.name, uid=command.uid
            )
    return JobDecision(
        action=plan.action,
        why=plan.why or status.state.message,
        before=job.status.state.phase,
        phase=JobPhase(status.state.phase),
    )


# What to do.


def _plan(situation: Situation, records: Records) -> _Plan:
    job = situation.job
    phase = phase_of(job)
    command = _next_command(situation, records)
    happening = None
    if command is not None:
        action = command.object.action
    elif phase in KILLING or not job.status.state.phase:
        action = Action.SYNC_JOB
    else:
        missing = evicted(job, situation.members, records, situation.vanished)
        action, happening = trigger(job, happenings(job, situation.members, missing))
    effect = effect_of(phase, action)
    if effect.what is What.KILL and _is_last_retry(job):
        effect = replace(effect, keep=Keep.FINISHED)
    return _Plan(phase=phase, effect=effect, action=action, happening=happening, command=command)


def _next_command(situation: Situation, records: Records) -> Entry | None:
    # One at a time: the status has room for one, so it must be gone before the next.
    if any(command.uid == records.command for command in situation.commands):
        return None
    for command in situation.commands:
        target = command.object.target
        if target is not None and target.uid == situation.job.metadata.uid:
            return command
    return None


def _is_last_retry(job: Job) -> bool:
    return job.status.retry_count >= job.spec.max_retry - 1


def _is_done_with(command: Entry, job: Job, status: JobStatus) -> bool:
    """Carried out, or meant for a job of this name that is no more."""
    target = command.object.target
    if target is None or target.uid != job.metadata.uid:
        return True
    return Records.read(status.controlled_resources).command == command.uid


_Doomed = list[tuple[str, str, str]]
"""(kind, name, uid) of what is to be deleted."""


# Ending it.


def _kill(situation: Situation, plan: _Plan, records: Records) -> tuple[JobStatus, _Doomed]:
    job = situation.job
    phase, effect = plan.phase, plan.effect
    keep = effect.keep
    pods = sort_pods(job, situation.members, effect, keep=keep)
    census = take_census(pods.staying, ending=pods.ending)
    retry_count = job.status.retry_count + effect.counts_as_retry
    reached = effect.enters or settled(effect.rule, phase, job, census, retry_count=retry_count)
    doomed = [(_POD, pod.name, pod.uid) for pod in pods.to_delete]
    group = situation.group
    if group is not None:
        doomed.append((_GROUP, group.object.metadata.name, group.uid))
    version = job.status.version
    records = replace(records, pods={})
    if effect.enters is not None:
        version += 1
        records = replace(records, kept=keep, ended_group=group.uid if group else "")
    if reached in KILLING:
        # A job that starts again keeps what its plugins made; one that ends gives it back.
        # The record goes when the object is known to be gone, so that none is forgotten.
        doomed += [(kind, name, uid) for (kind, name), uid in records.made.items()]
        records = replace(records, plugins=frozenset())
    status = new_status(
        job,
        phase=reached,
        census=census,
        records=records,
        version=version,
        retry_count=retry_count,
        is_kill=True,
        problem=("", ""),
        now=situation.now,
    )
    return status, doomed


# Keeping it as it should be.


def _sync(
    situation: Situation, plan: _Plan, records: Records, asker: Asker
) -> tuple[JobStatus, _Doomed]:
    job = situation.job
    phase, effect = plan.phase, plan.effect
    target = (plan.action, plan.happening) if plan.happening is not None else None
    pods = sort_pods(job, situation.members, effect, keep=records.kept, target=target)
    census = take_census(pods.staying, ending=pods.ending)
    retry_count = job.status.retry_count + effect.counts_as_retry
    reached = effect.enters or settled(effect.rule, phase, job, census, retry_count=retry_count)
    doomed = [(_POD, pod.name, pod.uid) for pod in pods.to_delete]
    problem = ("", "")
    if reached not in FINISHED:
        problem, records = _equip(situation, asker, records)
        group = situation.group
        if group is not None and group.uid == records.ended_group:
            doomed.append((_GROUP, group.object.metadata.name, group.uid))
    status = new_status(
        job,
        phase=reached,
        census=census,
        records=replace(records, pods=_roster(situation, pods, records)),
        version=job.status.version,
        retry_count=retry_count,
        is_kill=False,
        problem=problem,
        now=situation.now,
    )
    return status, doomed


def _equip(situation: Situation, asker: Asker, records: Records) -> tuple[tuple[str, str], Records]:
    """Ask for what the job lacks; returns what is in the way of that, if anything."""
    job = situation.job
    unknown = unknown_plugins(job)
    if unknown:
        return ("PluginError", f"failed to get plugin {', '.join(unknown)}"), records
    if total_replicas(job) > MOST_PODS:
        return ("TooManyPods", f"a job has at most {MOST_PODS} pods"), records
    if not situation.queue_exists:
        return ("QueueNotFound", f"queue {queue_of(job)} does not exist"), records
    try:
        records = _make_for_plugins(situation, asker, records)
        _make_pod_group(situation, asker, records)
        if _may_have_pods(situation, records):
            plugins = plugins_of(job)
            for task, index in islice(missing_pods(job, situation.members), PODS_AT_ONCE):
                pod = build_pod(job, task, index, plugins=plugins)
                asker.create(_POD, pod, owner_uid=job.metadata.uid)
    except ApiError as fault:
        # A template that nobody can read: admission refuses it, but may have been away.
        return ("InvalidTemplate", str(fault)), records
    return ("FailedCreate" if situation.trouble else "", situation.trouble), records


def _may_have_pods(situation: Situation, records: Records) -> bool:
    group = situation.group
    if group is None or group.uid == records.ended_group:
        return False
    return admits_pods(group.object) and records.plugins >= situation.job.spec.plugins.keys()


def _make_for_plugins(situation: Situation, asker: Asker, records: Records) -> Records:
    """Ask for the objects that are not there yet; note the plugins that have all of theirs."""
    job = situation.job
    owner_uid = job.metadata.uid
    complete: set[str] = set()
    for plugin in plugins_of(job):
        if plugin.name in records.plugins:
            continue
        lacking = False
        for need in plugin.needs(job):
            # Not the record, which may be of one that is gone: asking again does no harm.
            if situation.made.get((need.kind, need.name)):
                continue
            lacking = True
            if isinstance(need, NeededSecret):
                asker.generate_secret(
                    job.metadata.namespace,
                    need.name,
                    recipe=need.recipe,
                    parameters=need.parameters,
                    owner=(_JOB, job.metadata.name, owner_uid),
                )
            else:
                asker.create(
                    need.kind, _owned(job, need.kind, need.name, need.body), owner_uid=owner_uid
                )
        if not lacking:
            complete.add(plugin.name)
    return replace(records, plugins=records.plugins | complete)


def _owned(job: Job, token: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    kind = kinds.by_token(token)
    metadata = {
        "name": name,
        "namespace": job.metadata.namespace,
        "ownerReferences": [msgspec.to_builtins(controller_reference(job))],
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


def _make_pod_group(situation: Situation, asker: Asker, records: Records) -> None:
    job = situation.job
    wanted = build_pod_group(job, situation.priority_of)
    found = situation.group
    if found is None:
        asker.create(_GROUP, compact_manifest(wanted), owner_uid=job.metadata.uid)
    elif found.uid != records.ended_group:
        patch = merge_patch(_followed(found.object), _followed(wanted))
        if patch:
            asker.patch(
                _GROUP,
                job.metadata.namespace,
                wanted.metadata.name,
                uid=found.uid,
                body={"spec": patch},
            )


def _followed(group: PodGroup) -> dict[str, Any]:
    spec: dict[str, Any] = msgspec.to_builtins(group.spec)
    return {field: spec[field] for field in FOLLOWS_JOB if field in spec}


def _roster(situation: Situation, pods: Sorted, records: Records) -> dict[str, frozenset[int]]:
    """The pods to be missed should they vanish.

    One that is on its way out stays in it until it is gone, unless it is going by our doing.
    """
    job = situation.job
    present: dict[str, set[int]] = {}
    for member in pods.staying:
        if member.version == job.status.version:
            present.setdefault(member.task, set()).add(member.index)
    for member in situation.members:
        known = member.index in records.pods.get(member.task, frozenset())
        if member.is_terminating and known and member.version == job.status.version:
            present.setdefault(member.task, set()).add(member.index)
    return {task: frozenset(indexes) for task, indexes in present.items()}
