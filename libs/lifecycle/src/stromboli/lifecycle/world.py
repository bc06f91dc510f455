"""What the core knows: the facts it was told, and where they belong.

A cache of facts, by kind and name. Each object is also filed under the keys of the decisions
that it matters to: a pod under its job or its gang, a Command under its target, a Job under
what made it. The world remembers for a while which objects are gone, so that a write to an
object that ended right after it still counts as seen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.api import kinds
from stromboli.api.core import PriorityClass
from stromboli.contracts.stimuli import FactChanged
from stromboli.lifecycle.filing import Place, keys_of

__all__ = ["Change", "Entry", "Place", "World"]

_REMEMBERED_GONE: Final = 10_000

_Filed: TypeAlias = dict[str, dict[str, dict[Place, "Entry"]]]


class Entry(msgspec.Struct, frozen=True):
    """An object as it was last seen."""

    uid: str
    resource_version: str
    object: Any


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a fact has changed; `before` is another object if only the name is the same."""

    kind: str
    place: Place
    before: Entry | None = None
    after: Entry | None = None
    keys: tuple[str, ...] = ()
    """The keys that it is, or was, filed under."""

    @property
    def ended(self) -> Entry | None:
        """What is gone, or has given its place to another object of the same name."""
        if self.before is None or (self.after is not None and self.after.uid == self.before.uid):
            return None
        return self.before


@dataclass(slots=True)
class World:
    _objects: dict[str, dict[Place, Entry]] = field(default_factory=dict[str, dict[Place, Entry]])
    _filed: _Filed = field(default_factory=dict[str, dict[str, dict[Place, Entry]]])
    """Key → kind → what belongs to it."""
    _gone: dict[tuple[str, Place], tuple[str, str]] = field(
        default_factory=dict[tuple[str, Place], tuple[str, str]]
    )

    def take(self, fact: FactChanged) -> Change | None:
        """Apply a fact; None if it tells of a time before what is known already."""
        if self._is_stale(fact):
            return None
        place = (fact.namespace, fact.name)
        known = self._objects.setdefault(fact.kind, {})
        before = known.pop(place, None)
        keys: dict[str, None] = {}
        if before is not None:
            keys.update(dict.fromkeys(self._unfile(fact.kind, place, before)))
        after = None
        if fact.after is None:
            self._remember_gone(fact, place)
        else:
            after = Entry(fact.uid, fact.resource_version, fact.after)
            known[place] = after
            self._gone.pop((fact.kind, place), None)
            keys.update(dict.fromkeys(self._file(fact.kind, place, after)))
        return Change(kind=fact.kind, place=place, before=before, after=after, keys=tuple(keys))

    def _file(self, kind: str, place: Place, entry: Entry) -> tuple[str, ...]:
        keys = keys_of(kind, place, entry.object)
        for key in keys:
            self._filed.setdefault(key, {}).setdefault(kind, {})[place] = entry
        return keys

    def _unfile(self, kind: str, place: Place, entry: Entry) -> tuple[str, ...]:
        keys = keys_of(kind, place, entry.object)
        for key in keys:
            belongings = self._filed[key]
            of_kind = belongings[kind]
            del of_kind[place]
            if not of_kind:
                del belongings[kind]
            if not belongings:
                del self._filed[key]
        return keys

    def _remember_gone(self, fact: FactChanged, place: Place) -> None:
        self._gone.pop((fact.kind, place), None)
        self._gone[fact.kind, place] = (fact.uid, fact.resource_version)
        if len(self._gone) > _REMEMBERED_GONE:
            del self._gone[next(iter(self._gone))]

    def _is_stale(self, fact: FactChanged) -> bool:
        known = self.find(fact.kind, fact.namespace, fact.name)
        if fact.after is None:
            return known is None or known.uid != fact.uid
        if known is None or known.uid != fact.uid:
            return self.is_known_gone(fact.kind, fact.namespace, fact.name, fact.uid)
        return int(known.resource_version) > int(fact.resource_version)

    # Looking things up.

    def find(self, kind: str, namespace: str, name: str) -> Entry | None:
        return self._objects.get(kind, {}).get((namespace, name))

    def all(self, kind: str) -> Mapping[Place, Entry]:
        return self._objects.get(kind, {})

    def belongings(self, key: str, kind: str) -> Iterator[Entry]:
        """What is filed under a key, in the order of names."""
        of_kind = self._filed.get(key, {}).get(kind, {})
        for place in sorted(of_kind):
            yield of_kind[place]

    def keys(self, kind: str) -> Iterator[str]:
        """The keys of this kind that anything is filed under."""
        prefix = f"{kind}/"
        return (key for key in self._filed if key.startswith(prefix))

    def is_known_gone(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        return self._gone.get((kind, (namespace, name)), ("", ""))[0] == uid

    def priority_of(self, name: str) -> int:
        """The value of a PriorityClass; 0 for none and for one that does not exist."""
        entry = self.find(kinds.PRIORITY_CLASS.token, "", name)
        found = entry.object if entry is not None else None
        return found.value if isinstance(found, PriorityClass) else 0
