"""Volumes that outlive pods, as far as they say on which nodes a pod can use them."""

from msgspec import field

from stromboli.api.core.affinity import NodeSelector
from stromboli.api.fieldtypes import Int32, Shape
from stromboli.api.meta import KubeObject

__all__ = [
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIPersistentVolumeSource",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeSpec",
    "StorageClass",
    "VolumeNodeAffinity",
    "VolumeNodeResources",
]


class PersistentVolumeClaimSpec(Shape):
    volume_name: str = ""
    """The volume that it is bound to."""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaimStatus(Shape):
    phase: str = ""


class PersistentVolumeClaim(KubeObject):
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)


class CSIPersistentVolumeSource(Shape):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Shape):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Shape):
    csi: CSIPersistentVolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(KubeObject):
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)


class StorageClass(KubeObject):
    provisioner: str = ""
    volume_binding_mode: str = ""


class VolumeNodeResources(Shape):
    count: Int32 | None = None
    """How many volumes of the driver can be attached; None is "any number"."""


class CSINodeDriver(Shape):
    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Shape):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeObject):
    """The drivers of volumes that a node has; its name is the node's."""

    spec: CSINodeSpec = field(default_factory=CSINodeSpec)
