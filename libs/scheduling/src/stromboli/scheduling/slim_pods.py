"""A pod as the bus carries it, read no further than the scheduler looks.

Pods of one template have nearly everything in common to the byte. So at first only what a pod is
called is read (`PackedPod`), and the rest is compared; it is read (`SlimPod`) once for all that
have it in common (`fact_reading`). Fields that the scheduler never asks for are skipped, which
costs next to nothing.
"""

import re
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw, field

from stromboli.api.core import PodSchedulingGate
from stromboli.api.core.volumes import (
    EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource,
)
from stromboli.api.fieldtypes import Int32, Shape, Timestamp
from stromboli.api.meta import Condition
from stromboli.api.wire import UNREADABLE

__all__ = [
    "ABSENT",
    "NO_LABELS",
    "PackedMetadata",
    "PackedPod",
    "SlimMetadata",
    "SlimPod",
    "SlimSpec",
    "SlimStatus",
    "labels_in",
    "packed_label",
    "packed_labels",
]

ABSENT: Final = Raw(b"\xc0")
"""nil: so that every part, absent or not, is one whole msgpack value."""
_NO_MAP: Final = Raw(b"\x80")
NO_LABELS: Final = bytes(_NO_MAP)
_OF_PODS: Final = re.compile(rb"pod(Anti)?Affinity")


class PackedMetadata(Shape):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Timestamp = None
    deletion_timestamp: Timestamp = None
    labels: Raw = _NO_MAP
    annotations: Raw = _NO_MAP


class PackedPod(Shape):
    """What it is called; the rest as it was packed."""

    metadata: PackedMetadata = field(default_factory=PackedMetadata)
    spec: Raw = _NO_MAP
    status: Raw = _NO_MAP


class SlimMetadata(Shape):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Timestamp = None
    deletion_timestamp: Timestamp = None
    labels: dict[str, str] = field(default_factory=dict)


class _SlimVolume(Shape):
    """Only claims matter."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class SlimSpec(Shape):
    """What decides a pod's class stays packed: it is read once per class."""

    containers: Raw = ABSENT
    init_containers: Raw = ABSENT
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    overhead: Raw = ABSENT
    resources: Raw = ABSENT
    node_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    volumes: tuple[_SlimVolume, ...] = ()

    @property
    def class_parts(self) -> bytes:
        """All that makes its class, as bytes: values that follow each other, none left out."""
        return b"".join(
            (
                self.containers,
                self.init_containers,
                self.node_selector,
                self.affinity,
                self.tolerations,
                self.topology_spread_constraints,
                self.overhead,
                self.resources,
            )
        )

    @property
    def is_sociable(self) -> bool:
        """Whether it may speak of other pods; then its own labels matter too."""
        if self.topology_spread_constraints is not ABSENT:
            return True
        return self.affinity is not ABSENT and _OF_PODS.search(self.affinity) is not None


class SlimStatus(Shape):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: Timestamp = None


class SlimPod(Shape):
    """The attributes that a `Task` is made from have the names that they have in a Pod."""

    metadata: SlimMetadata
    spec: SlimSpec
    status: SlimStatus


def packed_labels(labels: dict[str, str]) -> bytes:
    """As a projection carries them."""
    return _ENCODER.encode(labels) if labels else NO_LABELS


@lru_cache(maxsize=1 << 17)
def labels_in(packed: bytes) -> dict[str, str]:
    """Most pods are never asked for their labels, so these are read when somebody does.

    What is no map of texts is nobody's labels: it must not stop a cycle.
    """
    try:
        return _LABELS.decode(packed)
    except UNREADABLE:
        return {}


@lru_cache(maxsize=1 << 12)
def packed_label(key: str, value: str) -> bytes:
    """What the packed labels of every pod with this label have in them somewhere."""
    return _ENCODER.encode(key) + _ENCODER.encode(value)


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_LABELS: Final = msgspec.msgpack.Decoder(dict[str, str])
