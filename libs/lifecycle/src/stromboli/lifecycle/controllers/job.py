"""The job controller: what a decision about a job rests on, gathered from the world.

What is decided is in `stromboli.lifecycle.jobs`. Kept beside the facts is only which pods were
seen to go and which of them went by our doing, which no object tells afterwards.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from stromboli.api import kinds
from stromboli.api.batch import Job
from stromboli.api.core import PersistentVolumeClaim, Pod
from stromboli.api.owners import is_controlled_by
from stromboli.api.scheduling import PodGroup, Queue, QueueState
from stromboli.contracts.intents import AnyIntent, DeleteObject
from stromboli.contracts.partitions import job_key
from stromboli.contracts.permissions import CONTROLLERS
from stromboli.contracts.records import HistoryRecorded
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.census import Member, member_of
from stromboli.lifecycle.claims import claim_names, claims_for
from stromboli.lifecycle.controllers.plain import Plain
from stromboli.lifecycle.controllers.protocol import NOTHING_MORE, Case, Verdict
from stromboli.lifecycle.jobs import decide_job
from stromboli.lifecycle.podgroups import pod_group_name, queue_of
from stromboli.lifecycle.situations import JobDecision, Situation
from stromboli.lifecycle.world import Change, Entry, Place, World

__all__ = ["JobController"]

Waited: TypeAlias = tuple[str, Place]
"""A kind, and where the object is."""

_JOB: Final = kinds.VC_JOB.token
_CLAIM: Final = kinds.PERSISTENT_VOLUME_CLAIM.token


@dataclass(slots=True)
class _Pods:
    deleting: set[str] = field(default_factory=set[str])
    vanished: list[Member] = field(default_factory=list[Member])
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    """Uid → the pod as it was read last: of thousands, few change from decision to decision."""


class JobController(Plain):
    name = "job-controller"
    decides = _JOB
    reads = (
        kinds.PRIORITY_CLASS.token,
        kinds.QUEUE.token,
        _JOB,
        kinds.VC_POD_GROUP.token,
        kinds.COMMAND.token,
        _CLAIM,
        kinds.POD.token,
    )

    def __init__(self) -> None:
        self._pods: dict[str, _Pods] = {}
        self._waiting: dict[Waited, set[Place]] = {}
        """What a job needs that others make → the jobs that need it."""

    def touched_by(self, change: Change, world: World) -> Iterator[str]:  # noqa: ARG002 (all told)
        for entry, known in ((change.before, False), (change.after, True)):
            if entry is not None and isinstance(entry.object, Job):
                self._note_needs(change.place, entry.object, known=known)
        ended = change.ended
        if ended is not None and isinstance(ended.object, Pod):
            for key in change.keys:
                self._note_vanished(key, ended)
        if change.kind == kinds.QUEUE.token and _offers(change.before) == _offers(change.after):
            return  # its status changes with every job, which is news to none of them
        for place in sorted(self._waiting.get((change.kind, change.place), ())):
            yield job_key(_JOB, *place)

    def heeds(self, change: Change) -> bool:
        """Of its PodGroup a job wants to know little; the scheduler often finds other words."""
        if change.kind != kinds.VC_POD_GROUP.token or change.ended is not None:
            return True
        return _tells(change.before) != _tells(change.after)

    def _note_needs(self, place: Place, job: Job, *, known: bool) -> None:
        needs: list[Waited] = [(kinds.QUEUE.token, ("", queue_of(job)))]
        needs += ((_CLAIM, (place[0], name)) for name in claim_names(job))
        for need in needs:
            jobs = self._waiting.setdefault(need, set())
            if known:
                jobs.add(place)
            else:
                jobs.discard(place)
            if not jobs:
                del self._waiting[need]

    def _note_vanished(self, key: str, entry: Entry) -> None:
        pods = self._pods.get(key)
        if pods is None:
            return
        member = _member(entry)
        if entry.uid not in pods.deleting and member is not None:
            pods.vanished.append(member)
        pods.deleting.discard(entry.uid)

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        entry = case.entry
        if entry is None:
            _clear_away(world.belongings(case.key, kinds.COMMAND.token), asker)
            return NOTHING_MORE
        pods = self._pods.setdefault(case.key, _Pods())
        decision = decide_job(_situation(case, entry, pods, world), asker)
        pods.vanished.clear()
        if decision is None:
            return NOTHING_MORE
        return Verdict(
            history=_story(entry.object, decision, asker.intents, case.now),
            look_again_at=decision.look_again_at,
        )

    def was_asked(self, key: str, intents: Iterable[AnyIntent]) -> None:
        pods = self._pods.get(key)
        if pods is not None:
            pods.deleting |= {
                intent.uid
                for intent in intents
                if isinstance(intent, DeleteObject) and intent.kind == kinds.POD.token
            }

    def forget(self, key: str) -> None:
        self._pods.pop(key, None)


def _clear_away(commands: Iterable[Entry], asker: Asker) -> None:
    """Orders to a job that is gone: it was there when they were given."""
    for command in commands:
        metadata = command.object.metadata
        asker.delete(kinds.COMMAND.token, metadata.namespace, metadata.name, uid=command.uid)


def _situation(case: Case, entry: Entry, pods: _Pods, world: World) -> Situation:
    job: Job = entry.object
    groups = (
        group
        for group in world.belongings(case.key, kinds.VC_POD_GROUP.token)
        if group.object.metadata.name == pod_group_name(job)
    )
    commands = sorted(
        world.belongings(case.key, kinds.COMMAND.token),
        key=lambda c: (c.object.metadata.creation_timestamp or "", c.object.metadata.name),
    )
    queue_exists, shut, queue_forwards = _offers(world.find(kinds.QUEUE.token, "", queue_of(job)))

    def claim(name: str) -> PersistentVolumeClaim | None:
        found = world.find(_CLAIM, job.metadata.namespace, name)
        return None if found is None else found.object

    claims, taken_claims = claims_for(job, claim)
    return Situation(
        job=job,
        members=_members(case, job, pods, world),
        group=next(groups, None),
        commands=tuple(commands),
        queue_exists=queue_exists,
        shut=shut,
        queue_forwards=queue_forwards,
        claims=claims,
        taken_claims=taken_claims,
        made=case.made,
        vanished=tuple(pods.vanished),
        refusal=case.refusal,
        was_unanswered=case.has_failed and case.refusal is None,
        priority_of=world.priority_of,
        now=case.now,
    )


def _offers(entry: Entry | None) -> tuple[bool, str, bool]:
    """All that a job wants to know of its queue: is it there, is it shut, does it forward?"""
    if entry is None:
        return False, "", False
    queue: Queue = entry.object
    state = queue.status.state
    shut = "" if state in ("", QueueState.OPEN) else state
    return True, shut, bool(queue.spec.extend_clusters)


def _tells(group: Entry | None) -> object:
    """All that a job wants to know of its PodGroup."""
    if group is None:
        return None
    found: PodGroup = group.object
    conditions = (
        (one.type, one.status, one.last_transition_time) for one in found.status.conditions
    )
    return found.metadata.deletion_timestamp, found.spec, found.status.phase, tuple(conditions)


def _members(case: Case, job: Job, pods: _Pods, world: World) -> tuple[Member, ...]:
    read: dict[str, Member] = {}
    for entry in world.belongings(case.key, kinds.POD.token):
        member = pods.members.get(entry.uid)
        if member is None or member.pod is not entry.object:
            ours = is_controlled_by(entry.object.metadata, job)
            member = _member(entry) if ours else None
        if member is not None:
            read[entry.uid] = member
    pods.members = read
    return tuple(read.values())


def _member(entry: Entry) -> Member | None:
    return member_of(entry.object, uid=entry.uid)


def _story(
    job: Job, decision: JobDecision, intents: list[AnyIntent], now: float
) -> tuple[HistoryRecorded, ...]:
    """The line of the job's history that a change of phase is worth."""
    if decision.phase == decision.before:
        return ()
    counts: dict[str, int] = {}
    for intent in intents:
        what = f"{intent.verb} {intent.kind}"
        counts[what] = counts.get(what, 0) + 1
    record = HistoryRecorded(
        namespace=job.metadata.namespace,
        job=job.metadata.name,
        uid=job.metadata.uid,
        service=CONTROLLERS,
        at=now,
        what="job.phase",
        why=decision.why,
        detail={
            "from": decision.before,
            "to": decision.phase,
            "action": decision.action,
            **{what: str(number) for what, number in counts.items()},
        },
    )
    return (record,)
