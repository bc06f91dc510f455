"""A view is what a service knows of the cluster: STATE applied in order, and honest about gaps.

Pure: messages in, deltas out. It is identified by (incarnation, sequence). When the log is not
the one it has read (made anew, shorter than what was applied, or unread for so long that
tombstones may be gone), it replays from zero and marks what it meets; what is unmarked is
swept only when the replay is complete *and* it has met the kind's sync marker for this
incarnation *and* it stands at the log's end. So an empty STATE never looks like an empty
cluster, and a fact that was overtaken by a newer one behind the marker is waited for. What
stands on the log and can't be read is not gone: the object stays as it was last known.

The marker is also the position of its kind: the view has everything of the kind up to that
resourceVersion. It counts once nothing is left to read, for the same reason.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

import msgspec

from stromboli.contracts import codec
from stromboli.contracts.errors import BadSubject, Undecodable, UnknownTag
from stromboli.contracts.facts import (
    NOTHING_NEW,
    SYNC_TOKEN,
    Fact,
    KindSynced,
    ObjectGone,
    ObjectSeen,
    object_at,
)
from stromboli.contracts.streams import RESUME_LIMIT_S, STATE_SUBJECT
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.reader import LogMessage, LogPosition

T = TypeVar("T")
Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is empty."""


class Entry(msgspec.Struct, Generic[T]):
    """One object as the view knows it."""

    uid: str
    resource_version: str
    sequence: int
    object: T
    mark: int = 0


class Delta(msgspec.Struct, Generic[T], frozen=True):
    """What one message changed: added (no old), changed, or gone (no new)."""

    kind: str
    namespace: str
    name: str
    old: Entry[T] | None
    new: Entry[T] | None
    ended: Entry[T] | None = None
    """When it is gone: its last known state, which may be newer than `old`."""


class ViewObserver(Protocol[T]):
    """Who is told. The default methods do nothing, so that an observer takes what it needs."""

    def changed(self, delta: Delta[T]) -> None: ...

    def synced(self, kind: str) -> None: ...

    def unreadable(self, message: LogMessage, reason: str) -> None: ...


class View(Generic[T]):
    """The objects of some kinds. Feed it to a `LogReader` as its listener."""

    def __init__(
        self,
        kinds: Iterable[str],
        decode: Callable[[str, msgspec.Raw], T],
        observer: ViewObserver[T],
        *,
        decode_end: Callable[[str, T, msgspec.Raw], T] | None = None,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """`decode_end`: what was known and what the end says → the last state.

        Without it, the last state is what was known. `moved` is called when a position has
        changed, after the facts up to it were told.
        """
        self._objects: dict[str, dict[Key, Entry[T]]] = {kind: {} for kind in kinds}
        self._decode = decode
        self._decode_end = decode_end
        self._observer = observer
        self._moved = moved
        self._incarnation = ""
        self._sequence = 0
        self._reaches = 0
        """How far the log went when we last looked, which may be beyond what was applied. A
        log that ends before it has lost its end: what had been overtaken is back, unread."""
        self._mark = 0
        self._replaying = True
        self._behind = True
        self._markers: dict[str, str] = {}
        self._met: dict[str, int] = {}
        """Positions that were met while something was left to read."""
        self._positions: dict[str, int] = {}
        self._unsettled = False
        self._synced: set[str] = set()
        self.skipped_unknown = 0
        self.setbacks = 0
        """How often a position went back: the API server was restored from a backup."""

    @property
    def incarnation(self) -> str:
        return self._incarnation

    @property
    def sequence(self) -> int:
        """The newest sequence applied; every fact up to it is in the view."""
        return self._sequence

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._objects)

    @property
    def unsynced(self) -> tuple[str, ...]:
        """Kinds about which nothing may be decided yet."""
        return tuple(kind for kind in self._objects if kind not in self._synced)

    def objects(self, kind: str) -> Mapping[Key, Entry[T]]:
        return self._objects[kind]

    def get(self, kind: str, namespace: str, name: str) -> Entry[T] | None:
        return self._objects[kind].get((namespace, name))

    def position(self, kind: str) -> int:
        """The resourceVersion up to which everything of this kind is in the view; 0 for unknown.

        Also of kinds whose objects it does not keep.
        """
        return self._positions.get(kind, 0)

    # The LogListener protocol.

    def attach(self, position: LogPosition) -> int:
        self._behind = True
        if (
            position.incarnation == self._incarnation
            and position.last_sequence >= self._reaches
            and position.away_s < RESUME_LIMIT_S
            and not self._replaying
        ):
            self._reaches = position.last_sequence
            return self._sequence + 1
        # Not even a marker of this very log counts before it was met again: it may be lost.
        self._markers.clear()
        self._met.clear()
        self._positions.clear()
        self._synced.clear()
        self._incarnation = position.incarnation
        self._sequence = 0
        self._reaches = position.last_sequence
        self._mark += 1
        self._replaying = True
        return 1

    def apply(self, message: LogMessage) -> None:
        if message.sequence <= self._sequence:
            return
        self._sequence = message.sequence
        self._reaches = max(self._reaches, message.sequence)
        self._behind = message.pending > 0
        self._apply_fact(message)
        if self._unsettled and not self._behind:
            self._settle_all()

    def caught_up(self) -> None:
        self._replaying = False
        self._behind = False
        self._settle_all()

    def _apply_fact(self, message: LogMessage) -> None:
        try:
            fact = codec.facts.decode(message.payload)
        except UnknownTag:
            self.skipped_unknown += 1
            self._keep(message.subject)
            return
        except Undecodable as problem:
            self._observer.unreadable(message, str(problem))
            self._keep(message.subject)
            return
        if not _is_about(fact, message.subject):
            self._observer.unreadable(message, "it is about something else than its subject")
            self._keep(message.subject)
            return
        match fact:
            case ObjectSeen() | ObjectGone():
                self._apply_object(message, fact)
            case KindSynced():
                self._markers[fact.kind] = fact.incarnation
                if fact.incarnation == self._incarnation:
                    self._met[fact.kind] = _as_position(fact.resource_version)
                self._unsettled = True

    def _keep(self, subject: str) -> None:
        """Something stands there, though we can't read it: what we knew of it is not swept."""
        try:
            kind, namespace, name = object_at(subject)
        except BadSubject:
            return
        entry = self._objects.get(kind, {}).get((namespace, name))
        if entry is not None:
            entry.mark = self._mark

    def _apply_object(self, message: LogMessage, fact: ObjectSeen | ObjectGone) -> None:
        objects = self._objects.get(fact.kind)
        if objects is None:
            return
        key = (fact.namespace, fact.name)
        old = objects.get(key)
        if isinstance(fact, ObjectGone):
            if old is not None:
                del objects[key]
                self._tell(fact.kind, key, old=old, ended=self._ended(message, fact, old))
            return
        entry = self._entry(message, fact)
        if entry is None:
            self._keep(message.subject)
            return
        if old is not None and old.uid != fact.uid:
            self._tell(fact.kind, key, old=old, ended=old)
            old = None
        objects[key] = entry
        self._tell(fact.kind, key, old=old, new=entry)

    def _ended(self, message: LogMessage, fact: ObjectGone, old: Entry[T]) -> Entry[T]:
        """How it was last.

        As we knew it, if its end says nothing, can't be read, or is that of a successor that
        came and went while we were not looking.
        """
        if old.uid != fact.uid:
            return old
        last = old.object
        if self._decode_end is not None and fact.projection != NOTHING_NEW:
            try:
                last = self._decode_end(fact.kind, last, fact.projection)
            except (msgspec.MsgspecError, ValueError) as problem:
                self._observer.unreadable(message, f"its projection: {problem}")
                return old
        return Entry(fact.uid, fact.resource_version, message.sequence, last, self._mark)

    def _entry(self, message: LogMessage, fact: ObjectSeen) -> Entry[T] | None:
        try:
            projection = self._decode(fact.kind, fact.projection)
        except (msgspec.MsgspecError, ValueError) as problem:
            self._observer.unreadable(message, f"its projection: {problem}")
            return None
        return Entry(fact.uid, fact.resource_version, message.sequence, projection, self._mark)

    def _settle_all(self) -> None:
        if self._replaying:
            return
        self._unsettled = False
        for kind in self.unsynced:
            if self._markers.get(kind) == self._incarnation:
                self._settle(kind)
        if not self._met:
            return
        for kind, position in self._met.items():
            if position < self._positions.get(kind, 0):
                self.setbacks += 1
            self._positions[kind] = position
        self._met.clear()
        self._moved()

    def _settle(self, kind: str) -> None:
        """Sweep and declare synced: the kind's marker was met, and nothing is left to read.

        Once after a replay: what is met later carries the mark of this replay.
        """
        objects = self._objects[kind]
        stale = [key for key, entry in objects.items() if entry.mark != self._mark]
        for key in stale:
            old = objects.pop(key)
            self._tell(kind, key, old=old, ended=old)
        self._synced.add(kind)
        self._observer.synced(kind)

    def _tell(
        self,
        kind: str,
        key: Key,
        *,
        old: Entry[T] | None,
        new: Entry[T] | None = None,
        ended: Entry[T] | None = None,
    ) -> None:
        self._observer.changed(Delta(kind, key[0], key[1], old, new, ended))


def _is_about(fact: Fact, subject: str) -> bool:
    """Spelt out, because `fact.subject()` checks every token, which takes a replay too long."""
    match fact:
        case ObjectSeen() | ObjectGone():
            name = fact.name.replace(".", "_")
            place = f"{fact.kind}.{fact.namespace or CLUSTER}.{name}"
        case KindSynced():
            place = f"{SYNC_TOKEN}.{CLUSTER}.{fact.kind}"
    return subject == STATE_SUBJECT + place


def _as_position(resource_version: str) -> int:
    """Only decimal versions can be compared; the gateway serves no kind that has others."""
    return int(resource_version) if resource_version.isdecimal() else 0
