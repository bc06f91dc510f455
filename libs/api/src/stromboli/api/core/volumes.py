"""The volumes of a pod, as far as they bind it to other objects or take room on a node.

A volume from any other source (projected tokens, hostPath, CSI…) decodes as its name alone, and of
a claim that is made with the pod (`ephemeral`) only that there is one: its name is known.
"""

from stromboli.api.fieldtypes import Int32, QuantityText, Shape

__all__ = [
    "ConfigMapVolumeSource",
    "EmptyDirVolumeSource",
    "EphemeralVolumeSource",
    "KeyToPath",
    "PersistentVolumeClaimVolumeSource",
    "SecretVolumeSource",
    "Volume",
]


class KeyToPath(Shape):
    key: str = ""
    path: str = ""
    mode: Int32 | None = None


class PersistentVolumeClaimVolumeSource(Shape):
    claim_name: str = ""
    read_only: bool = False


class ConfigMapVolumeSource(Shape):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 | None = None
    optional: bool | None = None


class SecretVolumeSource(Shape):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 | None = None
    optional: bool | None = None


class EmptyDirVolumeSource(Shape):
    medium: str = ""
    size_limit: QuantityText | None = None


class EphemeralVolumeSource(Shape):
    """A claim that lives and dies with the pod, named after both."""


class Volume(Shape):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
