"""A pod as the bus carries it, read no further than the scheduler looks.

What decides a pod's class stays undecoded here: pods of one template have it in common to the
byte, so it is read once per class and not once per pod (`fact_reading`). Fields that the
scheduler never asks for are skipped, which costs next to nothing.
"""

from typing import Final

from msgspec import Raw, field

from stromboli.api.core import PodSchedulingGate
from stromboli.api.core.volumes import (
    EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource,
)
from stromboli.api.fieldtypes import Int32, Shape, Timestamp
from stromboli.api.meta import Condition

__all__ = ["ABSENT", "SlimPod", "SlimStatus"]

ABSENT: Final = Raw(b"\xc0")
"""nil: so that every part, absent or not, is one whole msgpack value."""


class _SlimMetadata(Shape):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Timestamp = None
    deletion_timestamp: Timestamp = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: Raw = ABSENT


class _SlimVolume(Shape):
    """Only claims matter; a volume for a token has a name of its own in every pod."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class _SlimSpec(Shape):
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
        return self.affinity is not ABSENT or self.topology_spread_constraints is not ABSENT


class SlimStatus(Shape):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: Timestamp = None


class SlimPod(Shape):
    """The attributes that a `Task` is made from have the names that they have in a Pod."""

    metadata: _SlimMetadata = field(default_factory=_SlimMetadata)
    spec: _SlimSpec = field(default_factory=_SlimSpec)
    status: SlimStatus = field(default_factory=SlimStatus)
