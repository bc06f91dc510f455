"""Keep queues as they should be: the two that always exist, their parents, their state, counts.

`root` is the queue that all others descend from; `default` takes the jobs that name none.
The counts say how many PodGroups of the queue are in which phase.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.api.meta import ObjectMeta
from stromboli.api.scheduling import PodGroup, PodGroupPhase, Queue, QueueSpec, QueueState
from stromboli.api.wellknown import DEFAULT_QUEUE, ROOT_QUEUE
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.manifests import compact_manifest
from stromboli.lifecycle.merging import merge_patch

__all__ = ["ALWAYS_THERE", "GroupCounts", "decide_queue"]

_QUEUE: Final = kinds.QUEUE.token

ALWAYS_THERE: Final[Mapping[str, Queue]] = {
    ROOT_QUEUE: Queue(
        metadata=ObjectMeta(name=ROOT_QUEUE), spec=QueueSpec(weight=1, reclaimable=False)
    ),
    DEFAULT_QUEUE: Queue(
        metadata=ObjectMeta(name=DEFAULT_QUEUE),
        spec=QueueSpec(weight=1, reclaimable=True, parent=ROOT_QUEUE),
    ),
}

_COUNTED_AS: Final = {
    "": "pending",
    PodGroupPhase.PENDING: "pending",
    PodGroupPhase.INQUEUE: "inqueue",
    PodGroupPhase.RUNNING: "running",
    PodGroupPhase.COMPLETED: "completed",
}


class GroupCounts:
    """How many PodGroups of each queue are in which phase, kept up to date one by one."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def add(self, group: PodGroup, number: int) -> str:
        """Count a group in (1) or out (-1); returns its queue."""
        queue = group.spec.queue or DEFAULT_QUEUE
        counted_as = _COUNTED_AS.get(group.status.phase, "unknown")
        counts = self._counts.setdefault(queue, {})
        counts[counted_as] = counts.get(counted_as, 0) + number
        if not counts[counted_as]:
            del counts[counted_as]
        return queue

    def of(self, queue: str) -> dict[str, int]:
        return self._counts.get(queue, {})


def decide_queue(
    name: str, queue: Queue | None, uid: str, counts: Mapping[str, int], asker: Asker
) -> None:
    """One decision about one queue."""
    if queue is None:
        if name in ALWAYS_THERE:
            asker.create(_QUEUE, compact_manifest(ALWAYS_THERE[name]))
        return
    if queue.metadata.deletion_timestamp is not None:
        return
    if name != ROOT_QUEUE and not queue.spec.parent:
        asker.patch(_QUEUE, "", name, uid=uid, body={"spec": {"parent": ROOT_QUEUE}})
    patch = _status_patch(queue, counts)
    if patch:
        asker.patch(_QUEUE, "", name, uid=uid, body={"status": patch}, subresource="status")


def _status_patch(queue: Queue, counts: Mapping[str, int]) -> dict[str, Any]:
    wanted = replace(
        queue.status,
        state=queue.status.state or QueueState.OPEN,
        pending=counts.get("pending", 0),
        inqueue=counts.get("inqueue", 0),
        running=counts.get("running", 0),
        completed=counts.get("completed", 0),
        unknown=counts.get("unknown", 0),
    )
    return merge_patch(msgspec.to_builtins(queue.status), msgspec.to_builtins(wanted))
