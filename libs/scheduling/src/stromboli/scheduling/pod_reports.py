"""Say on waiting pods why they wait: the condition PodScheduled, and the node named for them.

Each pod is written to once per reason, not whenever the words change: what is free changes all
the time, and autoscalers look at the reason alone. Jobs that have only just begun to wait are
left alone, for most of them are placed a moment later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from stromboli.api.meta import Condition
from stromboli.api.timestamps import format_time
from stromboli.contracts.intents import PatchObject, intent_id
from stromboli.contracts.permissions import SCHEDULER
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.pods import JobKey, Task, TaskStatus

__all__ = ["Outlooks", "PodReports"]

_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULABLE: Final = "Schedulable"
_CONDITION: Final = "PodScheduled"
_LONGEST: Final = 2048
_MOST_AT_ONCE: Final = 200
"""More pods than this are told in portions."""


@dataclass(slots=True)
class Outlooks:
    """Where pods of one job could go, by uid."""

    possible: Mapping[str, str] = field(default_factory=dict[str, str])
    """A node that had room, while the gang as a whole found none."""
    pipelined: Mapping[str, str] = field(default_factory=dict[str, str])
    """The node where it waits for others to end."""
    nominated: Mapping[str, str] = field(default_factory=dict[str, str])
    """The node where others were told to go for it."""


@dataclass(slots=True)
class PodReports:
    """What every waiting pod has been told."""

    _told: dict[JobKey, dict[str, tuple[str, str]]] = field(
        default_factory=dict[JobKey, dict[str, tuple[str, str]]]
    )
    """Reason and nominated node by job and uid, while the job waits."""
    _number: int = 0

    def report(
        self, job: Job, outlooks: Outlooks, message: str, now: float
    ) -> tuple[list[PatchObject], bool]:
        """The patches, and whether there is more to say."""
        said: list[PatchObject] = []
        for task in job.tasks.values():
            if task.status is not TaskStatus.PENDING or task.gated:
                continue
            verdict = self._verdict(task, outlooks, message)
            if self._knows(task, verdict):
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

    def forget(self, job: JobKey) -> None:
        self._told.pop(job, None)

    def _verdict(self, task: Task, outlooks: Outlooks, message: str) -> "_Verdict":
        name = f"{task.namespace}/{task.name}"
        nominated = outlooks.nominated.get(task.uid, "")
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
        return _Verdict(_UNSCHEDULABLE, message, nominated)

    def _knows(self, task: Task, verdict: "_Verdict") -> bool:
        told = self._told.get(task.job, {}).get(task.uid)
        standing = told or (_standing(task), task.nominated)
        # A name that was given is never taken back.
        same_node = not verdict.nominated or standing[1] == verdict.nominated
        return standing[0] == verdict.reason and same_node

    def _patch(self, job: Job, task: Task, verdict: "_Verdict", now: float) -> PatchObject:
        reason, nominated = verdict.reason, verdict.nominated
        told = self._told.setdefault(job.key, {})
        told[task.uid] = (reason, nominated or task.nominated)
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
        if nominated:
            status["nominatedNodeName"] = nominated
        self._number += 1
        return PatchObject(
            id=intent_id(SCHEDULER, "pod", task.uid, reason, nominated, repr(now), self._number),
            key=job.intent_key,
            service=SCHEDULER,
            not_after=0.0,
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
