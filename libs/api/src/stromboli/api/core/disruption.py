"""Disruption budgets: how many pods of an application may be away at a time."""

from typing import Annotated

from msgspec import field

from stromboli.api.fieldtypes import ATOMIC_MAP, Int32, Shape, Timestamp
from stromboli.api.meta import KubeObject
from stromboli.api.selectors import LabelSelector

__all__ = ["PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"]


class PodDisruptionBudgetSpec(Shape):
    selector: Annotated[LabelSelector | None, ATOMIC_MAP] = None
    """None picks no pod, an empty one every pod of the namespace."""


class PodDisruptionBudgetStatus(Shape):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Timestamp] = field(default_factory=dict)
    """By name: pods whose eviction was allowed and which are not gone yet."""


class PodDisruptionBudget(KubeObject):
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
