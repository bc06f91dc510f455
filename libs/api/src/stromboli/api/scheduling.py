"""scheduling.volcano.sh/v1beta1: PodGroup, the gang, and Queue, the share it draws from.

Field for field Volcano's, including that PodGroup has no status subresource.
"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import field

from stromboli.api.fieldtypes import (
    ATOMIC_LIST,
    ATOMIC_MAP,
    Int32,
    ResourceList,
    Shape,
    Timestamp,
    allowed,
    one_of,
)
from stromboli.api.meta import KubeObject
from stromboli.api.selectors import LabelSelector

__all__ = [
    "SUBDOMAIN",
    "Affinity",
    "Cluster",
    "DequeueStrategy",
    "Guarantee",
    "NetworkTopologyMode",
    "NetworkTopologySpec",
    "NodeGroupAffinity",
    "PodGroup",
    "PodGroupCondition",
    "PodGroupConditionType",
    "PodGroupPhase",
    "PodGroupSpec",
    "PodGroupStatus",
    "Queue",
    "QueueSpec",
    "QueueState",
    "QueueStatus",
    "Reservation",
    "SubGroupPolicy",
]

SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""The pattern of names such as a queue's (RFC 1123 subdomain)."""


class NetworkTopologyMode(StrEnum):
    HARD = "hard"
    SOFT = "soft"


class NetworkTopologySpec(Shape):
    """How close together in the network the pods must be."""

    mode: Annotated[str, one_of(NetworkTopologyMode, default="hard")] = ""
    highest_tier_allowed: Annotated[int | None, allowed(minimum=0)] = None
    highest_tier_name: Annotated[str, allowed(maxLength=253)] = ""


class PodGroupPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    INQUEUE = "Inqueue"
    COMPLETED = "Completed"


class PodGroupConditionType(StrEnum):
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULED = "Scheduled"


class SubGroupPolicy(Shape):
    """Splits the pods that a selector picks into sub-groups that are placed as units."""

    name: Annotated[str, allowed(maxLength=253)] = ""
    sub_group_size: Annotated[Int32 | None, allowed(minimum=1, default=1)] = None
    min_sub_groups: Annotated[Int32 | None, allowed(minimum=0, default=0)] = None
    label_selector: Annotated[LabelSelector | None, ATOMIC_MAP] = None
    match_label_keys: Annotated[tuple[str, ...], ATOMIC_LIST] = ()
    network_topology: NetworkTopologySpec | None = None


class PodGroupSpec(Shape):
    """What the gang needs before any of it may run."""

    min_member: Annotated[Int32, allowed(minimum=0)] = 0
    min_task_member: dict[str, Int32] = field(default_factory=dict)
    queue: Annotated[str, allowed(default="default", maxLength=253, pattern=SUBDOMAIN)] = ""
    priority_class_name: Annotated[str, allowed(maxLength=253)] = ""
    min_resources: ResourceList = field(default_factory=dict)
    network_topology: NetworkTopologySpec | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Shape):
    type: str = ""
    status: str = ""
    transition_id: str = field(default="", name="transitionID")
    last_transition_time: Timestamp = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(Shape):
    phase: Annotated[str, one_of(PodGroupPhase)] = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: Annotated[Int32, allowed(minimum=0)] = 0
    succeeded: Annotated[Int32, allowed(minimum=0)] = 0
    failed: Annotated[Int32, allowed(minimum=0)] = 0


class PodGroup(KubeObject):
    """A set of pods that is scheduled together or not at all."""

    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)


class QueueState(StrEnum):
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class DequeueStrategy(StrEnum):
    FIFO = "fifo"
    TRAVERSE = "traverse"


class Guarantee(Shape):
    """What is kept free for the queue, used or not."""

    resource: ResourceList = field(default_factory=dict)


class Cluster(Shape):
    """Another cluster that the queue's jobs may be forwarded to."""

    name: str = ""
    weight: Int32 = 0
    capacity: ResourceList = field(default_factory=dict)


class NodeGroupAffinity(Shape):
    required_during_scheduling_ignored_during_execution: tuple[str, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[str, ...] = ()


class Affinity(Shape):
    """Which node groups the queue's pods go to, or stay away from."""

    node_group_affinity: NodeGroupAffinity | None = None
    node_group_anti_affinity: NodeGroupAffinity | None = None


class QueueSpec(Shape):
    """The queue's share of the cluster, and how it is used."""

    weight: Annotated[Int32, allowed(default=1, minimum=1, maximum=65535)] = 0
    capability: ResourceList = field(default_factory=dict)
    deserved: ResourceList = field(default_factory=dict)
    guarantee: Guarantee = field(default_factory=Guarantee)
    reclaimable: bool | None = None
    parent: Annotated[str, allowed(maxLength=253, pattern=SUBDOMAIN)] = ""
    priority: Annotated[Int32, allowed(minimum=0)] = 0
    dequeue_strategy: Annotated[str, one_of(DequeueStrategy, default="traverse")] = ""
    type: Annotated[str, allowed(maxLength=253)] = ""
    affinity: Affinity | None = None
    extend_clusters: tuple[Cluster, ...] = ()


class Reservation(Shape):
    nodes: tuple[str, ...] = ()
    resource: ResourceList = field(default_factory=dict)


class QueueStatus(Shape):
    state: Annotated[str, one_of(QueueState)] = ""
    unknown: Annotated[Int32, allowed(minimum=0)] = 0
    pending: Annotated[Int32, allowed(minimum=0)] = 0
    running: Annotated[Int32, allowed(minimum=0)] = 0
    inqueue: Annotated[Int32, allowed(minimum=0)] = 0
    completed: Annotated[Int32, allowed(minimum=0)] = 0
    reservation: Reservation = field(default_factory=Reservation)
    allocated: ResourceList = field(default_factory=dict)


class Queue(KubeObject):
    """A share of the cluster that jobs are submitted to; queues may form a tree."""

    spec: QueueSpec = field(default_factory=QueueSpec)
    status: QueueStatus = field(default_factory=QueueStatus)
