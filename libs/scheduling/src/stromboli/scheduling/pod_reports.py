"""Say on waiting pods why they wait: the condition PodScheduled, and the node named for them.

Each pod is written to once per reason, not whenever the words change: what is free changes all
the time, and autoscalers look at the reason alone. Jobs that have only just begun to wait are
left alone, for most of them are placed a moment later. A node that was named for a pod, and
where it no longer waits, is taken back: others would keep away from it for nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from stromboli.api.kinds import POD
from stromboli.api.meta import Condition
from stromboli.api.timestamps import format_time
from stromboli.contracts.intents import PatchObject, PatchType, intent_id
from stromboli.contracts.permissions import SCHEDULER
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.pods import TOLD_TO_GO, JobKey, Task, TaskStatus

__all__ = ["Outlooks", "PodReports"]

_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULABLE: Final = "Schedulable"
_ERROR: Final = "SchedulerError"
_CONDITION: Final = "PodScheduled"
_VICTIM: Final = "preempting to accommodate a higher priority pod"
_LONGEST: Final = 2048
_REWRITE_AFTER_S: Final = 10.0
_MOST_AT_ONCE: Final = 200
"""More pods than this are told in portions."""


@dataclass(slots=True)
class Outlooks:
    """Where pods of one job could go, by uid."""

    possible: Mapping[str, str] = field(default_factory=dict[str, str])
    """A node that had room, while the gang as a whole found none, or not all of it yet."""
    pipelined: Mapping[str, str] = field(default_factory=dict[str, str])
    """The node where it waits for others to end."""
    nominated: Mapping[str, str] = field(default_factory=dict[str, str])
    """The node where others were told to go for it."""
    own: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the nodes lack for this very pod, where that was looked at."""
    is_binding: bool = False
    """It is only that binding failed and is tried again: that says enough, and nodes stay named."""

    def keeps_its_node(self, task: Task) -> bool:
        """Whether a node that was named for it is still where it is to go.

        Of a gang that waits for others to end, that holds also for pods that need not wait.
        """
        if self.is_binding or task.uid in self.pipelined:
            return True
        return bool(self.pipelined) and task.uid in self.possible


@dataclass(slots=True)
class PodReports:
    """What every waiting pod has been told."""

    _told: dict[JobKey, dict[str, tuple[str, str]]] = field(
        default_factory=dict[JobKey, dict[str, tuple[str, str]]]
    )
    """Reason and nominated node by job and uid, while the job waits."""
    _told_at: dict[JobKey, dict[str, float]] = field(default_factory=dict[JobKey, dict[str, float]])
    """When, so that a pod whose luck changes with every pod that comes and goes is left alone."""
    _number: int = 0

    def report(
        self,
        job: Job,
        outlooks: Outlooks,
        message: str,
        now: float,
        *,
        nominated: dict[str, str],
    ) -> tuple[list[PatchObject], bool]:
        """The patches, and whether there is more to say.

        `nominated` has the nodes that are named for pods now, and loses those that are not any
        more.
        """
        said: list[PatchObject] = []
        for task in job.tasks.values():
            if task.status is not TaskStatus.PENDING or task.gated:
                continue
            if not outlooks.keeps_its_node(task):
                nominated.pop(task.uid, None)
            verdict = self._verdict(task, outlooks, message)
            if self._knows(task, verdict):
                continue
            if outlooks.is_binding and self._stands(task)[0] == _ERROR:
                continue
            if self._was_told_lately(task, verdict, now):
                continue
            if len(said) == _MOST_AT_ONCE:
                return said, True
            said.append(self._patch(job, task, verdict, now))
        return said, False

    def nominate(self, job: Job, tasks: Mapping[str, str], now: float) -> list[PatchObject]:
        """Name the node at once: others are being told to go."""
        outlooks = Outlooks(pipelined=tasks, nominated=tasks)
        said: list[PatchObject] = []
        for uid in tasks:
            task = job.tasks.get(uid)
            if task is None:
                continue
            verdict = self._verdict(task, outlooks, "")
            if not self._knows(task, verdict):
                said.append(self._patch(job, task, verdict, now))
        return said

    def not_bound(
        self, job: Job, refused: Sequence[tuple[Task, str]], now: float
    ) -> list[PatchObject]:
        """Tell pods that binding failed: each with the node that it was asked for, and why."""
        said: list[PatchObject] = []
        for task, why in refused[:_MOST_AT_ONCE]:
            message = f"failed to bind to node {task.node}: {why}"
            verdict = _Verdict(_ERROR, message, self._stands(task)[1])
            if not self._knows(task, verdict):
                said.append(self._patch(job, task, verdict, now))
        return said

    def victim(self, key: str, task: Task, scheduler: str, now: float) -> PatchObject:
        """Say on a pod that is ending that it was told to, and by whom.

        Applied, not merged: its kubelet writes the other conditions at the same time.
        """
        moment = format_time(datetime.fromtimestamp(now, tz=UTC))
        conditions = (
            Condition(
                type="DisruptionTarget",
                status="True",
                reason=TOLD_TO_GO,
                message=f"{scheduler}: {_VICTIM}",
                last_transition_time=moment,
            ),
            Condition(type="Ready", status="False", reason="Evict", last_transition_time=moment),
        )
        body = {
            "apiVersion": POD.api_version,
            "kind": POD.kind,
            "metadata": {"namespace": task.namespace, "name": task.name},
            "status": {"conditions": [msgspec.to_builtins(one) for one in conditions]},
        }
        self._number += 1
        return PatchObject(
            id=intent_id(SCHEDULER, "victim", task.uid, repr(now), self._number),
            key=key,
            service=SCHEDULER,
            kind="pod",
            namespace=task.namespace,
            name=task.name,
            uid=task.uid,
            subresource="status",
            patch_type=PatchType.APPLY,
            patch=msgspec.json.encode(body),
        )

    def forget(self, job: JobKey) -> None:
        self._told.pop(job, None)
        self._told_at.pop(job, None)

    def _verdict(self, task: Task, outlooks: Outlooks, message: str) -> "_Verdict":
        name = f"{task.namespace}/{task.name}"
        nominated = outlooks.nominated.get(task.uid, "")
        if not nominated and outlooks.keeps_its_node(task):
            nominated = self._stands(task)[1]
        node = outlooks.pipelined.get(task.uid)
        if node is not None:
            message = (
                f"Pod {name} can possibly be assigned to {node}, "
                "once resource is released and minAvailable is satisfied"
            )
            return _Verdict(_UNSCHEDULABLE, message, nominated)
        node = outlooks.possible.get(task.uid)
        if node is not None:
            message = (
                f"Pod {name} can possibly be assigned to {node}, once minAvailable is satisfied"
            )
            return _Verdict(_SCHEDULABLE, message, nominated)
        return _Verdict(_UNSCHEDULABLE, outlooks.own.get(task.uid, message), nominated)

    def _stands(self, task: Task) -> tuple[str, str]:
        """The reason and the nominated node that the pod has, or will have."""
        told = self._told.get(task.job, {}).get(task.uid)
        return told or (_standing(task), task.nominated)

    def _was_told_lately(self, task: Task, verdict: "_Verdict", now: float) -> bool:
        """Whether only its luck has changed; the next time that all jobs are looked at will do."""
        told_at = self._told_at.get(task.job, {}).get(task.uid)
        if told_at is None or now >= told_at + _REWRITE_AFTER_S:
            return False
        reason, nominated = self._stands(task)
        return nominated == verdict.nominated and reason != _ERROR

    def _knows(self, task: Task, verdict: "_Verdict") -> bool:
        return self._stands(task) == (verdict.reason, verdict.nominated)

    def _patch(self, job: Job, task: Task, verdict: "_Verdict", now: float) -> PatchObject:
        reason, nominated = verdict.reason, verdict.nominated
        had_node = self._stands(task)[1]
        self._told.setdefault(job.key, {})[task.uid] = (reason, nominated)
        self._told_at.setdefault(job.key, {})[task.uid] = now
        moment = format_time(datetime.fromtimestamp(now, tz=UTC))
        condition = Condition(
            type=_CONDITION,
            status="False",
            reason=reason,
            message=verdict.message[:_LONGEST],
            last_transition_time=moment,
        )
        others = [standing for standing in task.conditions if standing.type != _CONDITION]
        status: dict[str, object] = {
            "conditions": [msgspec.to_builtins(one) for one in (*others, condition)]
        }
        if nominated != had_node:
            status["nominatedNodeName"] = nominated or None
        self._number += 1
        return PatchObject(
            id=intent_id(SCHEDULER, "pod", task.uid, reason, nominated, repr(now), self._number),
            key=job.intent_key,
            service=SCHEDULER,
            kind="pod",
            namespace=task.namespace,
            name=task.name,
            uid=task.uid,
            subresource="status",
            patch=msgspec.json.encode({"status": status}),
        )


@dataclass(frozen=True, slots=True)
class _Verdict:
    reason: str
    message: str
    nominated: str


def _standing(task: Task) -> str:
    for condition in task.conditions:
        if condition.type == _CONDITION and condition.status == "False":
            return condition.reason
    return ""
