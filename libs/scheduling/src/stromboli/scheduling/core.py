"""The scheduler's core: facts in, decisions out, when something happened that could matter.

Facts are only noted as they come; the core asks to be woken at once, and decides when it is, so
that facts that come together are decided on together. A cycle looks at the jobs that changed
and at those that something that happened could help; all others sleep. When it is woken without
having asked for it, that is the slow safety pass: then it looks at every job.
"""

import math

from stromboli.contracts.intents import PodBinding
from stromboli.contracts.outcomes import AnyOutcome, Applied, GangBound, Refused
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
from stromboli.scheduling.actions.registry import action
from stromboli.scheduling.asking import Asking, told
from stromboli.scheduling.attention import Attention
from stromboli.scheduling.backoff import Backoff
from stromboli.scheduling.cluster import Cluster
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.decisions import Commit, Decisions
from stromboli.scheduling.explain import Code, Explanation, Unblock
from stromboli.scheduling.halfbound import HalfBound
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.plugins.registry import build
from stromboli.scheduling.pods import JobKey, TaskStatus
from stromboli.scheduling.resources import readable
from stromboli.scheduling.session import Panel, Session
from stromboli.scheduling.status import next_status, phase_of

__all__ = ["KINDS", "SchedulerCore"]

KINDS = ("node", "pod", "vcpodgroup", "queue", "priorityclass")
"""What the core must be told about."""

_PATIENCE_S = 1.0
"""A gang whose pods are still being created is not called incomplete for this long."""
_ASK_AGAIN_S = 1.0
"""A status that was refused is not asked for again at once."""


class SchedulerCore:
    """Decides which pod goes where. One per turn of leadership."""

    def __init__(self, conf: SchedulingConf | None = None) -> None:
        self._conf = conf or SchedulingConf()
        self._actions = [action(name) for name in self._conf.actions]
        self._panel = Panel([[build(plugin) for plugin in tier] for tier in self._conf.tiers])
        self.cluster = Cluster(self._conf)
        self.explanations: dict[JobKey, Explanation] = {}
        """Of every job that waits, the current reason."""
        self._attention = Attention(self.cluster)
        self._incomplete_since: dict[JobKey, float] = {}
        self._half_bound = HalfBound(self._conf.gang_bind_timeout_s)
        self._backoff = Backoff()
        self._asking = Asking()
        self._patches: dict[str, JobKey] = {}
        self._ready = False
        self._alarm = math.inf

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        match stimulus:
            case FactChanged():
                self.cluster.apply(stimulus)
            case OutcomeHeard(outcome):
                self._heard(outcome, now)
            case Unanswered(intent):
                self._not_done(intent.id, now)
            case Ready():
                self._ready = True
                return self._cycle(now, everything=True)
            case WokeUp():
                asked_for = self._alarm <= now
                self._alarm = math.inf
                return self._cycle(now, everything=not asked_for) if self._ready else []
        return self._wake_at(now) if self._ready and self.cluster.changes else []

    def _wake_at(self, moment: float) -> list[Instruction]:
        if moment >= self._alarm:
            return []
        self._alarm = moment
        return [WakeAt(moment)]

    # Answers.

    def _heard(self, outcome: AnyOutcome, now: float) -> None:
        match outcome:
            case GangBound():
                self.cluster.ledger.close(outcome.intent_id)
                refused = [pod for pod in outcome.pods if not pod.bound]
                for pod in refused:
                    self.cluster.give_back(pod.uid)
                job = (outcome.namespace, outcome.name)
                if refused:
                    self._backoff.failed(job, refused[0].message, now)
                else:
                    self._backoff.forget(job)
            case Applied():
                self.cluster.ledger.close_eviction(outcome.intent_id, done=True)
                key = self._patches.pop(outcome.intent_id, None)
                if key is not None and key in self.cluster.jobs:
                    self.cluster.jobs[key].wrote(outcome.intent_id, outcome.resource_version)
            case Refused():
                self._not_done(outcome.intent_id, now, why=outcome.message)
            case _:
                pass  # fences are the shell's business

    def _not_done(self, intent_id: str, now: float, *, why: str = "") -> None:
        """Refused, or nobody answered: everything is as it was before, and can be asked again."""
        ledger = self.cluster.ledger
        job, uids = ledger.close(intent_id) or (None, [])
        for uid in uids:
            self.cluster.give_back(uid)
        if job is not None and why:
            self._backoff.failed(job, why, now)
        again = ledger.close_eviction(intent_id, done=False)
        patched = self._patches.pop(intent_id, None)
        if patched is not None and patched in self.cluster.jobs:
            self.cluster.jobs[patched].not_written(intent_id)
            again = patched
        if again is not None:
            self._attention.look_at(again, now + _ASK_AGAIN_S)

    # One cycle.

    def _cycle(self, now: float, *, everything: bool) -> list[Instruction]:
        changes = self.cluster.take_changes()
        for key in changes.jobs:
            self._changed(key, now)
        awake = self._attention.awake(changes, now, everything=everything)
        decisions = Decisions()
        deferred: dict[JobKey, Explanation] = {}
        contenders = self._contenders(awake, decisions, deferred, now)
        session = Session(
            nodes=self.cluster.nodes,
            panel=self._panel,
            queues=self.cluster.queues,
            contenders=contenders,
            wanting=(self._contender(self.cluster.jobs[key]) for key in self.cluster.wanting),
            half_bound=self._half_bound.jobs,
            deferred=deferred,
        )
        for act in self._actions:
            act(session, decisions)
        said: list[Instruction] = []
        for commit in decisions.commits:
            said += self._bind(commit, now)
        for key in awake:
            if key in self.cluster.jobs:
                said += self._conclude(key, contenders.get(key), decisions, now)
        return said + self._wake_at(now if self.cluster.changes else self._attention.next_look)

    def _changed(self, key: JobKey, now: float) -> None:
        job = self.cluster.jobs.get(key)
        if job is None or job.pod_group is None:
            self.explanations.pop(key, None)
            self._incomplete_since.pop(key, None)
            self._half_bound.forget(key)
            self._backoff.forget(key)
            self._attention.forget(key)
        if job is not None:
            self.cluster.note_want(job)
            self._half_bound.note(job, now)

    def _contenders(
        self,
        awake: list[JobKey],
        decisions: Decisions,
        deferred: dict[JobKey, Explanation],
        now: float,
    ) -> dict[JobKey, Contender]:
        contenders: dict[JobKey, Contender] = {}
        for key in awake:
            job = self.cluster.jobs.get(key)
            if job is None or not job.is_wanted:
                continue
            barred = self._barred(job, now)
            if barred is not None and barred.code is Code.BACKOFF and job.is_half_bound:
                deferred[key] = barred
            elif barred is not None:
                decisions.explanations[key] = barred
                continue
            job.priority = self.cluster.priority_of(job)
            contenders[key] = self._contender(job)
        return contenders

    def _contender(self, job: Job) -> Contender:
        pending = job.pending() if job.count(TaskStatus.PENDING) else []
        return Contender(
            job=job,
            queue=self.cluster.queue_name(job),
            phase=phase_of(job, job.phase),
            waiting=[task for task in pending if not task.kind.is_best_effort],
            best_effort=[task for task in pending if task.kind.is_best_effort],
        )

    def _barred(self, job: Job, now: float) -> Explanation | None:
        """Why the job can't take part at all."""
        if job.problem:
            return Explanation(Code.MISCONFIGURED, job.problem, Unblock.JOB)
        name = self.cluster.queue_name(job)
        queue = self.cluster.queues.get(name)
        if queue is None:
            sentence = f"its queue {name!r} does not exist"
            return Explanation(Code.MISCONFIGURED, sentence, Unblock.QUEUE)
        if not queue.is_open:
            sentence = f"its queue {name!r} is closed"
            return Explanation(Code.MISCONFIGURED, sentence, Unblock.QUEUE)
        if self._is_being_evicted(job):
            sentence = "only a part of it could be bound, that part is being evicted"
            return Explanation(Code.GANG_EVICTED, sentence, Unblock.JOB)
        until = self._backoff.until(job.key, now)
        if until is not None:
            self._attention.look_at(job.key, until)
            return Explanation(Code.BACKOFF, self._backoff.story(job.key), Unblock.TIME)
        return None

    def _is_being_evicted(self, job: Job) -> bool:
        ledger = self.cluster.ledger
        return job.is_half_bound and any(
            ledger.is_evicting(task.uid)
            for task in job.in_status(TaskStatus.BOUND, TaskStatus.RUNNING)
        )

    # Saying it.

    def _bind(self, commit: Commit, now: float) -> list[Instruction]:
        job = commit.contender.job
        facts = self.cluster.nodes.facts
        binds = [
            PodBinding(task.name, task.uid, facts[slot].name)
            for placement in commit.placements
            for task, slot in zip(placement.tasks, placement.slots.tolist(), strict=True)
        ]
        intents = self._asking.bind(job, binds, now)
        self.cluster.promise(intents, commit.placements)
        self._changed(job.key, now)
        nodes = len(dict.fromkeys(bind.node for bind in binds))
        detail = (("pods", str(len(binds))), ("nodes", str(nodes)))
        why = f"{len(binds)} pods on {nodes} nodes"
        return [*intents, told(job, "gang.placed", why, now, detail)]

    def _conclude(
        self, key: JobKey, contender: Contender | None, decisions: Decisions, now: float
    ) -> list[Instruction]:
        """Evictions, status and story of one job that was looked at."""
        job = self.cluster.jobs[key]
        if not job.is_wanted:
            return []
        said = self._evict_half_bound(job, now)
        found = decisions.explanations.get(key)
        self._attention.rest(key, found, holding=key in decisions.holding)
        explanation = self._patient(key, found, now)
        said += self._explain(job, explanation, now)
        phase = contender.phase if contender else phase_of(job, job.phase)
        status = next_status(job, phase=phase, explanation=explanation, now=now)
        if status != job.status:
            intent = self._asking.patch_status(job, status, now)
            job.ask(status, intent.id)
            self._patches[intent.id] = key
            self.cluster.note_want(job)
            said.append(intent)
        return said

    def _evict_half_bound(self, job: Job, now: float) -> list[Instruction]:
        deadline = self._half_bound.deadline(job.key)
        if deadline is None:
            return []
        if now < deadline or self.cluster.ledger.owes(job.key):
            # Binds that are under way may still complete it.
            self._attention.look_at(job.key, max(deadline, now + _ASK_AGAIN_S))
            return []
        why = (
            f"only a part of it could be bound within {self._half_bound.timeout_s:g} s, "
            f"{job.min_member} are needed"
        )
        said: list[Instruction] = []
        for task in job.in_status(TaskStatus.BOUND, TaskStatus.RUNNING):
            if not self.cluster.ledger.is_evicting(task.uid):
                intent = self._asking.evict(job, task, now)
                self.cluster.ledger.evicting(intent.id, job.key, task.uid)
                said.append(intent)
        return [*said, told(job, "gang.evicted", why, now)] if said else []

    def _patient(
        self, key: JobKey, explanation: Explanation | None, now: float
    ) -> Explanation | None:
        """What is worth saying: that pods are missing is not, while they are being made."""
        if explanation is None or explanation.code is not Code.GANG_INCOMPLETE:
            self._incomplete_since.pop(key, None)
            return explanation
        worth_saying = self._incomplete_since.setdefault(key, now) + _PATIENCE_S
        if now < worth_saying:
            self._attention.look_at(key, worth_saying)
            return None
        return explanation

    def _explain(self, job: Job, explanation: Explanation | None, now: float) -> list[Instruction]:
        if explanation is None:
            self.explanations.pop(job.key, None)
            return []
        before = self.explanations.get(job.key)
        self.explanations[job.key] = explanation
        if before is not None and before.code is explanation.code:
            return []
        detail = [("code", explanation.code.value), ("unblock", explanation.unblock.value)]
        if explanation.short_by:
            detail.append(("short_by", readable(explanation.short_by)))
        return [told(job, "job.waiting", explanation.sentence, now, detail)]
