"""What a gang's check needs to know of pods and nodes, kept from the watch: a line per pod."""

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

    settled: Callable[[str, int], None] = lambda _uid, _version: None
    """Told the uid of a pod that is on a node, or gone, and the version that shows it."""
    pods: dict[Key, PodPlace] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)

    def seen(self, kind: str, key: Key, raw: bytes | msgspec.Raw) -> None:
        if kind == "node":
            self.nodes.add(key[1])
        if kind != "pod":
            return
        before = self.pods.get(key)
        place = self.pods[key] = read_place(raw)
        if before is not None and before.uid != place.uid:
            self.settled(before.uid, place.version)
        if place.node:
            self.settled(place.uid, place.version)

    def gone(self, kind: str, key: Key, uid: str, version: int) -> None:
        if kind == "node":
            self.nodes.discard(key[1])
        elif kind == "pod":
            self.pods.pop(key, None)
            self.settled(uid, version)

    def shown_at(self, key: Key, uid: str) -> int:
        """The version in which the watch has last shown this pod on a node; 0 if it has not."""
        place = self.pods.get(key)
        return place.version if place is not None and place.uid == uid and place.node else 0

    def keep_only(self, kind: str, listed: set[Key], version: int) -> None:
        """A complete list of this kind, at this version, contained these and no others."""
        if kind == "pod":
            for key in self.pods.keys() - listed:
                self.settled(self.pods.pop(key).uid, version)
        elif kind == "node":
            self.nodes = {name for _, name in listed}
