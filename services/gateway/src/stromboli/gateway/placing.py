"""What a gang's check needs to know of pods and nodes, kept from the watch: a line per pod."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from stromboli.gateway.published import Key


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str | None = None


class _PodMeta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _Pod(msgspec.Struct):
    """Null and absent mean the same: Go writes either for what is empty."""

    metadata: _PodMeta
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


_pods = msgspec.json.Decoder(_Pod)


class PodPlace(msgspec.Struct, frozen=True, gc=False):
    """Where a pod is, and whether it can still be placed."""

    uid: str
    node: str
    ending: bool
    version: int


def read_place(raw: bytes | msgspec.Raw) -> PodPlace:
    """From the JSON of a pod."""
    pod = _pods.decode(raw)
    node = pod.spec.node_name if pod.spec else None
    phase = pod.status.phase if pod.status else None
    ending = pod.metadata.deletion_timestamp is not None or phase in {"Succeeded", "Failed"}
    return PodPlace(pod.metadata.uid, node or "", ending, int(pod.metadata.resource_version or 0))


@dataclass(slots=True)
class Places:
    """All pods and nodes that the watch has shown."""

    settled: Callable[[str], None] = lambda _uid: None
    """Told the uid of a pod that is on a node, or gone."""
    pods: dict[Key, PodPlace] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    _awaited: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])

    def seen(self, kind: str, key: Key, raw: bytes | msgspec.Raw) -> None:
        if kind == "node":
            self.nodes.add(key[1])
        if kind != "pod":
            return
        before = self.pods.get(key)
        place = self.pods[key] = read_place(raw)
        if before is not None and before.uid != place.uid:
            self._settle(before.uid)
        if place.node:
            self._settle(place.uid)

    def gone(self, kind: str, key: Key) -> None:
        if kind == "node":
            self.nodes.discard(key[1])
        elif kind == "pod" and (place := self.pods.pop(key, None)) is not None:
            self._settle(place.uid)

    def keep_only(self, kind: str, listed: set[Key]) -> None:
        """A complete list of this kind contained these and no others."""
        if kind == "pod":
            for key in self.pods.keys() - listed:
                self._settle(self.pods.pop(key).uid)
        elif kind == "node":
            self.nodes = {name for _, name in listed}

    def shown_at(self, key: Key, uid: str) -> int:
        """The version in which the watch has last shown this pod on a node; 0 if it has not."""
        place = self.pods.get(key)
        return place.version if place is not None and place.uid == uid and place.node else 0

    async def wait_for(self, key: Key, uid: str, limit_s: float) -> int:
        """The same, after waiting for the watch to show it, for so long."""
        if not (version := self.shown_at(key, uid)):
            shown = self._awaited.setdefault(uid, asyncio.Event())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await shown.wait()
            self._awaited.pop(uid, None)
            version = self.shown_at(key, uid)
        return version

    def _settle(self, uid: str) -> None:
        self.settled(uid)
        if (shown := self._awaited.get(uid)) is not None:
            shown.set()
