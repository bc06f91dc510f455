"""Surroundings made of lists: for dry runs, for tests, and for whoever holds no view.

`Snapshot` knows exactly what it was given, so a queue that is not in it does not exist.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stromboli.api.scheduling import PodGroup, Queue

__all__ = ["Snapshot"]


class Snapshot:
    """A `Surroundings` that never changes."""

    def __init__(
        self,
        *,
        queues: Iterable[Queue] = (),
        pod_groups: Iterable[PodGroup] = (),
        allocated_pods: Mapping[str, int] | None = None,
        namespace_annotations: Mapping[str, Mapping[str, str]] | None = None,
        is_synced: bool = True,
    ) -> None:
        """`namespace_annotations` are by namespace, `allocated_pods` by queue."""
        self.is_synced: Final = is_synced
        self._queues: Final = {queue.metadata.name: queue for queue in queues}
        self._groups: Final = {
            (group.metadata.namespace, group.metadata.name): group for group in pod_groups
        }
        self._allocated: Final = dict(allocated_pods or {})
        self._annotations: Final = dict(namespace_annotations or {})
        self._children: Final[dict[str, list[Queue]]] = {}
        for queue in self._queues.values():
            self._children.setdefault(queue.spec.parent, []).append(queue)

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def queues(self) -> Iterable[Queue]:
        return self._queues.values()

    def children_of(self, queue: str) -> Sequence[Queue]:
        return self._children.get(queue, ())

    def allocated_pods(self, queue: str) -> int:
        return self._allocated.get(queue, 0)

    def pod_groups_in(self, queue: str) -> int:
        return sum(1 for group in self._groups.values() if group.spec.queue == queue)

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        return self._annotations.get(namespace, {})

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        return self._groups.get((namespace, name))
