"""The pod: what must be placed, and what became of it."""

from msgspec import field

from stromboli.api.core.affinity import Affinity, Toleration, TopologySpreadConstraint
from stromboli.api.core.containers import Container, ContainerStatus, ResourceRequirements
from stromboli.api.core.volumes import Volume
from stromboli.api.fieldtypes import Int32, Int64, ResourceList, Shape, Timestamp
from stromboli.api.meta import Condition, KubeObject, ObjectMeta

__all__ = ["Pod", "PodSchedulingGate", "PodSpec", "PodStatus", "PodTemplateSpec"]


class PodSchedulingGate(Shape):
    name: str = ""


class PodSpec(Shape):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    resources: ResourceRequirements | None = None
    overhead: ResourceList = field(default_factory=dict)
    restart_policy: str = ""
    active_deadline_seconds: Int64 | None = None
    termination_grace_period_seconds: Int64 | None = None
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""


class PodStatus(Shape):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    host_ip: str = field(default="", name="hostIP")
    pod_ip: str = field(default="", name="podIP")
    start_time: Timestamp = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(KubeObject):
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplateSpec(Shape):
    """A pod template, read; to make pods from it, use the whole template it was read from."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
