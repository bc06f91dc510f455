"""The node: what it offers, and to whom.

Heartbeats (`lastHeartbeatTime`, the node's lease) are left out: they change every few seconds
and say nothing that the conditions do not.
"""

from msgspec import field

from stromboli.api.core.affinity import Taint
from stromboli.api.fieldtypes import Int64, ResourceList, Shape
from stromboli.api.meta import Condition, KubeObject

__all__ = ["ContainerImage", "Node", "NodeSpec", "NodeStatus"]


class NodeSpec(Shape):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Shape):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(Shape):
    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()


class Node(KubeObject):
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
