"""Kubernetes' own objects, with the fields that Stromboli decides by or passes on.

Everything else in them is skipped while decoding. Values that Kubernetes enumerates stay
plain text: a newer API server may know more of them than we do.
"""

from stromboli.api.core.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from stromboli.api.core.cluster import Lease, LeaseSpec, Namespace, NamespaceStatus, PriorityClass
from stromboli.api.core.configuration import (
    ConfigMap,
    Secret,
    Service,
    ServicePort,
    ServiceSpec,
    Withheld,
)
from stromboli.api.core.containers import (
    Container,
    ContainerPort,
    ContainerState,
    ContainerStatus,
    EnvVar,
    EnvVarSource,
    ResourceRequirements,
    VolumeMount,
)
from stromboli.api.core.events import Event, EventSource, ObjectReference
from stromboli.api.core.node import ContainerImage, Node, NodeSpec, NodeStatus
from stromboli.api.core.pod import Pod, PodSchedulingGate, PodSpec, PodStatus, PodTemplateSpec
from stromboli.api.core.volumes import Volume

__all__ = [
    "Affinity",
    "ConfigMap",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerState",
    "ContainerStatus",
    "EnvVar",
    "EnvVarSource",
    "Event",
    "EventSource",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "NamespaceStatus",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectReference",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodSchedulingGate",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "ResourceRequirements",
    "Secret",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeMount",
    "WeightedPodAffinityTerm",
    "Withheld",
]
