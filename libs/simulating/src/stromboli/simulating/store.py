"""The objects of a simulated cluster: who is there, in which version, and who is told of changes.

It stands where the API server and its watches stand. Objects are kept as the projections that
travel on the bus, so the cores see exactly what they see in life. What an object lacks that an
API server gives to every object (uid, creation time, generation) it is given here, always the
same for the same story: ties between objects then fall to their names.
"""

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from stromboli.api.core import Pod
from stromboli.api.kinds import KINDS, by_token, kind_of
from stromboli.api.meta import KubeObject, ObjectMeta, OwnerReference
from stromboli.api.projections import projection_of
from stromboli.api.timestamps import format_time
from stromboli.contracts.stimuli import FactChanged
from stromboli.simulating.inbox import Inbox

__all__ = ["START", "Place", "Store", "Watcher", "place_of"]

Place: TypeAlias = tuple[str, str, str]
"""Kind's token, namespace and name."""

Watcher: TypeAlias = Callable[[float, str, KubeObject | None, KubeObject | None], None]
"""Told of every change: when, the kind's token, how it was, how it is."""

START: Final = 1_893_499_200.0
"""Noon of the first day of 2030: when a simulation begins that nobody gave a time."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_ORDER: Final = {kind.token: number for number, kind in enumerate(KINDS)}
_NAMESAKES: Final = frozenset({"vcjob"})
"""Others are named after their uid, so it has to be short: a PodGroup is called `train-0c4f8e21`.

It begins with a zero, so that of `a` and `a-b` the shorter name comes first with its PodGroup too.
"""
_Owner: TypeAlias = tuple[str, str, str]
"""Kind, name and uid, as an owner reference spells them."""


def place_of(item: KubeObject) -> Place:
    kind, metadata = kind_of(item), item.metadata
    return (kind.token, metadata.namespace if kind.namespaced else "", metadata.name)


class Store:
    """Every change is noted as a fact in the inboxes of those who read its kind."""

    def __init__(self, now: float = START) -> None:
        self.now = now
        self.objects: dict[Place, Any] = {}
        self._by_kind: dict[str, dict[Place, Any]] = {kind.token: {} for kind in KINDS}
        self.watchers: list[Watcher] = []
        self._version = 0
        self._versions: dict[Place, int] = {}
        self._inboxes: list[tuple[frozenset[str] | None, Inbox]] = []
        self._births: dict[Place, int] = {}
        self._owned: dict[_Owner, dict[Place, None]] = {}
        self._short_uids: set[str] = set()

    @property
    def moment(self) -> str:
        """Now, as Kubernetes writes it."""
        return format_time(datetime.fromtimestamp(self.now, tz=UTC))

    def subscribe(self, inbox: Inbox, reads: frozenset[str] | None = None) -> None:
        """What happens from now on; without `reads`, to objects of all kinds."""
        self._inboxes.append((reads, inbox))

    def everything(self, reads: frozenset[str] | None = None) -> Iterator[FactChanged]:
        """All that is there, as a core is told of it that has just begun."""
        for place in sorted(self.objects, key=lambda place: (_ORDER[place[0]], place)):
            if reads is None or place[0] in reads:
                yield self._fact(place, self.objects[place])

    def of_kind(self, token: str) -> Iterator[Any]:
        return iter(self._by_kind[token].values())

    def version_of(self, place: Place) -> str:
        """The resourceVersion; empty when there is no such object."""
        return str(self._versions[place]) if place in self._versions else ""

    # What happens.

    def put(self, item: KubeObject) -> Any:
        """It appears, or becomes this."""
        place = place_of(item)
        before = self.objects.get(place)
        item = projection_of(item)
        if before is None:
            item = replace(item, metadata=self._born(place, item.metadata))
        elif _spec_differs(before, item):
            generation = before.metadata.generation + 1
            item = replace(item, metadata=replace(item.metadata, generation=generation))
        self._note_owners(place, before, item)
        self.objects[place] = self._by_kind[place[0]][place] = item
        self._tell(place, before=before, after=item)
        return item

    def delete(self, place: Place) -> None:
        """It is gone at once; what it owned goes as it is supposed to go."""
        last = self.objects.pop(place)
        del self._by_kind[place[0]][place]
        self._note_owners(place, last, None)
        self._tell(place, before=last, after=None)
        del self._versions[place]
        owner = (by_token(place[0]).kind, place[2], last.metadata.uid)
        for owned in list(self._owned.pop(owner, ())):
            if owned in self.objects and not self._has_other_owner(self.objects[owned], owner):
                self.end(owned)

    def end(self, place: Place) -> None:
        """Somebody wants it gone: a pod on a node is told to stop, all else goes at once."""
        item = self.objects[place]
        if isinstance(item, Pod) and item.spec.node_name and item.status.phase not in _ENDED:
            if not item.metadata.deletion_timestamp:
                metadata = replace(item.metadata, deletion_timestamp=self.moment)
                self.put(replace(item, metadata=metadata))
        else:
            self.delete(place)

    # Inside.

    def _born(self, place: Place, metadata: ObjectMeta) -> ObjectMeta:
        kind, namespace, name = place
        births = self._births[place] = self._births.get(place, 0) + 1
        uid = f"{namespace}-{name}" if by_token(kind).namespaced else name
        uid = uid if births == 1 else f"{uid}-{births}"
        if kind in _NAMESAKES and not metadata.uid:
            uid = self._short(uid)
        return replace(
            metadata,
            namespace=namespace,
            uid=metadata.uid or uid,
            creation_timestamp=metadata.creation_timestamp or self.moment,
            generation=metadata.generation or 1,
        )

    def _short(self, text: str) -> str:
        """Like the beginning of a real uid, and nobody else's."""
        tries = (f"{text}{'+' * number}" for number in count())
        digests = (hashlib.sha256(each.encode()).hexdigest() for each in tries)
        found = next(uid for each in digests if (uid := f"0{each[:7]}") not in self._short_uids)
        self._short_uids.add(found)
        return found

    def _tell(self, place: Place, *, before: Any, after: Any) -> None:
        self._version += 1
        self._versions[place] = self._version
        fact = self._fact(place, after, before=before)
        for reads, inbox in self._inboxes:
            if reads is None or place[0] in reads:
                inbox.add(fact)
        for watcher in self.watchers:
            watcher(self.now, place[0], before, after)

    def _fact(self, place: Place, after: Any, *, before: Any = None) -> FactChanged:
        kind, namespace, name = place
        return FactChanged(
            kind=kind,
            namespace=namespace,
            name=name,
            uid=(after or before).metadata.uid,
            resource_version=str(self._versions[place]),
            before=before,
            after=after,
            last=None if after is not None else before,
        )

    def _note_owners(self, place: Place, before: Any, after: Any) -> None:
        was: tuple[OwnerReference, ...] = before.metadata.owner_references if before else ()
        now: tuple[OwnerReference, ...] = after.metadata.owner_references if after else ()
        if was == now:
            return
        for reference in was:
            self._owned.get(_owner(reference), {}).pop(place, None)
        for reference in now:
            self._owned.setdefault(_owner(reference), {})[place] = None

    def _has_other_owner(self, item: KubeObject, gone: _Owner) -> bool:
        others = {_owner(reference) for reference in item.metadata.owner_references} - {gone}
        return bool(others) and any(
            (kind_of(one).kind, one.metadata.name, one.metadata.uid) in others
            for one in self.objects.values()
        )


def _owner(reference: OwnerReference) -> _Owner:
    return (reference.kind, reference.name, reference.uid)


def _spec_differs(before: Any, after: Any) -> bool:
    was, now = getattr(before, "spec", None), getattr(after, "spec", None)
    return was is not now and was != now
