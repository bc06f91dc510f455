"""Say what became of the jobs: on PodGroups, pods and queues, in events and in history.

Every write compares with what stands there, or was asked for already, so that nothing is said
twice. Why a job waits is remembered here, with since when.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stromboli.api.scheduling import PodGroupCondition
from stromboli.api.wellknown import SCHEDULER_NAME
from stromboli.contracts.outcomes import GangBound
from stromboli.contracts.stimuli import Instruction
from stromboli.scheduling.announcing import Announcing
from stromboli.scheduling.asking import Asking, told
from stromboli.scheduling.cluster import Cluster
from stromboli.scheduling.explain import NOT_LOOKED_AT, Code, Explanation
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.pod_reports import Outlooks, PodReports
from stromboli.scheduling.pods import JobKey, PodKey, Task
from stromboli.scheduling.queue_reports import QueueReports
from stromboli.scheduling.resources import readable
from stromboli.scheduling.status import (
    condition_of,
    fit_error,
    next_status,
    says,
    waiting_since,
    wants_more,
)
from stromboli.scheduling.trial import Placement

__all__ = ["Reporting"]

_PATIENCE_S: Final = 1.0
"""A gang whose pods are still being created is not called incomplete for this long, and pods
are not told why they wait."""
_BRIEF: Final = frozenset({Code.GANG_INCOMPLETE, Code.PENDING_EVALUATION})
"""Reasons that are mostly gone within that time."""
_LUCK: Final = frozenset({Code.CLUSTER_FULL, Code.FRAGMENTED})
_STEADY_S: Final = 10.0
"""So long, at least, the one stands before it becomes the other."""
_PORTION_S: Final = 0.1
"""Between portions of pods that are told something."""


@dataclass(slots=True)
class Reporting:
    """What has been said, and what there is to say."""

    cluster: Cluster
    asking: Asking
    scheduler: str = SCHEDULER_NAME
    """By what name we place pods."""
    explanations: dict[JobKey, Explanation] = field(default_factory=dict[JobKey, Explanation])
    announcing: Announcing = field(default_factory=Announcing)
    pods: PodReports = field(default_factory=PodReports)
    queues: QueueReports = field(default_factory=QueueReports)
    _unsaid: dict[JobKey, Explanation] = field(default_factory=dict[JobKey, Explanation])
    """Reasons that may be gone in a moment, and are told only to who asks."""
    _announced: dict[JobKey, Code] = field(default_factory=dict[JobKey, Code])
    """For which reason a pod of the job was last said to have failed."""
    _patches: dict[str, JobKey] = field(default_factory=dict[str, JobKey])
    _victims: dict[str, tuple[Task, str]] = field(default_factory=dict[str, tuple[Task, str]])
    """By the intent that tells it to go: the pod, and why."""

    # Answers.

    def written(self, intent_id: str, resource_version: str) -> None:
        self.queues.written(intent_id)
        key = self._patches.pop(intent_id, None)
        if key is not None and key in self.cluster.jobs:
            self.cluster.jobs[key].wrote(intent_id, resource_version)

    def told_to_go(self, intent_id: str, task: Task, why: str) -> None:
        self._victims[intent_id] = (task, why)

    def why_told_to_go(self, intent_id: str) -> str:
        """Of an intent that has ended without telling whether the pod goes."""
        return self._victims.pop(intent_id, (None, ""))[1]

    def goes(self, intent_id: str, now: float) -> list[Instruction]:
        """A pod is ending because we asked for it: now it is told, and the pod itself says so.

        Not before: a pod that its disruption budget keeps is no victim.
        """
        task, why = self._victims.pop(intent_id, (None, ""))
        job = self.cluster.jobs.get(task.job) if task is not None else None
        if task is None or job is None:
            return []
        said: list[Instruction] = [*self.announcing.evicted(job, task, why, now)]
        if self.cluster.knows(task):
            said.append(self.pods.victim(job.intent_key, task, self.scheduler, now))
        return said

    def not_bound(
        self, key: JobKey, refused: Sequence[tuple[Task, str]], now: float
    ) -> list[Instruction]:
        """Tell pods that have no node after all; one of them speaks for all."""
        job = self.cluster.jobs.get(key)
        patches = self.pods.not_bound(job, refused, now) if job is not None else []
        if job is None or not patches:
            return []
        task, why = refused[0]
        message = f"failed to bind to node {task.node}: {why}"
        return [*patches, *self.announcing.failed(job, task, message, now)]

    def not_written(self, intent_id: str, now: float) -> JobKey | None:
        """The job whose status is to be asked for again."""
        self.queues.not_written(intent_id, now)
        self._victims.pop(intent_id, None)
        key = self._patches.pop(intent_id, None)
        if key is not None and key in self.cluster.jobs:
            self.cluster.jobs[key].not_written(intent_id)
            self.cluster.standing_changed(self.cluster.jobs[key])
            return key
        return None

    def bound(self, outcome: GangBound, now: float) -> list[Instruction]:
        """Tell of pods that got their node."""
        job = self.cluster.jobs.get((outcome.namespace, outcome.name))
        said: list[Instruction] = []
        for pod in outcome.pods if job is not None else ():
            task = job.tasks.get(pod.uid) if job is not None and pod.bound else None
            if job is not None and task is not None:
                event = self.announcing.scheduled(job, task, pod.node, now)
                if not event:
                    break
                said += event
        return said

    def set_aside(self, now: float) -> list[Instruction]:
        """An event on each object that can't be reckoned with, once per version of it."""
        return [*self.announcing.set_aside(self.cluster.aside.tell(), now)]

    def forget(self, key: JobKey) -> None:
        self.explanations.pop(key, None)
        self._unsaid.pop(key, None)
        self._announced.pop(key, None)
        self.pods.forget(key)

    def reasons(self) -> dict[JobKey, Explanation]:
        """The one current reason of every job that is wanted and wants more, told or not."""
        found: dict[JobKey, Explanation] = {}
        for key, job in self.cluster.jobs.items():
            if job.is_wanted:
                reason = self.explanations.get(key) or self._unsaid.get(key)
                if reason is not None or wants_more(job):
                    found[key] = reason or NOT_LOOKED_AT
        return found

    # One job.

    def job(
        self, job: Job, phase: str, found: Explanation | None, now: float
    ) -> tuple[list[Instruction], float | None]:
        """What to say of a job that was looked at, and when to look again for its sake."""
        explanation, look_again = self._patient(job.key, found, now)
        explanation = self._steady(job.key, explanation, now)
        said: list[Instruction] = [*self._explain(job, explanation, now)]
        if explanation is not None:
            explanation = self.explanations[job.key]  # the same, with since when
        status = next_status(job, phase=phase, explanation=explanation, now=now)
        if status != job.status:
            if status.conditions != job.status.conditions:
                job.worded_at = now
            said += self._announce(job, status.conditions, explanation, now)
            intent = self.asking.patch_status(job, status, now)
            job.ask(status, intent.id)
            self._patches[intent.id] = job.key
            self.cluster.standing_changed(job)
            said.append(intent)
        return said, look_again

    def waiting_pods(
        self, job: Job, tried: Iterable[Placement], pipelined: dict[PodKey, str], now: float
    ) -> tuple[list[Instruction], float | None]:
        """Tell a waiting job's pods why they wait; and when to go on with that."""
        explanation = self.explanations.get(job.key)
        if explanation is None or not job.awaited or explanation.code in _BRIEF:
            return [], None
        if now < explanation.since + _PATIENCE_S:
            return [], explanation.since + _PATIENCE_S
        facts = self.cluster.nodes.facts
        origin = job.tasks.get(explanation.pod)
        own: dict[str, str] = {}
        if origin is not None:
            own[origin.uid] = explanation.origin.removeprefix(f"{origin.name}: ")
        outlooks = Outlooks(
            possible={
                task.uid: facts[slot].name
                for placement in tried
                for task, slot in zip(placement.tasks, placement.slots.tolist(), strict=True)
                if slot < len(facts)
            },
            pipelined={
                task.uid: pipelined[task.namespace, task.name]
                for task in (job.tasks.values() if pipelined else ())
                if (task.namespace, task.name) in pipelined
            },
            own=own,
            is_binding=explanation.code is Code.BACKOFF,
        )
        message = fit_error(job, explanation)
        patches, more = self.pods.report(
            job, outlooks, message, now, nominated=self.cluster.nominated
        )
        said: list[Instruction] = [*patches]
        if patches and origin is not None and self._announced.get(job.key) is not explanation.code:
            # Of all its pods that wait, one speaks for all.
            self._announced[job.key] = explanation.code
            said += self.announcing.failed(job, origin, own[origin.uid], now)
        return said, now + _PORTION_S if more else None

    def _patient(
        self, key: JobKey, explanation: Explanation | None, now: float
    ) -> tuple[Explanation | None, float | None]:
        """What is worth saying: that pods are missing is not, while they are being made."""
        before = self._unsaid.pop(key, None)
        if explanation is None or explanation.code not in _BRIEF:
            return explanation, None
        since = now if before is None else before.since
        self._unsaid[key] = replace(explanation, since=since, evaluated=now)
        if now < since + _PATIENCE_S:
            return None, since + _PATIENCE_S
        return explanation, None

    def _steady(
        self, key: JobKey, explanation: Explanation | None, now: float
    ) -> Explanation | None:
        """What lacks room in crumbs now and as a whole a moment later has had no news."""
        before = self.explanations.get(key)
        if explanation is None or before is None or explanation.code is before.code:
            return explanation
        is_luck = explanation.code in _LUCK and before.code in _LUCK
        return before if is_luck and now < before.since + _STEADY_S else explanation

    def _explain(self, job: Job, explanation: Explanation | None, now: float) -> list[Instruction]:
        if explanation is None:
            if self.explanations.pop(job.key, None) is not None:
                self.pods.forget(job.key)
                self._announced.pop(job.key, None)
            return []
        before = self.explanations.get(job.key)
        is_new = before is None or before.code is not explanation.code
        since = now if before is None or is_new else before.since
        if before is None:
            written = waiting_since(job, explanation.code)
            since, is_new = (since, is_new) if written is None else (min(written, now), False)
        self.explanations[job.key] = replace(explanation, since=since, evaluated=now)
        if not is_new:
            return []
        detail = [("code", explanation.code.value), ("unblock", explanation.unblock.value)]
        if explanation.short_by:
            detail.append(("short_by", readable(explanation.short_by)))
        if explanation.ahead:
            detail.append(("ahead", ", ".join(explanation.ahead)))
        return [told(job, "job.waiting", explanation.sentence, now, detail)]

    def _announce(
        self,
        job: Job,
        conditions: Iterable[PodGroupCondition],
        explanation: Explanation | None,
        now: float,
    ) -> list[Instruction]:
        """An event for a new reason, and for its end."""
        standing = job.status.conditions
        added = [condition for condition in conditions if condition not in standing]
        if not added:
            return []
        if condition_of(added, "Scheduled") is not None:
            is_new = condition_of(standing, "Scheduled") is None
            return [*self.announcing.ready(job, now)] if is_new else []
        if explanation is None:
            return []
        before = condition_of(standing, "Unschedulable")
        if before is not None and says(before, explanation.code):
            return []
        after = condition_of(added, "Unschedulable")
        return [*self.announcing.unschedulable(job, after.message, now)] if after else []
