"""What a gang's check needs to know of pods and nodes, kept from the watch: a line per pod."""

from dataclasses import dataclass, field

import msgspec

from stromboli.gateway.published import Key


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str | None = None


class _PodMeta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
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


def read_place(raw: bytes | msgspec.Raw) -> PodPlace:
    """From the JSON of a pod."""
    pod = _pods.decode(raw)
    node = pod.spec.node_name if pod.spec else None
    phase = pod.status.phase if pod.status else None
    ending = pod.metadata.deletion_timestamp is not None
    return PodPlace(pod.metadata.uid, node or "", ending or phase in {"Succeeded", "Failed"})


@dataclass(slots=True)
class Places:
    """All pods and nodes that the watch has shown."""

    pods: dict[Key, PodPlace] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)

    def seen(self, kind: str, key: Key, raw: bytes | msgspec.Raw) -> None:
        if kind == "pod":
            self.pods[key] = read_place(raw)
        elif kind == "node":
            self.nodes.add(key[1])

    def gone(self, kind: str, key: Key) -> None:
        if kind == "pod":
            self.pods.pop(key, None)
        elif kind == "node":
            self.nodes.discard(key[1])

    def is_placed(self, key: Key, uid: str) -> bool:
        place = self.pods.get(key)
        return place is not None and place.uid == uid and bool(place.node)

    def keep_only(self, kind: str, listed: set[Key]) -> None:
        """A complete list of this kind contained these and no others."""
        if kind == "pod":
            self.pods = {key: place for key, place in self.pods.items() if key in listed}
        elif kind == "node":
            self.nodes = {name for _, name in listed}
