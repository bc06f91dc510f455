"""Answers: what became of the core's intents, and what is to be asked or looked at again.

Not done means that everything is as it was before. Not known whether it was done means that all
that was set aside for it stays so, and that the same is asked again until it is known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    AssumedPod,
    GangBound,
    PodBound,
    Reason,
    Refused,
    Uncertain,
)
from stromboli.contracts.stimuli import Instruction
from stromboli.scheduling.attention import Attention
from stromboli.scheduling.backoff import Backoff
from stromboli.scheduling.cluster import Cluster
from stromboli.scheduling.doubts import DoubtfulEviction, Doubts
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.moments import moment_of
from stromboli.scheduling.pods import JobKey, Task, TaskStatus
from stromboli.scheduling.reporting import Reporting
from stromboli.scheduling.tally import ERROR, Tally

__all__ = ["Answers"]

_ASK_AGAIN_S = 1.0
"""A status that was refused is not asked for again at once."""
_SPARE_S = 10.0
"""Nor is a pod that could not be evicted, for instance because of a disruption budget."""
_ABOUT_THE_POD = frozenset({Reason.STALE, Reason.NOT_FOUND})
"""Refusals that say how the pod is by now. All others only say that one question was not heard."""


@dataclass(slots=True)
class Answers:
    """Brings the books up to date with what was done and what was not."""

    cluster: Cluster
    reporting: Reporting
    attention: Attention
    backoff: Backoff
    tally: Tally
    _spared: dict[str, float] = field(default_factory=dict[str, float])
    """By uid: until when a pod is not asked to go again."""
    _doubts: Doubts = field(default_factory=Doubts)

    def spared(self, now: float) -> frozenset[str]:
        """Pods that would not go, and are not asked again so soon."""
        for uid in [uid for uid, until in self._spared.items() if until <= now]:
            del self._spared[uid]
        return frozenset(self._spared)

    def heard(self, outcome: AnyOutcome, now: float) -> list[Instruction]:
        match outcome:
            case GangBound():
                return self._gang_bound(outcome, now)
            case Applied():
                self.cluster.ledger.close_eviction(outcome.intent_id, done=True)
                self.cluster.ledger.close_opening(outcome.intent_id, done=True)
                self.reporting.written(outcome.intent_id, outcome.resource_version)
                return self.reporting.goes(outcome.intent_id, now)
            case Refused():
                return self._refused(outcome, now)
            case Uncertain():
                self._not_known(outcome.intent_id, now)
            case _:
                pass  # fences are the shell's business
        return []

    def _gang_bound(self, outcome: GangBound, now: float) -> list[Instruction]:
        self.cluster.ledger.close(outcome.intent_id)
        job = (outcome.namespace, outcome.name)
        was_in_doubt = any(self._doubts.is_in_doubt(pod.uid) for pod in outcome.pods)
        unknown = dict.fromkeys(pod.uid for pod in outcome.pods if self._is_unknown(pod))
        self._doubt(unknown, now)
        self._doubts.settle(pod.uid for pod in outcome.pods if pod.uid not in unknown)
        if all(pod.bound for pod in outcome.pods):
            self.backoff.forget(job)
            if outcome.part + 1 == outcome.parts and not was_in_doubt:
                self._note_wait(job, now)
        refused = [
            (pod.uid, pod.message)
            for pod in outcome.pods
            if not pod.bound and pod.uid not in unknown
        ]
        return [*self.reporting.bound(outcome, now), *self._not_bound(job, refused, now)]

    def _is_unknown(self, pod: PodBound) -> bool:
        """May it be bound, or be bound yet by what was asked before?"""
        if pod.bound:
            return False
        return pod.uncertain or self._stays_in_doubt(pod.uid, pod.reason)

    def _stays_in_doubt(self, uid: str, reason: Reason | None) -> bool:
        return self._doubts.is_in_doubt(uid) and reason not in _ABOUT_THE_POD

    def _doubt(self, uids: Iterable[str], now: float) -> None:
        for uid in uids:
            if self.cluster.ledger.is_promised(uid):
                self._doubts.doubt_bind(uid, now)
            else:
                self._doubts.settle((uid,))

    def _note_wait(self, key: JobKey, now: float) -> None:
        """How long the job has existed when pods of it are bound."""
        job = self.cluster.jobs.get(key)
        if self.tally.is_on and job is not None:
            created = moment_of(job.created)
            if created is not None:
                self.tally.placed(max(0.0, now - created))

    def _not_bound(
        self, job: JobKey, refused: Sequence[tuple[str, str]], now: float
    ) -> list[Instruction]:
        """Pods by uid that have no node, and why."""
        back = [(self.cluster.give_back(uid), why) for uid, why in refused]
        if not refused or not refused[0][1]:
            return []
        self.backoff.failed(job, refused[0][1], now)
        self.tally.attempted(ERROR)
        told = [(task, why) for task, why in back if task is not None]
        return self.reporting.not_bound(job, told, now)

    def _refused(self, refused: Refused, now: float) -> list[Instruction]:
        """Everything is as it was before, and can be asked again."""
        job, uids = self.cluster.ledger.close(refused.intent_id) or (None, [])
        said: list[Instruction] = []
        if job is not None:
            unknown = [uid for uid in uids if self._stays_in_doubt(uid, refused.reason)]
            self._doubt(unknown, now)
            not_bound = [(uid, refused.message) for uid in uids if uid not in unknown]
            self._doubts.settle(uid for uid, _ in not_bound)
            said = self._not_bound(job, not_bound, now)
        again = self._stays(refused.intent_id, now)
        again = self._not_changed(refused.intent_id, now) or again
        if again is not None:
            self.attention.look_at(again, now + _ASK_AGAIN_S)
        return said

    def _stays(self, intent_id: str, now: float) -> JobKey | None:
        """The job whose pod was not told to go after all."""
        spared, claimant = self.cluster.ledger.close_eviction(intent_id, done=False)
        if claimant is not None:
            self.attention.look_at(claimant, now + _SPARE_S)
        if spared is None:
            return None
        self.cluster.stays(spared)
        self._spared[spared.uid] = now + _SPARE_S
        return spared.job

    def _not_changed(self, intent_id: str, now: float) -> JobKey | None:
        """A gate that is still there, or a status that was not written: the job, if any."""
        shut = self.cluster.ledger.close_opening(intent_id, done=False)
        if shut is not None:
            self.cluster.stays_closed(shut)
            self.attention.look_at(shut.job, now + _SPARE_S)
        return self.reporting.not_written(intent_id, now)

    # What is not known.

    def _not_known(self, intent_id: str, now: float) -> None:
        """It may have been done, or will be: what was promised stays promised."""
        _, uids = self.cluster.ledger.close(intent_id) or (None, [])
        self._doubt(uids, now)
        task, claimant = self.cluster.ledger.close_eviction(intent_id, done=True)
        if task is not None:
            why = self.reporting.why_told_to_go(intent_id)
            self._doubts.doubt_eviction(DoubtfulEviction(task, why, claimant), now + _SPARE_S)
        # To write a status or to open a gate twice does no harm.
        again = self._not_changed(intent_id, now)
        if again is not None:
            self.attention.look_at(again, now + _ASK_AGAIN_S)

    def take_over(self, assumed: Iterable[AssumedPod], now: float) -> None:
        """What predecessors may have bound, and no fact shows, counts as promised."""
        for pod in assumed:
            if self.cluster.assume(pod.namespace, pod.name, pod.uid, pod.node):
                self._doubts.doubt_bind(pod.uid, now)

    @property
    def next_look(self) -> float:
        """When something is to be asked again."""
        return self._doubts.next_look

    def ask_again(self, now: float) -> list[Instruction]:
        """What has been in doubt for long enough: the same again, as another question."""
        said: list[Instruction] = []
        for uid in self._doubts.due_binds(now):
            said += self._bind_again(uid, now)
        for eviction in self._doubts.take_evictions(now):
            job = self.cluster.jobs.get(eviction.task.job)
            if job is not None and self.cluster.ledger.is_evicting(eviction.task.uid):
                said += self.tell_to_go(
                    job, eviction.task, eviction.why, now, claimant=eviction.claimant
                )
        return said

    def _bind_again(self, uid: str, now: float) -> list[Instruction]:
        ledger = self.cluster.ledger
        promise = ledger.promise_to(uid)
        job = self.cluster.jobs.get(promise.job) if promise is not None else None
        if promise is None or job is None:
            self._doubts.settle((uid,))
            return []
        if ledger.is_evicting(uid):
            self._doubts.doubt_bind(uid, now)  # once it is gone, nobody can bind it
            return []
        intents = self.reporting.asking.bind(job, [promise], now)
        for intent in intents:
            ledger.asked_again(intent.id, promise)
        self._doubts.asked(uid)
        return list(intents)

    def tell_to_go(
        self, job: Job, task: Task, why: str, now: float, *, claimant: JobKey | None = None
    ) -> list[Instruction]:
        intent = self.reporting.asking.evict(job, task, now)
        self.cluster.told_to_go(task, intent.id, claimant)
        self.reporting.told_to_go(intent.id, task, why)
        return [intent]

    def owes_answers(self, job: Job) -> bool:
        """Whether binds of the job are under way of which an answer is to be expected soon."""
        return any(
            not self._doubts.is_in_doubt(task.uid) for task in job.in_status(TaskStatus.BINDING)
        )
