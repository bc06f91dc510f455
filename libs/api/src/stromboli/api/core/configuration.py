"""What pods find their peers and settings by: ConfigMaps, Services, and the shape of Secrets.

A Secret's contents are never held: each value becomes `Withheld` while it is decoded, so there
is nothing that a log line, a bus message or an error could show. Only key names remain.
"""

from enum import StrEnum

from msgspec import field

from stromboli.api.fieldtypes import Int32, Shape
from stromboli.api.meta import KubeObject

__all__ = ["ConfigMap", "Secret", "Service", "ServicePort", "ServiceSpec", "Withheld"]


class ConfigMap(KubeObject):
    data: dict[str, str] = field(default_factory=dict)


class ServicePort(Shape):
    name: str = ""
    protocol: str = ""
    port: Int32 = 0
    target_port: int | str = 0


class ServiceSpec(Shape):
    type: str = ""
    cluster_ip: str = field(default="", name="clusterIP")
    selector: dict[str, str] = field(default_factory=dict)
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False


class Service(KubeObject):
    spec: ServiceSpec = field(default_factory=ServiceSpec)


class Withheld(StrEnum):
    """Stands where a secret value stood; whatever is decoded as this type becomes this."""

    WITHHELD = "[withheld]"

    @classmethod
    def _missing_(cls, value: object) -> "Withheld":  # noqa: ARG003  # the hook's signature
        return cls.WITHHELD


class Secret(KubeObject):
    type: str = ""
    data: dict[str, Withheld | None] = field(default_factory=dict)
