"""What admission knows of the cluster: queues, podgroups, namespaces, and who holds resources.

A view of STATE with the few indexes that rules ask for, kept up delta by delta. Of pods and
namespaces only the fields in question are decoded: admission is one of many replicas, and a
hundred thousand whole pods in each of them would be a waste. A view that was synced once stays
usable when NATS is away or STATE is read anew; `doubt` then says how old it may be.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from stromboli.api import kinds
from stromboli.api.projections import decode_projection
from stromboli.api.scheduling import PodGroup, Queue
from stromboli.api.wellknown import GROUP_NAME, VOLCANO_GROUP_NAME
from stromboli.runtime.bus.reader import LogMessage
from stromboli.runtime.bus.view import Delta, Key, View
from stromboli.runtime.logs import get_logger

__all__ = ["KINDS", "ClusterFacts", "Overlaid"]

log = get_logger(__name__)

KINDS: Final = ("queue", "vcpodgroup", "namespace", "pod")
"""The kinds whose facts are read."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _Meta(msgspec.Struct, gc=False):
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class _Namespace(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _PodStatus(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _Place(msgspec.Struct, frozen=True, gc=False):
    """All that is kept of a pod: the podgroup in whose name it holds a node, or an empty one."""

    group: str = ""


_namespaces: Final = msgspec.msgpack.Decoder(_Namespace)
_pods: Final = msgspec.msgpack.Decoder(_Pod)
_NO_PLACE: Final = _Place()


def _decode(token: str, projection: msgspec.Raw) -> Any:
    match token:
        case "pod":
            return _place(_pods.decode(projection))
        case "namespace":
            return _namespaces.decode(projection).metadata.annotations
        case _:
            return decode_projection(kinds.by_token(token), projection)


def _place(pod: _Pod) -> _Place:
    if not pod.spec.node_name or pod.status.phase in _ENDED:
        return _NO_PLACE
    annotations = pod.metadata.annotations
    return _Place(annotations.get(GROUP_NAME) or annotations.get(VOLCANO_GROUP_NAME) or "")


@dataclass(slots=True)
class ClusterFacts:
    """The service's `Surroundings`, and the listener of its reader."""

    connected: Callable[[], bool] = lambda: False
    view: View[Any] = field(init=False)
    is_synced: bool = False
    """Whether every kind was synced at least once: what is known then is never a half-truth."""
    unreadable_facts: int = 0
    _children: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _groups: dict[str, set[Key]] = field(default_factory=lambda: defaultdict(set))
    _placed: dict[Key, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self.view = View(KINDS, _decode, self)

    @property
    def doubt(self) -> str:
        """Why what we know may be out of date; empty if it is not."""
        if not self.connected():
            return "admission has lost its connection to NATS and judges by what it knew before"
        if self.view.unsynced:
            return "admission is reading the cluster's state anew and judges by what it knew before"
        return ""

    @property
    def not_ready(self) -> str | None:
        if self.is_synced:
            return None
        missing = ", ".join(self.view.unsynced)
        return f"the cluster's state has not been read yet: {missing}"

    # Surroundings.

    def queue(self, name: str) -> Queue | None:
        entry = self.view.get("queue", "", name)
        return None if entry is None else entry.object

    def queues(self) -> Iterable[Queue]:
        return (entry.object for entry in self.view.objects("queue").values())

    def children_of(self, queue: str) -> Sequence[Queue]:
        found = (self.queue(name) for name in sorted(self._children.get(queue, ())))
        return [child for child in found if child is not None]

    def allocated_pods(self, queue: str) -> int:
        return sum(self._placed.get(group, 0) for group in self._groups.get(queue, ()))

    def pod_groups_in(self, queue: str) -> int:
        return len(self._groups.get(queue, ()))

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        entry = self.view.get("namespace", "", namespace)
        return {} if entry is None else entry.object

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        entry = self.view.get("vcpodgroup", namespace, name)
        return None if entry is None else entry.object

    # What the view tells us.

    def changed(self, delta: Delta[Any]) -> None:
        old = delta.old.object if delta.old else None
        new = delta.new.object if delta.new else None
        match delta.kind:
            case "queue":
                _move(self._children, delta.name, _parent(old), _parent(new))
            case "vcpodgroup":
                key = (delta.namespace, delta.name)
                _move(self._groups, key, _queue(old), _queue(new))
            case "pod":
                self._count(delta.namespace, old, -1)
                self._count(delta.namespace, new, +1)
            case _:
                pass

    def synced(self, kind: str) -> None:
        log.info("view.synced", kind=kind)
        if not self.view.unsynced:
            self.is_synced = True

    def unreadable(self, message: LogMessage, reason: str) -> None:
        # The gateway, who wrote it, finds it too and puts it aside.
        self.unreadable_facts += 1
        log.warning("fact.unreadable", subject=message.subject, problem=reason)

    def _count(self, namespace: str, place: _Place | None, change: int) -> None:
        if place is None or not place.group:
            return
        key = (namespace, place.group)
        self._placed[key] += change
        if not self._placed[key]:
            del self._placed[key]


@dataclass(frozen=True, slots=True)
class Overlaid:
    """The facts, and queues that were looked up for this one review."""

    facts: ClusterFacts
    found: Mapping[str, Queue]

    @property
    def is_synced(self) -> bool:
        return self.facts.is_synced

    def queue(self, name: str) -> Queue | None:
        return self.facts.queue(name) or self.found.get(name)

    def queues(self) -> Iterable[Queue]:
        return (*self.facts.queues(), *self._new())

    def children_of(self, queue: str) -> Sequence[Queue]:
        new = (child for child in self._new() if child.spec.parent == queue)
        return (*self.facts.children_of(queue), *new)

    def _new(self) -> Iterable[Queue]:
        return (queue for name, queue in self.found.items() if self.facts.queue(name) is None)

    def allocated_pods(self, queue: str) -> int:
        return self.facts.allocated_pods(queue)

    def pod_groups_in(self, queue: str) -> int:
        return self.facts.pod_groups_in(queue)

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        return self.facts.namespace_annotations(namespace)

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        return self.facts.pod_group(namespace, name)


def _parent(queue: Queue | None) -> str | None:
    return None if queue is None else queue.spec.parent


def _queue(group: PodGroup | None) -> str | None:
    return None if group is None else group.spec.queue


def _move(index: dict[str, set[Any]], member: Any, before: str | None, after: str | None) -> None:
    if before == after:
        return
    if before is not None:
        index[before].discard(member)
        if not index[before]:
            del index[before]
    if after is not None:
        index[after].add(member)
