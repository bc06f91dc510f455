"""What the core knows: the facts it was told, and where they belong.

A cache of facts, by kind and name, with the pods, PodGroups and Commands of each job found
through their owner. It also remembers for a while which objects are gone, so that a write to
an object that ended right after it still counts as seen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.api import kinds
from stromboli.api.batch import Job
from stromboli.api.bus import Command
from stromboli.api.core import Pod, PriorityClass
from stromboli.api.meta import OwnerReference
from stromboli.api.owners import controller_of
from stromboli.api.scheduling import PodGroup, Queue
from stromboli.contracts.partitions import job_key
from stromboli.contracts.stimuli import FactChanged

__all__ = ["READS", "Entry", "World", "root_key"]

READS: Final = (
    kinds.PRIORITY_CLASS.token,
    kinds.QUEUE.token,
    kinds.VC_JOB.token,
    kinds.VC_POD_GROUP.token,
    kinds.COMMAND.token,
    kinds.POD.token,
)
"""The kinds that the controllers decide by."""

_REMEMBERED_GONE: Final = 10_000

Place: TypeAlias = tuple[str, str]


class Entry(msgspec.Struct, frozen=True):
    """An object as it was last seen."""

    uid: str
    resource_version: str
    object: Any


@dataclass(slots=True)
class World:
    _objects: dict[str, dict[Place, Entry]] = field(
        default_factory=lambda: {kind: {} for kind in READS}
    )
    _of_job: dict[str, dict[str, dict[Place, Entry]]] = field(
        default_factory=dict[str, dict[str, dict[Place, Entry]]]
    )
    """Root key → kind → what belongs to it."""
    _gone: dict[tuple[str, Place], tuple[str, str]] = field(
        default_factory=dict[tuple[str, Place], tuple[str, str]]
    )

    def take(self, fact: FactChanged) -> Entry | None:
        """Apply a fact; returns what it replaced."""
        place = (fact.namespace, fact.name)
        known = self._objects.get(fact.kind)
        if known is None:
            return None
        before = known.pop(place, None)
        if before is not None:
            self._unlink(fact.kind, place, before)
        if fact.after is None:
            self._remember_gone(fact, place)
            return before
        entry = Entry(fact.uid, fact.resource_version, fact.after)
        known[place] = entry
        self._gone.pop((fact.kind, place), None)
        key = root_key(fact.kind, place, entry.object)
        if key is not None:
            self._of_job.setdefault(key, {}).setdefault(fact.kind, {})[place] = entry
        return before

    def _unlink(self, kind: str, place: Place, entry: Entry) -> None:
        key = root_key(kind, place, entry.object)
        belongings = self._of_job.get(key or "")
        if key is None or belongings is None:
            return
        of_kind = belongings.get(kind, {})
        of_kind.pop(place, None)
        if not of_kind:
            belongings.pop(kind, None)
        if not belongings:
            del self._of_job[key]

    def _remember_gone(self, fact: FactChanged, place: Place) -> None:
        self._gone.pop((fact.kind, place), None)
        self._gone[fact.kind, place] = (fact.uid, fact.resource_version)
        if len(self._gone) > _REMEMBERED_GONE:
            del self._gone[next(iter(self._gone))]

    def is_stale(self, fact: FactChanged) -> bool:
        """Does the fact tell of a time before what is known already?"""
        known = self._objects.get(fact.kind, {}).get((fact.namespace, fact.name))
        if fact.after is None:
            return known is None or known.uid != fact.uid
        if known is None or known.uid != fact.uid:
            return self.is_known_gone(fact.kind, fact.namespace, fact.name, fact.uid)
        return int(known.resource_version) > int(fact.resource_version)

    # Looking things up.

    def version_of(self, kind: str, namespace: str, name: str) -> tuple[str, str] | None:
        """(uid, resourceVersion) as the view has it, for the book of outstanding intents."""
        entry = self._objects.get(kind, {}).get((namespace, name))
        return None if entry is None else (entry.uid, entry.resource_version)

    def is_known_gone(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        return self._gone.get((kind, (namespace, name)), ("", ""))[0] == uid

    def job(self, namespace: str, name: str) -> Entry | None:
        return self._objects[kinds.VC_JOB.token].get((namespace, name))

    def jobs(self) -> Mapping[Place, Entry]:
        return self._objects[kinds.VC_JOB.token]

    def queue(self, name: str) -> Entry | None:
        return self._objects[kinds.QUEUE.token].get(("", name))

    def queues(self) -> Mapping[Place, Entry]:
        return self._objects[kinds.QUEUE.token]

    def belongings(self, key: str, kind: str) -> Iterator[Entry]:
        """What belongs to a root owner, in the order of names."""
        of_kind = self._of_job.get(key, {}).get(kind, {})
        for place in sorted(of_kind):
            yield of_kind[place]

    def priority_of(self, name: str) -> int:
        """The value of a PriorityClass; 0 for none and for one that does not exist."""
        entry = self._objects[kinds.PRIORITY_CLASS.token].get(("", name))
        found = entry.object if entry is not None else None
        return found.value if isinstance(found, PriorityClass) else 0


def root_key(kind: str, place: Place, item: Any) -> str | None:
    """The key of the decisions that this object matters to."""
    namespace, name = place
    match item:
        case Job() | Queue():
            return job_key(kind, namespace, name)
        case Pod() | PodGroup():
            owner = controller_of(item.metadata)
            return _key_of(namespace, owner)
        case Command():
            return _key_of(namespace, item.target)
        case _:
            return None


def _key_of(namespace: str, owner: OwnerReference | None) -> str | None:
    if owner is None:
        return None
    for kind in (kinds.VC_JOB, kinds.QUEUE):
        if (owner.api_version, owner.kind) == (kind.api_version, kind.kind):
            return job_key(kind.token, namespace if kind.namespaced else "", owner.name)
    return None
