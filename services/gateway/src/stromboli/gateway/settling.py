"""Which of our own writes the watch has not brought back yet.

A service that asked for a write does not decide again before it sees the write in its view, so
every write must become visible, even when no field of the projection changed by it. And a
fence is answered only when everything that was written in its partition stands on STATE.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from stromboli.gateway.published import Key

_ENDED = 0
_PLACED = -1


@dataclass(slots=True)
class _Waiting:
    uid: str
    resource_version: int
    """Or `_ENDED`, for the end of the object, or `_PLACED`, for a pod's node."""
    partitions: set[int]


@dataclass(slots=True)
class OwnWrites:
    """Writes that were answered by the API server and are not on STATE yet."""

    watched: frozenset[str]
    """Kinds that become facts; a write to another kind settles at once."""
    is_placed: Callable[[Key, str], bool]
    """Has the watch shown the pod with this key and uid on a node?"""
    _waiting: dict[tuple[str, Key], _Waiting] = field(default_factory=dict)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    def wrote(
        self, partition: int, kind: str, key: Key, *, uid: str, resource_version: str
    ) -> None:
        """A write was answered; `resource_version` empty means that it was a deletion."""
        if kind not in self.watched:
            return
        self._wait(partition, kind, key, uid, int(resource_version or _ENDED))

    def placed(self, partition: int, key: Key, *, uid: str) -> None:
        """A pod was bound; the answer to a bind carries no resourceVersion."""
        self._wait(partition, "pod", key, uid, _PLACED)

    def _wait(self, partition: int, kind: str, key: Key, uid: str, version: int) -> None:
        waiting = self._waiting.get((kind, key))
        if waiting is None or waiting.uid != uid:
            self._waiting[kind, key] = _Waiting(uid, version, {partition})
            return
        waiting.partitions.add(partition)
        if waiting.resource_version != _ENDED:
            ends = version == _ENDED
            waiting.resource_version = version if ends else max(version, waiting.resource_version)

    def awaits(self, kind: str, key: Key, resource_version: str) -> bool:
        """Must this version be published even if its projection is not new?"""
        waiting = self._waiting.get((kind, key))
        return waiting is not None and 0 < waiting.resource_version <= int(resource_version)

    def stands(
        self, kind: str, key: Key, *, uid: str, resource_version: str, gone: bool, newest: bool
    ) -> None:
        """This is on STATE now; `newest` when nothing newer of the object is on its way."""
        waiting = self._waiting.get((kind, key))
        if waiting is None:
            return
        reached = 0 < waiting.resource_version <= int(resource_version)
        is_placed = waiting.resource_version == _PLACED and newest and self.is_placed(key, uid)
        if gone or waiting.uid != uid or reached or is_placed:
            del self._waiting[kind, key]
            self._settled.set()

    def unsettled(self, partition: int) -> int:
        return sum(partition in waiting.partitions for waiting in self._waiting.values())

    async def wait_until_settled(self, partition: int, is_over: Callable[[], bool]) -> bool:
        """True once everything written in the partition stands on STATE; False if too late."""
        while self.unsettled(partition):
            if is_over():
                return False
            self._settled.clear()
            try:
                async with asyncio.timeout(0.5):
                    await self._settled.wait()
            except TimeoutError:
                continue
        return True

    def forget(self) -> None:
        """STATE is another log: its complete list will contain what we wrote."""
        self._waiting.clear()
        self._settled.set()
