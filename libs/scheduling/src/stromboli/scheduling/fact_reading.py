"""Projections from the bus as the core wants them: pods as tasks, everything else as it is.

Reading pods is most of what a scheduler's process does, and the pods of a gang differ in little
more than their names. So a pod is read only as far as it is its own; what it has in common with
others (its class, and what its annotations say) is found by its bytes and read once.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from stromboli.api.errors import ObjectUnreadable
from stromboli.api.kinds import POD, by_token
from stromboli.api.projections import decode_projection
from stromboli.api.wellknown import PREEMPTABLE, TASK_SPEC
from stromboli.api.wire import UNREADABLE
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.pods import (
    Notes,
    Task,
    TaskClass,
    claims_of,
    class_of,
    index_in,
    make_task,
    read_notes,
)
from stromboli.scheduling.slim_pods import ABSENT, SlimPod, SlimStatus

__all__ = ["FactReader", "UnfitPod"]

_MOST_KNOWN: Final = 1 << 14
_WAITING: Final = SlimStatus(phase="Pending")
_Packed: TypeAlias = bytes | msgspec.Raw
_Common: TypeAlias = tuple[bytes, bytes, str, int | None, str, str | None]


class UnfitPod(msgspec.Struct, frozen=True):
    """A pod that can't be reckoned with, and why."""

    problem: BadFact


class FactReader:
    """Reads facts for one core; `scheduler_names` say which pods are ours to place."""

    def __init__(self, scheduler_names: Iterable[str]) -> None:
        self._ours = frozenset(scheduler_names)
        self._pods = msgspec.msgpack.Decoder(SlimPod)
        self._annotations = msgspec.msgpack.Decoder(dict[str, str])
        self._examples: dict[_Common, Task] = {}
        """One pod that only waits, for all that have this in common."""
        self._notes: dict[bytes, Notes] = {}
        self._classes: dict[Any, TaskClass | BadFact] = {}

    def __call__(self, kind: str, packed: _Packed) -> Any:
        """Raises ObjectUnreadable for bytes that are no such object."""
        if kind == POD.token:
            return self.pod(packed)
        return decode_projection(by_token(kind), packed)

    def pod(self, packed: _Packed) -> Task | UnfitPod:
        try:
            pod = self._pods.decode(packed)
            if not _only_waits(pod):
                return self._read(pod, packed)
            key = _common(pod)
            like = self._examples.get(key)
            if like is not None:
                return _made_after(like, pod)
            task = self._read(pod, packed)
        except UNREADABLE as fault:
            raise ObjectUnreadable("the projection of a Pod", str(fault)) from fault
        if isinstance(task, Task) and task.annotations.get(TASK_SPEC):
            _keep_small(self._examples)
            self._examples[key] = task
        return task

    def _read(self, pod: SlimPod, packed: _Packed) -> Task | UnfitPod:
        notes = self._notes_in(pod.metadata.annotations)
        kind = self._class_of(pod, notes, packed)
        if isinstance(kind, BadFact):
            return UnfitPod(kind)
        return make_task(pod, notes, kind, self._ours)

    def _notes_in(self, annotations: msgspec.Raw) -> Notes:
        key = bytes(annotations)
        known = self._notes.get(key)
        if known is None:
            _keep_small(self._notes)
            read = {} if annotations is ABSENT else self._annotations.decode(annotations)
            known = self._notes[key] = read_notes(read)
        return known

    def _class_of(self, pod: SlimPod, notes: Notes, packed: _Packed) -> TaskClass | BadFact:
        spec, metadata = pod.spec, pod.metadata
        key: object = (spec.class_parts, notes.is_revocable, notes.strategy, claims_of(pod))
        if spec.is_sociable:
            # Terms may speak of the pod's own namespace and labels.
            key = (key, metadata.namespace, tuple(metadata.labels.items()))
        known = self._classes.get(key)
        if known is None:
            _keep_small(self._classes)
            try:
                known = class_of(decode_projection(POD, packed))
            except BadFact as bad:
                known = bad
            self._classes[key] = known
        return known


def _only_waits(pod: SlimPod) -> bool:
    """Nothing has happened to it yet, and nothing but its metadata is its own."""
    spec, metadata = pod.spec, pod.metadata
    return (
        pod.status == _WAITING
        and not (spec.node_name or spec.scheduling_gates or spec.is_sociable)
        and not (spec.volumes and claims_of(pod))
        and not (metadata.deletion_timestamp or PREEMPTABLE in metadata.labels)
    )


def _common(pod: SlimPod) -> _Common:
    spec = pod.spec
    return (
        spec.class_parts,
        bytes(pod.metadata.annotations),
        spec.scheduler_name,
        spec.priority,
        spec.priority_class_name,
        spec.preemption_policy,
    )


def _made_after(like: Task, pod: SlimPod) -> Task:
    metadata = pod.metadata
    return replace(
        like,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        created=metadata.creation_timestamp or "",
        index=index_in(metadata.name),
        labels=metadata.labels,
    )


def _keep_small(known: dict[Any, Any]) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
