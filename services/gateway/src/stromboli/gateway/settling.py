"""Which of our own writes the watch has not brought back yet.

A service that asked for a write does not decide again before it sees the write in its view, so
every write must become visible, even when no field of the projection changed by it. And a
fence is answered only when everything that was written in its scope stands on STATE: by this
gateway, and by its predecessor, whose last writes only a list of our own is sure to show.

What never comes by itself must not hold up a fence for ever (an object that came and went
while the watch had lost its history): after a while its kind is listed, and what was written
before a complete list began is settled by it.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from stromboli.gateway.published import Key

_PATIENCE_S = 1.0
_LOOK_S = 0.25


Scope = Hashable
"""Which fences wait for a write: those of its sender in its partition."""


@dataclass(slots=True)
class _Waiting:
    """What has to stand on STATE about one object."""

    scopes: set[Scope] = field(default_factory=set[Hashable])
    newest: int = 0
    """The newest version of the object that we know of, for telling old facts from new ones."""
    version: int = 0
    """It must be seen in at least this version; 0 if in none."""
    ends: bool = False
    placed: bool = False
    changes: int = 0

    @property
    def is_over(self) -> bool:
        return not (self.version or self.ends or self.placed)


_Place = tuple[str, Key]
"""(kind, (namespace, name)); several objects may have had it, one after the other."""


def _ask_nobody(_kind: str) -> None:
    """Without lists, waiting is all there is."""


@dataclass(slots=True)
class OwnWrites:
    """Writes that were answered by the API server and are not on STATE yet."""

    watched: frozenset[str]
    """Kinds that become facts; a write to another kind settles at once."""
    is_placed: Callable[[Key, str], bool]
    """Has the watch shown the pod with this key and uid on a node?"""
    list_again: Callable[[str], None] = _ask_nobody
    unlisted: set[str] = field(default_factory=set[str])
    """Kinds that were not listed since we lead: there, a predecessor's writes may be missing."""
    _waiting: dict[_Place, dict[str, _Waiting]] = field(default_factory=dict)
    _listing: dict[str, list[tuple[_Place, str, int]]] = field(default_factory=dict)
    _requested: set[str] = field(default_factory=set[str])
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    # What was written.

    def wrote(self, scope: Scope, kind: str, key: Key, *, uid: str, resource_version: str) -> None:
        """A write was answered; `resource_version` empty means that it was a deletion."""
        if kind not in self.watched:
            return
        waiting = self._wait(scope, kind, key, uid)
        version = int(resource_version or 0)
        waiting.newest = max(waiting.newest, version)
        waiting.version = max(waiting.version, version)
        waiting.ends = waiting.ends or not version

    def placed(self, scope: Scope, key: Key, *, uid: str) -> None:
        """A pod was bound; the answer to a bind carries no resourceVersion."""
        self._wait(scope, "pod", key, uid).placed = True

    def is_waited_for(self, kind: str, key: Key, uid: str) -> bool:
        return uid in self._waiting.get((kind, key), {})

    def _wait(self, scope: Scope, kind: str, key: Key, uid: str) -> _Waiting:
        waiting = self._waiting.setdefault((kind, key), {}).setdefault(uid, _Waiting())
        waiting.scopes.add(scope)
        waiting.changes += 1
        return waiting

    # What came back.

    def awaits(self, kind: str, key: Key, resource_version: str) -> bool:
        """Must this version be published even if its projection is not new?"""
        waiting = self._waiting.get((kind, key), {}).values()
        return any(0 < one.version <= int(resource_version) for one in waiting)

    def stands(
        self, kind: str, key: Key, *, uid: str, resource_version: str, gone: bool, newest: bool
    ) -> None:
        """This is on STATE now; `newest` when nothing newer of the object is on its way."""
        version = int(resource_version)
        for waiting_uid, waiting in tuple(self._waiting.get((kind, key), {}).items()):
            if waiting_uid != uid:
                # A successor proves the end. A predecessor, or its end, says nothing.
                over = version >= waiting.newest
            else:
                if waiting.version <= version:
                    waiting.version = 0
                if waiting.placed and newest and self.is_placed(key, uid):
                    waiting.placed = False
                over = gone or waiting.is_over
            if over:
                self._settle((kind, key), waiting_uid)

    def never_shows(self, kind: str, key: Key) -> None:
        """The object can't be put on STATE at all: nobody shall wait for it."""
        if self._waiting.pop((kind, key), None) is not None:
            self._settled.set()

    def forget(self) -> None:
        """STATE is another log: its complete list will contain what we wrote."""
        self._waiting.clear()
        self._settled.set()

    def _settle(self, place: _Place, uid: str) -> None:
        waiting = self._waiting[place]
        del waiting[uid]
        if not waiting:
            del self._waiting[place]
        self._settled.set()

    # Lists.

    def list_started(self, kind: str) -> None:
        """What was written before this moment will be in the list."""
        self._requested.discard(kind)
        self._listing[kind] = [
            (place, uid, one.changes) for place, uid, one in self._all() if place[0] == kind
        ]

    def list_abandoned(self, kind: str) -> None:
        self._listing.pop(kind, None)

    def list_done(self, kind: str) -> None:
        """The list is complete, and all of it stands on STATE."""
        for place, uid, changes in self._listing.pop(kind, ()):
            waiting = self._waiting.get(place, {}).get(uid)
            if waiting is not None and waiting.changes == changes:
                self._settle(place, uid)
        self.unlisted.discard(kind)
        self._settled.set()

    # Fences.

    def unsettled(self, scope: Scope) -> int:
        """How many writes a fence of this scope waits for."""
        return sum(scope in waiting.scopes for _, _, waiting in self._all())

    async def wait_until_settled(self, scope: Scope, is_over: Callable[[], bool]) -> bool:
        """True once everything written in the scope stands on STATE; False if too late."""
        waited_s = 0.0
        while self.unlisted or self.unsettled(scope):
            if is_over():
                return False
            self._ask_for_lists(self.unlisted)
            if waited_s >= _PATIENCE_S:
                self._ask_for_lists(
                    {place[0] for place, _, one in self._all() if scope in one.scopes}
                )
            self._settled.clear()
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._settled.wait()
            except TimeoutError:
                waited_s += _LOOK_S
        return True

    def _ask_for_lists(self, kinds: set[str]) -> None:
        for kind in sorted(kinds - self._requested - self._listing.keys()):
            self._requested.add(kind)
            self.list_again(kind)

    def _all(self) -> Iterator[tuple[_Place, str, _Waiting]]:
        for place, waiting in self._waiting.items():
            for uid, one in waiting.items():
                yield place, uid, one
