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
from stromboli.api.core.cluster import (
    Lease,
    LeaseSpec,
    Namespace,
    NamespaceStatus,
    PriorityClass,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
)
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
from stromboli.api.core.disruption import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from stromboli.api.core.events import Event, EventSource, ObjectReference
from stromboli.api.core.node import ContainerImage, Node, NodeSpec, NodeStatus
from stromboli.api.core.pod import Pod, PodSchedulingGate, PodSpec, PodStatus, PodTemplateSpec
from stromboli.api.core.storage import (
    CSINode,
    CSINodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from stromboli.api.core.volumes import Volume
from stromboli.api.core.workloads import (
    BatchJob,
    DaemonSet,
    NetworkPolicy,
    ReplicaSet,
    StatefulSet,
)

__all__ = [
    "Affinity",
    "BatchJob",
    "CSINode",
    "CSINodeDriver",
    "ConfigMap",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerState",
    "ContainerStatus",
    "DaemonSet",
    "EnvVar",
    "EnvVarSource",
    "Event",
    "EventSource",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "NamespaceStatus",
    "NetworkPolicy",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetStatus",
    "PodSchedulingGate",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "ReplicaSet",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ResourceRequirements",
    "Secret",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "StatefulSet",
    "StorageClass",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeMount",
    "WeightedPodAffinityTerm",
    "Withheld",
]
