"""Small objects that the whole cluster shares: namespaces, quotas, priority classes, leases."""

from msgspec import field

from stromboli.api.fieldtypes import Int32, ResourceList, Shape, Timestamp
from stromboli.api.meta import KubeObject

__all__ = [
    "Lease",
    "LeaseSpec",
    "Namespace",
    "NamespaceStatus",
    "PriorityClass",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
]


class NamespaceStatus(Shape):
    phase: str = ""


class Namespace(KubeObject):
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class PriorityClass(KubeObject):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


class ResourceQuotaSpec(Shape):
    hard: ResourceList = field(default_factory=dict)


class ResourceQuotaStatus(Shape):
    hard: ResourceList = field(default_factory=dict)
    used: ResourceList = field(default_factory=dict)


class ResourceQuota(KubeObject):
    """What a namespace may use at most."""

    spec: ResourceQuotaSpec = field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)


class LeaseSpec(Shape):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: Timestamp = None
    renew_time: Timestamp = None
    lease_transitions: Int32 | None = None


class Lease(KubeObject):
    spec: LeaseSpec = field(default_factory=LeaseSpec)
