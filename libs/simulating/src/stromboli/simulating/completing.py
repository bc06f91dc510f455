"""Complete an object as a cluster would: what the API server, kubelets and others fill in.

People write manifests for an API server, which knows better than they do what a node offers
besides its capacity, or which number a priority class stands for. Whatever a manifest says
itself stands.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from stromboli.api.core import Node, Pod, PodSpec, PriorityClass
from stromboli.api.kinds import kind_of
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import Queue, QueueState
from stromboli.simulating.kubelet import running_status
from stromboli.simulating.store import Place, Store

__all__ = ["completed", "in_a_namespace", "is_class"]

T = TypeVar("T", bound=KubeObject)

_DEFAULT_NAMESPACE: Final = "default"
_MOST_PODS: Final = "110"
"""The kubelet's own limit, where a node does not tell another."""

_SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""They exist in every cluster."""
_PREEMPTS: Final = "PreemptLowerPriority"
"""What a class does that does not say otherwise."""


def in_a_namespace(item: T) -> T:
    """What must be in a namespace and names none is in `default`."""
    if kind_of(item).namespaced and not item.metadata.namespace:
        return replace(item, metadata=replace(item.metadata, namespace=_DEFAULT_NAMESPACE))
    return item


def is_class(name: str, objects: Mapping[Place, Any]) -> bool:
    """Whether there is a priority class of that name."""
    return name in _SYSTEM_CLASSES or ("priorityclass", "", name) in objects


def completed(item: T, store: Store, scheduler_name: str) -> T:
    """The object as it would stand in a cluster that holds what `store` holds."""
    made: Any = item
    match item:
        case Pod():
            made = _pod(item, store, scheduler_name)
        case Node():
            made = _node(item)
        case Queue() if not item.status.state:
            made = replace(item, status=replace(item.status, state=QueueState.OPEN))
        case _:
            pass
    return made


def _pod(pod: Pod, store: Store, scheduler_name: str) -> Pod:
    spec = pod.spec
    if not spec.scheduler_name:
        spec = replace(spec, scheduler_name=scheduler_name)
    if spec.priority is None or spec.preemption_policy is None:
        spec = _of_its_class(spec, store)
    if spec is not pod.spec:
        pod = replace(pod, spec=spec)
    if not pod.status.phase and spec.node_name:
        return replace(pod, status=running_status(pod, store.moment))
    if not pod.status.phase:
        return replace(pod, status=replace(pod.status, phase="Pending"))
    return pod


def _of_its_class(spec: PodSpec, store: Store) -> PodSpec:
    """Whom it comes before, and whether it may drive them away, as its class says."""
    value, policy = _priority(spec.priority_class_name, store)
    return replace(
        spec,
        priority=value if spec.priority is None else spec.priority,
        preemption_policy=policy if spec.preemption_policy is None else spec.preemption_policy,
    )


def _priority(name: str, store: Store) -> tuple[int | None, str]:
    """What the class of that name stands for; without a name, the lowest of the defaults."""
    if name in _SYSTEM_CLASSES:
        return _SYSTEM_CLASSES[name], _PREEMPTS
    found: list[PriorityClass] = []
    if name:
        place: Place = ("priorityclass", "", name)
        found += [one for one in (store.objects.get(place),) if one is not None]
    else:
        found += [one for one in store.of_kind("priorityclass") if one.global_default]
    chosen = min(found, key=lambda one: one.value, default=None)
    if chosen is None:
        return None, _PREEMPTS
    return chosen.value, chosen.preemption_policy or _PREEMPTS


def _node(node: Node) -> Node:
    offered = node.status.allocatable or node.status.capacity
    if "pods" not in offered:
        offered = {**offered, "pods": node.status.capacity.get("pods", _MOST_PODS)}
    if offered is node.status.allocatable:
        return node
    return replace(node, status=replace(node.status, allocatable=offered))
