"""Answers: what became of the core's intents, and what is to be asked or looked at again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stromboli.contracts.outcomes import AnyOutcome, Applied, GangBound, Refused
from stromboli.contracts.stimuli import Instruction
from stromboli.scheduling.attention import Attention
from stromboli.scheduling.backoff import Backoff
from stromboli.scheduling.cluster import Cluster
from stromboli.scheduling.moments import moment_of
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.reporting import Reporting
from stromboli.scheduling.tally import ERROR, Tally

__all__ = ["Answers"]

_ASK_AGAIN_S = 1.0
"""A status that was refused is not asked for again at once."""
_SPARE_S = 10.0
"""Nor is a pod that could not be evicted, for instance because of a disruption budget."""


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

    def spared(self, now: float) -> frozenset[str]:
        """Pods that would not go, and are not asked again so soon."""
        for uid in [uid for uid, until in self._spared.items() if until <= now]:
            del self._spared[uid]
        return frozenset(self._spared)

    def heard(self, outcome: AnyOutcome, now: float) -> list[Instruction]:
        match outcome:
            case GangBound():
                self.cluster.ledger.close(outcome.intent_id)
                job = (outcome.namespace, outcome.name)
                refused = [(pod.uid, pod.message) for pod in outcome.pods if not pod.bound]
                if not refused:
                    self.backoff.forget(job)
                    if outcome.part + 1 == outcome.parts:
                        self._note_wait(job, now)
                return [
                    *self.reporting.bound(outcome, now),
                    *self._not_bound(job, refused, now),
                ]
            case Applied():
                self.cluster.ledger.close_eviction(outcome.intent_id, done=True)
                self.cluster.ledger.close_opening(outcome.intent_id, done=True)
                self.reporting.written(outcome.intent_id, outcome.resource_version)
                return self.reporting.goes(outcome.intent_id, now)
            case Refused():
                return self.not_done(outcome.intent_id, now, why=outcome.message)
            case _:
                pass  # fences are the shell's business
        return []

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
        """Pods by uid that have no node, and why; without a reason nobody answered."""
        back = [(self.cluster.give_back(uid), why) for uid, why in refused]
        if not refused or not refused[0][1]:
            return []
        self.backoff.failed(job, refused[0][1], now)
        self.tally.attempted(ERROR)
        told = [(task, why) for task, why in back if task is not None]
        return self.reporting.not_bound(job, told, now)

    def not_done(self, intent_id: str, now: float, *, why: str = "") -> list[Instruction]:
        """Refused, or nobody answered: everything is as it was before, and can be asked again."""
        ledger = self.cluster.ledger
        job, uids = ledger.close(intent_id) or (None, [])
        said: list[Instruction] = []
        if job is not None:
            said = self._not_bound(job, [(uid, why) for uid in uids], now)
        again = None
        spared, claimant = ledger.close_eviction(intent_id, done=False)
        if spared is not None:
            self.cluster.stays(spared)
            self._spared[spared.uid] = now + _SPARE_S
            again = spared.job
        if claimant is not None:
            self.attention.look_at(claimant, now + _SPARE_S)
        shut = ledger.close_opening(intent_id, done=False)
        if shut is not None:
            self.cluster.stays_closed(shut)
            self.attention.look_at(shut.job, now + _SPARE_S)
        again = self.reporting.not_written(intent_id, now) or again
        if again is not None:
            self.attention.look_at(again, now + _ASK_AGAIN_S)
        return said
