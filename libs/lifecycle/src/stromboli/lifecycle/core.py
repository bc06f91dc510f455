"""The controllers' core: facts, answers and time in; intents and history out.

Each job and each queue is a key. A stimulus touches keys; a touched key is decided at once if
nothing of an earlier decision about it is open or not yet seen in the view, and otherwise as
soon as that ends. So there is one decision at a time per key, always on a view that shows all
that was done before, and any number of keys side by side.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.api.batch import Job
from stromboli.api.core import Pod
from stromboli.api.owners import is_controlled_by
from stromboli.api.scheduling import PodGroup
from stromboli.api.wellknown import DEFAULT_QUEUE, ROOT_QUEUE
from stromboli.contracts.intents import (
    AnyIntent,
    CreateObject,
    DeleteObject,
    Envelope,
    GenerateSecret,
)
from stromboli.contracts.outcomes import AnyOutcome, Applied, Refused
from stromboli.contracts.outstanding import Outstanding
from stromboli.contracts.partitions import job_key
from stromboli.contracts.permissions import CONTROLLERS
from stromboli.contracts.records import HistoryRecorded
from stromboli.contracts.stimuli import (
    FactChanged,
    Instruction,
    OutcomeHeard,
    Ready,
    Stimulus,
    Unanswered,
    WakeAt,
    WokeUp,
)
from stromboli.lifecycle.asking import Asker, Basis
from stromboli.lifecycle.census import Member, member_of
from stromboli.lifecycle.jobs import JobDecision, Situation, decide_job
from stromboli.lifecycle.podgroups import pod_group_name, queue_of
from stromboli.lifecycle.queues import GroupCounts, decide_queue
from stromboli.lifecycle.world import READS, Entry, World, root_key

__all__ = ["LifecycleCore"]

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 30.0
_A_MOMENT_S: Final = 0.05


@dataclass(slots=True)
class _Memory:
    """What the core knows about a key beyond the facts; all of it may be lost."""

    decisions: int = 0
    refusals: int = 0
    failed: bool = False
    """Something of the last decision was refused or not answered."""
    trouble: str = ""
    not_before: float = 0.0
    made: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    deleting: set[str] = field(default_factory=set[str])
    vanished: set[tuple[str, int, int]] = field(default_factory=set[tuple[str, int, int]])


@dataclass(slots=True)
class LifecycleCore:
    """Jobs and queues. `turn` is any text that no earlier core of this service had."""

    turn: str = ""
    _world: World = field(default_factory=World)
    _counts: GroupCounts = field(default_factory=GroupCounts)
    _book: Outstanding = field(default_factory=lambda: Outstanding(watched=frozenset(READS)))
    _memory: dict[str, _Memory] = field(default_factory=dict[str, _Memory])
    _undecided: dict[str, None] = field(default_factory=dict[str, None])
    """Keys that were touched and not decided since; a dict for its order."""
    _ready: bool = False

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        match stimulus:
            case FactChanged():
                touched = list(self._take(stimulus))
            case Ready():
                self._ready = True
                touched = list(self._everything())
            case OutcomeHeard(outcome):
                touched = self._hear(outcome, now)
            case Unanswered(intent):
                touched = self._miss(intent, now)
            case WokeUp():
                touched = list(self._undecided)
        self._undecided.update(dict.fromkeys(touched))
        if not self._ready:
            return []
        instructions: list[Instruction] = []
        for key in dict.fromkeys(touched):
            instructions += self._decide(key, now)
        return instructions

    def _everything(self) -> Iterator[str]:
        for name in (ROOT_QUEUE, DEFAULT_QUEUE):
            yield job_key(kinds.QUEUE.token, "", name)
        for _, name in self._world.queues():
            yield job_key(kinds.QUEUE.token, "", name)
        for namespace, name in self._world.jobs():
            yield job_key(kinds.VC_JOB.token, namespace, name)

    # Stimuli to keys.

    def _take(self, fact: FactChanged) -> Iterator[str]:
        if self._world.is_stale(fact):
            return
        place = (fact.namespace, fact.name)
        before = self._world.take(fact)
        if before is not None and (fact.after is None or before.uid != fact.uid):
            # It is gone, or another object under the same name has taken its place.
            yield from self._ended(fact.kind, place, before)
        for number, entry in ((-1, before.object if before else None), (1, fact.after)):
            if isinstance(entry, PodGroup):
                yield job_key(kinds.QUEUE.token, "", self._counts.add(entry, number))
        key = root_key(fact.kind, place, fact.after)
        if key is not None:
            yield key
        if fact.kind == kinds.QUEUE.token and before is None:
            yield from self._jobs_in(fact.name)

    def _ended(self, kind: str, place: tuple[str, str], entry: Entry) -> Iterator[str]:
        key = root_key(kind, place, entry.object)
        if key is None:
            return
        if isinstance(entry.object, Job):
            self._book.forget_key(key)
            self._memory.pop(key, None)
        else:
            self._book.ended(key, entry.uid)
            self._note_vanished(key, entry)
        yield key

    def _note_vanished(self, key: str, entry: Entry) -> None:
        memory = self._memory.get(key)
        if memory is None or not isinstance(entry.object, Pod):
            return
        member = _member(entry)
        if entry.uid not in memory.deleting and member is not None:
            memory.vanished.add((member.task, member.index, member.version))
        memory.deleting.discard(entry.uid)

    def _jobs_in(self, queue: str) -> Iterator[str]:
        """A job waits for its queue to exist."""
        for (namespace, name), entry in self._world.jobs().items():
            if queue_of(entry.object) == queue:
                yield job_key(kinds.VC_JOB.token, namespace, name)

    def _hear(self, outcome: AnyOutcome, now: float) -> list[str]:
        if isinstance(outcome, Applied) and self._world.is_known_gone(
            outcome.kind, outcome.namespace, outcome.name, outcome.uid
        ):
            outcome = replace(outcome, uid="")  # it came and went: no more of it will be seen
        intent = self._book.answered(outcome, now=now)
        if intent is None:
            return []
        memory = self._memory.setdefault(outcome.key, _Memory())
        match outcome:
            case Applied():
                self._remember_made(memory, intent, outcome)
            case Refused() if outcome.kind != kinds.EVENT.token:
                memory.trouble = f"{outcome.verb} {outcome.kind}: {outcome.message}"
                self._pause(memory, now)
            case _:
                pass
        return [outcome.key]

    def _miss(self, intent: Envelope, now: float) -> list[str]:
        if not self._book.unanswered(intent):
            return []
        self._pause(self._memory.setdefault(intent.key, _Memory()), now)
        return [intent.key]

    def _pause(self, memory: _Memory, now: float) -> None:
        """Ask again later, and ever later: what is refused now will be so for a while."""
        memory.failed = True
        pause_s = _FIRST_PAUSE_S * 2 ** min(memory.refusals, 20)
        memory.not_before = now + min(_LONGEST_PAUSE_S, pause_s)

    def _remember_made(self, memory: _Memory, intent: object, applied: Applied) -> None:
        place = (applied.kind, applied.name)
        match intent:
            case CreateObject() | GenerateSecret() if (
                applied.kind not in READS and intent.owner_uid
            ):
                memory.made[place] = applied.uid
            case DeleteObject() if applied.kind not in READS:
                memory.made[place] = ""
            case _:
                pass

    # Deciding.

    def _decide(self, key: str, now: float) -> list[Instruction]:
        if self._book.has_open(key):
            return []
        if not self._book.may_decide(key, self._world.version_of, now=now):
            return [WakeAt(now + self._book.closed_at_most_s + _A_MOMENT_S)]
        memory = self._memory.get(key)
        if memory is not None and memory.not_before > now:
            return [WakeAt(memory.not_before)]
        if memory is not None:
            memory.refusals = memory.refusals + 1 if memory.failed else 0
            memory.trouble = memory.trouble if memory.failed else ""
            memory.failed = False
        self._undecided.pop(key, None)
        kind, namespace, name = key.split("/", 2)
        asker, history = (
            self._decide_job(key, namespace, name, now)
            if kind == kinds.VC_JOB.token
            else (self._decide_queue(key, name), [])
        )
        for intent in asker.intents:
            self._book.ask(intent)
        return [*asker.intents, *history]

    def _asker(self, key: str, entry: Entry | None) -> Asker:
        memory = self._memory.setdefault(key, _Memory())
        memory.decisions += 1
        basis = Basis(
            uid=entry.uid if entry else "",
            resource_version=entry.resource_version if entry else "",
            turn=self.turn,
            decision=memory.decisions,
            attempt=self._book.attempt(key),
        )
        return Asker(key, basis)

    def _decide_queue(self, key: str, name: str) -> Asker:
        entry = self._world.queue(name)
        asker = self._asker(key, entry)
        queue = entry.object if entry else None
        decide_queue(name, queue, entry.uid if entry else "", self._counts.of(name), asker)
        return asker

    def _decide_job(
        self, key: str, namespace: str, name: str, now: float
    ) -> tuple[Asker, list[HistoryRecorded]]:
        entry = self._world.job(namespace, name)
        if entry is None:
            return Asker(key, Basis()), []
        asker = self._asker(key, entry)
        memory = self._memory[key]
        decision = decide_job(self._situation(key, entry, memory, now), asker)
        memory.vanished.clear()
        memory.deleting |= {
            intent.uid
            for intent in asker.intents
            if isinstance(intent, DeleteObject) and intent.kind == kinds.POD.token
        }
        return asker, _story(entry.object, decision, asker.intents, now)

    def _situation(self, key: str, entry: Entry, memory: _Memory, now: float) -> Situation:
        job: Job = entry.object
        pods = (
            _member(pod)
            for pod in self._world.belongings(key, kinds.POD.token)
            if is_controlled_by(pod.object.metadata, job)
        )
        groups = (
            group
            for group in self._world.belongings(key, kinds.VC_POD_GROUP.token)
            if group.object.metadata.name == pod_group_name(job)
        )
        commands = sorted(
            self._world.belongings(key, kinds.COMMAND.token),
            key=lambda c: (c.object.metadata.creation_timestamp or "", c.object.metadata.name),
        )
        return Situation(
            job=job,
            members=tuple(member for member in pods if member is not None),
            group=next(groups, None),
            commands=tuple(commands),
            queue_exists=self._world.queue(queue_of(job)) is not None,
            made=dict(memory.made),
            vanished=frozenset(memory.vanished),
            trouble=memory.trouble,
            priority_of=self._world.priority_of,
            now=now,
        )


def _member(entry: Entry) -> Member | None:
    return member_of(entry.object, uid=entry.uid)


def _story(
    job: Job, decision: JobDecision | None, intents: list[AnyIntent], now: float
) -> list[HistoryRecorded]:
    """The line of the job's history that a change of phase is worth."""
    if decision is None or decision.phase == decision.before:
        return []
    counts: dict[str, int] = {}
    for intent in intents:
        what = f"{intent.verb} {intent.kind}"
        counts[what] = counts.get(what, 0) + 1
    return [
        HistoryRecorded(
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
    ]
