"""Keep `status.allocated` of the queues true: what their pods use, parents with their children.

Sums are kept job by job as jobs change. A queue is written to when its sum has changed, and not
more than once in a while: the figure is for people and dashboards.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from stromboli.api.fieldtypes import ResourceList
from stromboli.api.resources import from_base_units
from stromboli.api.wellknown import ROOT_QUEUE
from stromboli.contracts.intents import PatchObject, intent_id
from stromboli.contracts.partitions import job_key
from stromboli.contracts.permissions import SCHEDULER
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.queues import QueueInfo

__all__ = ["QueueReports"]

_EVERY_S: Final = 1.0
_DEEPEST: Final = 64


@dataclass(slots=True)
class QueueReports:
    """What every queue uses, and what its status says."""

    _of_job: dict[JobKey, tuple[str, dict[str, int]]] = field(
        default_factory=dict[JobKey, tuple[str, dict[str, int]]]
    )
    _sums: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    _stale: dict[str, None] = field(default_factory=dict[str, None])
    _told: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    _not_before: dict[str, float] = field(default_factory=dict[str, float])
    _asked: dict[str, str] = field(default_factory=dict[str, str])
    _number: int = 0

    def note(self, key: JobKey, queue: str, job: Job | None) -> None:
        """A job changed, or is gone."""
        before = self._of_job.pop(key, None)
        if before is not None:
            self._add(before[0], before[1], -1)
        if job is not None and job.allocated and job.pod_group is not None:
            self._of_job[key] = (queue, dict(job.allocated))
            self._add(queue, job.allocated, 1)

    def seen(self, queue: str, allocated: ResourceList) -> None:
        """What the queue's status says now."""
        self._told[queue] = {name: str(units) for name, units in allocated.items()}
        self._stale[queue] = None

    def report(self, queues: Mapping[str, QueueInfo], now: float) -> list[PatchObject]:
        said: list[PatchObject] = []
        for name in _with_parents(self._stale, queues):
            if self._not_before.get(name, 0.0) > now:
                self._stale[name] = None
                continue
            self._stale.pop(name, None)
            queue = queues.get(name)
            wanted = self._wanted(name, queues)
            told = self._told.get(name, {})
            if queue is None or wanted == told:
                continue
            self._not_before[name] = now + _EVERY_S
            self._told[name] = wanted
            said.append(self._patch(queue, wanted, told, now))
        return said

    @property
    def next_report(self) -> float:
        """When something that was held back is due."""
        return min((self._not_before.get(name, 0.0) for name in self._stale), default=math.inf)

    def not_written(self, intent_id: str, now: float) -> bool:
        """Whether it was one of ours; then it is asked again after a while."""
        name = self._asked.pop(intent_id, None)
        if name is not None:
            self._told.pop(name, None)
            self._stale[name] = None
            self._not_before[name] = now + _EVERY_S
        return name is not None

    def written(self, intent_id: str) -> None:
        self._asked.pop(intent_id, None)

    def _add(self, queue: str, amounts: Mapping[str, int], sign: int) -> None:
        total = self._sums.setdefault(queue, {})
        for name, units in amounts.items():
            total[name] = total.get(name, 0) + sign * units
        self._stale[queue] = None

    def _wanted(self, name: str, queues: Mapping[str, QueueInfo]) -> dict[str, str]:
        total: dict[str, int] = {}
        for other, amounts in self._sums.items():
            if other == name or (ROOT_QUEUE in queues and name in _ancestors(other, queues)):
                for resource, units in amounts.items():
                    total[resource] = total.get(resource, 0) + units
        return {
            resource: str(from_base_units(resource, units))
            for resource, units in sorted(total.items())
            if units
        }

    def _patch(
        self, queue: QueueInfo, wanted: dict[str, str], told: dict[str, str], now: float
    ) -> PatchObject:
        gone = {name: None for name in told if name not in wanted}
        self._number += 1
        intent = PatchObject(
            id=intent_id(SCHEDULER, "queue", queue.name, repr(now), self._number),
            key=job_key("queue", "", queue.name),
            service=SCHEDULER,
            not_after=0.0,
            kind="queue",
            name=queue.name,
            uid=queue.uid,
            subresource="status",
            patch=msgspec.json.encode({"status": {"allocated": {**wanted, **gone}}}),
        )
        self._asked[intent.id] = queue.name
        return intent


def _with_parents(names: Iterable[str], queues: Mapping[str, QueueInfo]) -> list[str]:
    found: dict[str, None] = dict.fromkeys(names)
    if ROOT_QUEUE in queues:
        for name in list(found):
            found.update(dict.fromkeys(_ancestors(name, queues)))
    return list(found)


def _ancestors(name: str, queues: Mapping[str, QueueInfo]) -> list[str]:
    """From the parent up; a queue without a parent belongs to the root."""
    found: list[str] = []
    while name != ROOT_QUEUE and name in queues and len(found) < _DEEPEST:
        name = queues[name].parent or ROOT_QUEUE
        if name in found:
            break
        found.append(name)
    return found
