"""Keep `status.allocated` of the queues true: what their pods use, parents with their children.

Sums are kept job by job as jobs change. A queue is written to when its sum has changed, and not
more than once in a while: the figure is for people and dashboards.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from stromboli.api.errors import QuantityError
from stromboli.api.fieldtypes import QuantityText, ResourceList
from stromboli.api.resources import from_base_units, to_base_units
from stromboli.api.wellknown import ROOT_QUEUE
from stromboli.contracts.intents import PatchObject, intent_id
from stromboli.contracts.partitions import job_key
from stromboli.contracts.permissions import SCHEDULER
from stromboli.scheduling.hierarchy import QueueTree
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.queues import QueueInfo

__all__ = ["QueueReports"]

_EVERY_S: Final = 1.0


@dataclass(slots=True)
class QueueReports:
    """What every queue uses, and what its status says."""

    _of_job: dict[JobKey, tuple[str, dict[str, int]]] = field(
        default_factory=dict[JobKey, tuple[str, dict[str, int]]]
    )
    _sums: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Of every queue, with those below it."""
    _parents: dict[str, str] = field(default_factory=dict[str, str])
    """As the sums were made by."""
    _tree: QueueTree = field(default_factory=lambda: QueueTree({}))
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Of queues that have been asked for."""
    _stale: dict[str, None] = field(default_factory=dict[str, None])
    _told: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    _not_before: dict[str, float] = field(default_factory=dict[str, float])
    _asked: dict[str, str] = field(default_factory=dict[str, str])
    _number: int = 0

    def note(self, key: JobKey, queue: str, job: Job | None) -> None:
        """A job changed, or is gone."""
        before = self._of_job.get(key)
        after = None
        if job is not None and job.allocated and job.pod_group is not None:
            after = (queue, dict(job.allocated))
        if before == after:
            return
        if before is not None:
            del self._of_job[key]
            self._add(before[0], before[1], -1)
        if after is not None:
            self._of_job[key] = after
            self._add(queue, after[1], 1)

    def seen(self, queue: str, allocated: ResourceList) -> None:
        """What the queue's status says now."""
        # Compared by value: another writer may spell the same amount differently.
        self._told[queue] = {name: _units(name, text) for name, text in allocated.items()}
        self._stale[queue] = None

    def report(self, queues: Mapping[str, QueueInfo], now: float) -> list[PatchObject]:
        self._follow(queues)
        said: list[PatchObject] = []
        for name in sorted(self._stale):
            if self._not_before.get(name, 0.0) > now:
                self._stale[name] = None
                continue
            self._stale.pop(name, None)
            queue = queues.get(name)
            wanted = self._wanted(name)
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

    def _follow(self, queues: Mapping[str, QueueInfo]) -> None:
        """Sum up anew when the tree of queues is another."""
        parents = {name: queue.parent for name, queue in queues.items()}
        if parents == self._parents:
            return
        self._parents, self._tree = parents, QueueTree(queues)
        self._paths.clear()
        self._stale.update(dict.fromkeys(self._sums))
        self._sums.clear()
        for queue, amounts in self._of_job.values():
            self._add(queue, amounts, 1)

    def _add(self, queue: str, amounts: Mapping[str, int], sign: int) -> None:
        path = self._paths.get(queue)
        if path is None:
            # Without a root queue, as in Volcano, parents do not sum up.
            path = self._tree.path(queue) if ROOT_QUEUE in self._parents else (queue,)
            self._paths[queue] = path
        for name in path:
            total = self._sums.setdefault(name, {})
            for resource, units in amounts.items():
                total[resource] = total.get(resource, 0) + sign * units
            self._stale[name] = None

    def _wanted(self, name: str) -> dict[str, int]:
        return {
            resource: units for resource, units in sorted(self._sums.get(name, {}).items()) if units
        }

    def _patch(
        self, queue: QueueInfo, wanted: dict[str, int], told: dict[str, int], now: float
    ) -> PatchObject:
        gone = {name: None for name in told if name not in wanted}
        shown = {name: str(from_base_units(name, units)) for name, units in wanted.items()}
        self._number += 1
        intent = PatchObject(
            id=intent_id(SCHEDULER, "queue", queue.uid, repr(now), self._number),
            key=job_key("queue", "", queue.name),
            service=SCHEDULER,
            kind="queue",
            name=queue.name,
            uid=queue.uid,
            subresource="status",
            patch=msgspec.json.encode({"status": {"allocated": {**shown, **gone}}}),
        )
        self._asked[intent.id] = queue.name
        return intent


def _units(name: str, text: QuantityText) -> int:
    try:
        return to_base_units(name, text)
    except QuantityError:
        return -1  # whatever it means, it is not what we want
