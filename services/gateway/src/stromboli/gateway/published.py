"""What stands on STATE, as far as this gateway knows: the memory behind every difference.

Fed by the STATE log like any view, and by the acknowledgements of our own publishes. Of each
object it keeps what a comparison needs (sequence, uid, resourceVersion, a digest of the
projection), not the object. What is gone is forgotten when its tombstone has lived its time;
should it come back just then, the server refuses the sequence that we expect, and the writer
looks what stands. Pure: no I/O.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from stromboli.contracts import codec
from stromboli.contracts.errors import BadSubject, Undecodable
from stromboli.contracts.facts import (
    SYNC_TOKEN,
    TOMBSTONE_LIFE_S,
    Fact,
    KindSynced,
    ObjectGone,
    ObjectSeen,
    object_at,
)
from stromboli.contracts.streams import RESUME_LIMIT_S
from stromboli.runtime.bus.reader import LogMessage, LogPosition

Key = tuple[str, str]
_UNREADABLE = b"unreadable"
_NEVER_SEEN = (0, "")


def digest(projection: bytes) -> bytes:
    return blake2b(projection, digest_size=12).digest()


@dataclass(slots=True)
class Standing:
    """The newest message of one object's subject."""

    sequence: int
    uid: str
    resource_version: str
    digest: bytes
    gone: bool


class Published:
    """STATE as it stands. Feed it to a `LogReader` as its listener."""

    def __init__(
        self,
        foreign_write: Callable[[str], None],
        rubbish: Callable[[str, int, bytes], None] = lambda *_: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`foreign_write` is told a kind; `rubbish` a subject, a sequence and a payload."""
        self._foreign_write = foreign_write
        self._rubbish = rubbish
        self._monotonic = monotonic
        self._ended: deque[tuple[float, str, Standing, Key]] = deque()
        """When which end came to stand, the oldest first."""
        self._objects: dict[str, dict[Key, Standing]] = {}
        self._planned: dict[str, dict[Key, Standing]] = {}
        self._seen: dict[str, dict[Key, tuple[int, str]]] = {}
        self._other: dict[str, int] = {}
        self._in_flight: set[str] = set()
        self.markers: dict[str, KindSynced] = {}
        self.incarnation = ""
        self.sequence = 0
        """The newest message we know of; our own may be known before the log brings them."""
        self._read_up_to = 0
        self.is_caught_up = False
        self._was_caught_up = False
        self.generation = 0
        """Grows whenever what we knew was thrown away: every feed has to start over."""

    # What others ask.

    def standing(self, kind: str, key: Key) -> Standing | None:
        return self._objects.get(kind, {}).get(key)

    def standings(self, kind: str) -> dict[Key, Standing]:
        """Everything we remember of a kind, tombstones included."""
        return dict(self._objects.get(kind, {}))

    def expected(self, kind: str, key: Key) -> Standing | None:
        """What will stand when everything that is on its way has arrived."""
        return self._planned.get(kind, {}).get(key) or self.standing(kind, key)

    def saw(self, kind: str, key: Key, *, uid: str, resource_version: str) -> None:
        """The watch has shown this version, whether or not it made a fact."""
        seen = self._seen.setdefault(kind, {})
        seen[key] = max(seen.get(key, _NEVER_SEEN), (int(resource_version), uid))

    def seen_version(self, kind: str, key: Key) -> int:
        return self._seen.get(kind, {}).get(key, _NEVER_SEEN)[0]

    def version_of(self, kind: str, key: Key, uid: str) -> str:
        """The newest version of this very object that our own watch has shown, or nothing.

        Nothing of it comes from STATE, so it was the API server's word in this turn.
        """
        version, seen_uid = self._seen.get(kind, {}).get(key, _NEVER_SEEN)
        return str(version) if version and seen_uid == uid else ""

    def expectations(self, kind: str) -> dict[Key, Standing]:
        """All that will stand of a kind, ends included, when everything has arrived."""
        return {**self._objects.get(kind, {}), **self._planned.get(kind, {})}

    def newest_version(self, kind: str) -> int:
        """The highest version that stands of this kind, ends included; 0 if nothing stands."""
        standings = self._objects.get(kind, {}).values()
        return max((int(standing.resource_version) for standing in standings), default=0)

    def last_sequence(self, fact: Fact) -> int:
        """The sequence of the newest message on the fact's subject; 0 if there is none."""
        if isinstance(fact, ObjectSeen | ObjectGone):
            standing = self.standing(fact.kind, (fact.namespace, fact.name))
            return 0 if standing is None else standing.sequence
        return self._other.get(fact.subject(), 0)

    def resume_from(self, kind: str) -> str:
        """Where a watch may go on without listing; empty if a list is needed."""
        marker = self.position(kind)
        return "" if marker is None or self._has_rubbish(kind) else marker.resource_version

    def position(self, kind: str) -> KindSynced | None:
        """How far this very log is known to be complete for a kind."""
        marker = self.markers.get(kind)
        return marker if marker is not None and marker.incarnation == self.incarnation else None

    def _has_rubbish(self, kind: str) -> bool:
        """Does a fact stand there that nobody can read? Only a list finds out what it was."""
        standings = self._objects.get(kind, {}).values()
        return any(standing.digest == _UNREADABLE for standing in standings)

    # What our own publishing reports.

    def begin(self, fact: Fact) -> None:
        """A publish of this fact is on its way or waits for its predecessor."""
        self._in_flight.add(fact.subject())
        if isinstance(fact, ObjectSeen | ObjectGone):
            planned = self._planned.setdefault(fact.kind, {})
            planned[fact.namespace, fact.name] = _standing(fact, 0)

    def end(self, fact: Fact) -> None:
        """Nothing is on its way to this subject any more."""
        self._in_flight.discard(fact.subject())
        if isinstance(fact, ObjectSeen | ObjectGone):
            self._planned.get(fact.kind, {}).pop((fact.namespace, fact.name), None)

    def abandon_plans(self) -> None:
        """Whoever was publishing has stopped."""
        self._in_flight.clear()
        self._planned.clear()
        self._seen.clear()

    def is_in_flight(self, subject: str) -> bool:
        return subject in self._in_flight

    def stands(self, fact: Fact, sequence: int) -> None:
        """This fact is now the newest message of its subject."""
        self.sequence = max(self.sequence, sequence)
        self._forget_ended()
        if sequence < self.last_sequence(fact):
            # The log was faster than our acknowledgement and has shown what came after it.
            self._foreign_write(fact.kind)
            return
        match fact:
            case ObjectSeen() | ObjectGone():
                key = (fact.namespace, fact.name)
                if isinstance(fact, ObjectGone) and not self._has_successor(fact.kind, key):
                    self._seen.get(fact.kind, {}).pop(key, None)
                self._objects.setdefault(fact.kind, {})[key] = standing = _standing(fact, sequence)
                if standing.gone:
                    self._ended.append((self._monotonic(), fact.kind, standing, key))
            case KindSynced():
                self.markers[fact.kind] = fact
                self._other[fact.subject()] = sequence

    def _forget_ended(self) -> None:
        """The server has dropped these tombstones; at worst we are a moment early."""
        before = self._monotonic() - TOMBSTONE_LIFE_S
        while self._ended and self._ended[0][0] < before:
            _, kind, standing, key = self._ended.popleft()
            if self.standing(kind, key) is standing:
                self.lost_object(kind, key)

    def _has_successor(self, kind: str, key: Key) -> bool:
        planned = self._planned.get(kind, {}).get(key)
        return planned is not None and not planned.gone

    def lost(self, fact: Fact) -> None:
        """The fact's subject holds no message any more."""
        if isinstance(fact, ObjectSeen | ObjectGone):
            self.lost_object(fact.kind, (fact.namespace, fact.name))
        else:
            self._other.pop(fact.subject(), None)

    def lost_object(self, kind: str, key: Key) -> None:
        self._objects.get(kind, {}).pop(key, None)

    def found(self, subject: str, sequence: int, payload: bytes) -> str:
        """This is the newest message of the subject, whoever wrote it; returns its kind."""
        self.sequence = max(self.sequence, sequence)
        fact = sound_fact(subject, payload)
        if fact is None:
            kind = self._found_unreadable(subject, sequence)
            if kind:
                self._rubbish(subject, sequence, payload)
            return kind
        if sequence > self.last_sequence(fact):
            self.stands(fact, sequence)
            return fact.kind
        return ""

    def forget(self) -> None:
        """Throw everything away: the log is another one."""
        self._objects.clear()
        self._ended.clear()
        self._planned.clear()
        self._seen.clear()
        self._in_flight.clear()
        self._other.clear()
        self.markers.clear()
        self.sequence = 0
        self._read_up_to = 0
        self.is_caught_up = self._was_caught_up = False
        self.generation += 1

    def read_again(self, after: int) -> None:
        """A reader comes, and goes on behind this sequence: until there, all is known."""
        self._read_up_to = after
        self.is_caught_up = False

    # The LogListener protocol.

    def attach(self, position: LogPosition) -> int:
        if (
            position.incarnation == self.incarnation
            and position.last_sequence >= self.sequence
            and position.away_s < RESUME_LIMIT_S
            and self._was_caught_up
        ):
            # Not behind what our own acknowledgements told: between those and what was read,
            # there may be messages of others.
            return self._read_up_to + 1
        self.incarnation = position.incarnation
        self.forget()
        return 1

    def apply(self, message: LogMessage) -> None:
        self._read_up_to = max(self._read_up_to, message.sequence)
        kind = self.found(message.subject, message.sequence, message.payload)
        if kind and self.is_caught_up and message.subject not in self._in_flight:
            # Not our own doing: whoever reads this kind gets a fresh comparison.
            self._foreign_write(kind)

    def caught_up(self) -> None:
        self.is_caught_up = self._was_caught_up = True

    def _found_unreadable(self, subject: str, sequence: int) -> str:
        """Rubbish under one of our subjects: remember its sequence, so that it is replaced."""
        try:
            kind, namespace, name = object_at(subject)
        except BadSubject:
            return ""
        if kind == SYNC_TOKEN and not namespace:
            if sequence <= self._other.get(subject, 0):
                return ""
            self._other[subject] = sequence
            self.markers.pop(name, None)
            return name
        objects = self._objects.setdefault(kind, {})
        known = objects.get((namespace, name))
        if known is not None and known.sequence >= sequence:
            return ""
        objects[namespace, name] = Standing(sequence, "", "0", _UNREADABLE, gone=False)
        return kind


def sound_fact(subject: str, payload: bytes) -> Fact | None:
    """The fact that stands under this subject; None if it makes no sense there."""
    try:
        fact = codec.facts.decode(payload)
        belongs = fact.subject() == subject
    except (Undecodable, BadSubject):
        return None
    version = fact.resource_version
    return fact if belongs and version.isascii() and version.isdecimal() else None


def _standing(fact: ObjectSeen | ObjectGone, sequence: int) -> Standing:
    return Standing(
        sequence,
        fact.uid,
        fact.resource_version,
        digest(bytes(fact.projection)),
        gone=isinstance(fact, ObjectGone),
    )
