"""Small objects that the whole cluster shares: namespaces, priority classes, leases."""

from msgspec import field

from stromboli.api.fieldtypes import Int32, Shape, Timestamp
from stromboli.api.meta import KubeObject

__all__ = ["Lease", "LeaseSpec", "Namespace", "NamespaceStatus", "PriorityClass"]


class NamespaceStatus(Shape):
    phase: str = ""


class Namespace(KubeObject):
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class PriorityClass(KubeObject):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


class LeaseSpec(Shape):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: Timestamp = None
    renew_time: Timestamp = None
    lease_transitions: Int32 | None = None


class Lease(KubeObject):
    spec: LeaseSpec = field(default_factory=LeaseSpec)
