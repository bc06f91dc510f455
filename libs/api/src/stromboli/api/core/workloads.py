"""Kubernetes' own controllers of pods, as far as the gangs of their pods depend on them.

Their pod templates are left out on purpose: a gang is sized by a pod that exists, and a
template would bring every environment variable of every workload onto the bus.
"""

from msgspec import field

from stromboli.api.fieldtypes import Int32, Shape
from stromboli.api.meta import Condition, KubeObject

__all__ = [
    "BatchJob",
    "BatchJobStatus",
    "DaemonSet",
    "NetworkPolicy",
    "ReplicaSet",
    "ScaledSpec",
    "StatefulSet",
    "StatefulSetStatus",
]


class ScaledSpec(Shape):
    replicas: Int32 | None = None
    """None stands for one."""


class ReplicaSet(KubeObject):
    spec: ScaledSpec = field(default_factory=ScaledSpec)


class StatefulSetStatus(Shape):
    update_revision: str = ""


class StatefulSet(KubeObject):
    spec: ScaledSpec = field(default_factory=ScaledSpec)
    status: StatefulSetStatus = field(default_factory=StatefulSetStatus)


class DaemonSet(KubeObject):
    """One pod per node; only what it says about itself matters here."""


class BatchJobStatus(Shape):
    conditions: tuple[Condition, ...] = ()


class BatchJob(KubeObject):
    """batch/v1 Job, not to be confused with Volcano's."""

    status: BatchJobStatus = field(default_factory=BatchJobStatus)

    @property
    def is_finished(self) -> bool:
        return any(
            c.type in {"Complete", "Failed"} and c.status == "True" for c in self.status.conditions
        )


class NetworkPolicy(KubeObject):
    """Only ever made and deleted: who may talk to whom is decided where it is made."""
