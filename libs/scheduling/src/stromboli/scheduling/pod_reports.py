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
from stromboli.scheduling.pods import Task, TaskStatus

__all__ = ["Outlooks", "PodReports"]

_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULABLE: Final = "Schedulable"
_CONDITION: Final = "PodScheduled"
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

    _told: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    _number: int = 0

    def report(
        self, job: Job, outlooks: Outlooks, message: str, now: float
    ) -> tuple[list[PatchObject], bool]:
        """The patches, and whether there is more to say."""
        said: list[PatchObject] = []
        for task in job.tasks.values():
            if task.status is not TaskStatus.PENDING or task.gated:
                continue
            reason, why = self._verdict(task, outlooks, message)
            nominated = outlooks.nominated.get(task.uid, "")
            if self._knows(task, reason, nominated):
                continue
            if len(said) == _MOST_AT_ONCE:
                return said, True
            self._told[task.uid] = (reason, nominated)
            said.append(self._patch(job, task, reason, why, nominated, now))
        return said, False

    def nominate(self, job: Job, tasks: Mapping[str, str], now: float) -> list[PatchObject]:
        """Name the node at once: others are being told to go."""
        outlooks = Outlooks(pipelined=tasks, nominated=tasks)
        said: list[PatchObject] = []
        for uid, node in tasks.items():
            task = job.tasks.get(uid)
            if task is not None and not self._knows(task, _UNSCHEDULABLE, node):
                reason, why = self._verdict(task, outlooks, "")
                self._told[uid] = (reason, node)
                said.append(self._patch(job, task, reason, why, node, now))
        return said

    def forget(self, uid: str) -> None:
        self._told.pop(uid, None)

    def _verdict(self, task: Task, outlooks: Outlooks, message: str) -> tuple[str, str]:
        name = f"{task.namespace}/{task.name}"
        node = outlooks.pipelined.get(task.uid)
        if node is not None:
            return _UNSCHEDULABLE, (
                f"Pod {name} can possibly be assigned to {node}, "
                "once resource is released and minAvailable is satisfied"
            )
        node = outlooks.possible.get(task.uid)
        if node is not None:
            return _SCHEDULABLE, (
                f"Pod {name} can possibly be assigned to {node}, once minAvailable is satisfied"
            )
        return _UNSCHEDULABLE, message

    def _knows(self, task: Task, reason: str, nominated: str) -> bool:
        standing = self._told.get(task.uid) or (_standing(task), task.nominated)
        # A name that was given is never taken back.
        return standing[0] == reason and (not nominated or standing[1] == nominated)

    def _patch(
        self, job: Job, task: Task, reason: str, why: str, nominated: str, now: float
    ) -> PatchObject:
        moment = format_time(datetime.fromtimestamp(now, tz=UTC))
        condition = Condition(
            type=_CONDITION,
            status="False",
            reason=reason,
            message=why[:_LONGEST],
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


_LONGEST: Final = 2048


def _standing(task: Task) -> str:
    for condition in task.conditions:
        if condition.type == _CONDITION and condition.status == "False":
            return condition.reason
    return ""
