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
from stromboli.scheduling.slim_pods import (
    PackedMetadata,
    PackedPod,
    SlimMetadata,
    SlimPod,
    SlimSpec,
    SlimStatus,
)

__all__ = ["FactReader", "UnfitPod"]

_MOST_KNOWN: Final = 1 << 14
_PREEMPTABLE: Final = PREEMPTABLE.encode()
_Packed: TypeAlias = bytes | msgspec.Raw
_Common: TypeAlias = tuple[bytes, bytes, bytes]
"""Spec, annotations and status of a pod, packed."""


class UnfitPod(msgspec.Struct, frozen=True):
    """A pod that can't be reckoned with, and why."""

    problem: BadFact
    group: str = ""
    """The PodGroup that it names, if it is ours to place."""


class FactReader:
    """Reads facts for one core; `scheduler_names` say which pods are ours to place."""

    def __init__(self, scheduler_names: Iterable[str]) -> None:
        self._ours = frozenset(scheduler_names)
        self._pods = msgspec.msgpack.Decoder(PackedPod)
        self._specs = msgspec.msgpack.Decoder(SlimSpec)
        self._statuses = msgspec.msgpack.Decoder(SlimStatus)
        self._texts = msgspec.msgpack.Decoder(dict[str, str])
        self._examples: dict[_Common, Task] = {}
        """One pod for all that have this in common, and nothing else but what they are called."""
        self._of_other_jobs: dict[tuple[bytes, bytes], tuple[Task, Notes]] = {}
        """The same by spec and status only: jobs of one pod are alike in these too."""
        self._last: tuple[_Common, Task] | None = None
        """The example that was used last: gangs come together, and comparing beats looking up."""
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
            metadata = pod.metadata
            labels = bytes(metadata.labels)
            has_example = metadata.deletion_timestamp is None and _PREEMPTABLE not in labels
            if has_example and self._last is not None:
                (spec, annotations, status), like = self._last
                if (
                    metadata.annotations == annotations
                    and pod.spec == spec
                    and pod.status == status
                ):
                    return _made_after(like, metadata, labels)
            common = (bytes(pod.spec), bytes(metadata.annotations), bytes(pod.status))
            if has_example:
                like = self._examples.get(common) or self._example_of_another_job(common)
                if like is not None:
                    self._last = (common, like)
                    return _made_after(like, metadata, labels)
            slim = self._slim(pod)
            task = self._read(slim, common[1], labels, packed)
        except UNREADABLE as fault:
            raise ObjectUnreadable("the projection of a Pod", str(fault)) from fault
        if has_example and isinstance(task, Task) and _is_example(slim, task):
            _keep_small(self._examples)
            self._examples[common] = task
            _keep_small(self._of_other_jobs)
            self._of_other_jobs[common[0], common[2]] = (task, self._notes_in(common[1]))
        return task

    def _example_of_another_job(self, common: _Common) -> Task | None:
        spec, annotations, status = common
        like, theirs = self._of_other_jobs.get((spec, status)) or (None, None)
        if like is None or theirs is None:
            return None
        notes = self._notes_in(annotations)
        if not _differ_in_job_only(notes, theirs):
            return None
        group = notes.group if like.group else ""
        like = replace(like, group=group, annotations=notes.annotations)
        _keep_small(self._examples)
        self._examples[common] = like
        return like

    def _slim(self, pod: PackedPod) -> SlimPod:
        metadata = pod.metadata
        return SlimPod(
            metadata=SlimMetadata(
                name=metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
                creation_timestamp=metadata.creation_timestamp,
                deletion_timestamp=metadata.deletion_timestamp,
                labels=self._texts.decode(metadata.labels),
            ),
            spec=self._specs.decode(pod.spec),
            status=self._statuses.decode(pod.status),
        )

    def _read(
        self, pod: SlimPod, annotations: bytes, labels: bytes, packed: _Packed
    ) -> Task | UnfitPod:
        notes = self._notes_in(annotations)
        kind = self._class_of(pod, notes, packed)
        group = notes.group if pod.spec.scheduler_name in self._ours else ""
        if isinstance(kind, BadFact):
            return UnfitPod(kind, group)
        try:
            return make_task(pod, notes, kind, self._ours, labels=labels)
        except BadFact as bad:
            return UnfitPod(bad, group)

    def _notes_in(self, annotations: bytes) -> Notes:
        known = self._notes.get(annotations)
        if known is None:
            _keep_small(self._notes)
            known = self._notes[annotations] = read_notes(self._texts.decode(annotations))
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


def _is_example(pod: SlimPod, task: Task) -> bool:
    """Whether others with the same spec, annotations and status are the same but for their names.

    Pods on nodes are each on one of their own, more or less.
    """
    return (
        not task.node
        and not pod.spec.is_sociable
        and not task.kind.claims
        and (bool(task.annotations.get(TASK_SPEC)))
    )


def _differ_in_job_only(one: Notes, other: Notes) -> bool:
    are_of_jobs = bool(one.group and other.group)
    return are_of_jobs and one == replace(other, annotations=one.annotations, group=one.group)


def _made_after(like: Task, metadata: PackedMetadata, labels: bytes) -> Task:
    name = metadata.name
    return replace(
        like,
        namespace=metadata.namespace,
        name=name,
        uid=metadata.uid,
        created=metadata.creation_timestamp or "",
        index=index_in(name),
        packed_labels=labels,
    )


def _keep_small(known: dict[Any, Any]) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
