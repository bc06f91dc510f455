"""Nodes, namespaces and priority classes: what belongs to the whole cluster."""

from typing import Any, Final

import msgspec

from stromboli.sandbox import causes, statuses
from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.kinds.pod_shape import QuantityShape, TaintShape
from stromboli.sandbox.kinds.pods import PRIORITY_CLASSES_KEY
from stromboli.sandbox.kinds.quantities import canonicalise
from stromboli.sandbox.store import Store

__all__ = ["NAMESPACES", "NODES", "PRIORITY_CLASSES", "SYSTEM_NAMESPACES", "SYSTEM_PRIORITIES"]

SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_UNDELETABLE: Final = frozenset({"default", "kube-public", "kube-system"})
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": (
        2_000_000_000,
        (
            "Used for system critical pods that must run in the cluster, but can be moved to"
            " another node if necessary."
        ),
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}
_HIGHEST_USER_PRIORITY: Final = 1_000_000_000


class NodeSpecShape(msgspec.Struct, rename="camel"):
    unschedulable: bool | None = None
    taints: list[TaintShape] | None = None
    pod_cidr: str | None = None


class NodeStatusShape(msgspec.Struct, rename="camel"):
    capacity: dict[str, QuantityShape] | None = None
    allocatable: dict[str, QuantityShape] | None = None
    conditions: list[dict[str, Any]] | None = None
    addresses: list[dict[str, Any]] | None = None
    node_info: dict[str, Any] | None = None


class NodeShape(msgspec.Struct, rename="camel"):
    spec: NodeSpecShape | None = None
    status: NodeStatusShape | None = None


class NamespaceShape(msgspec.Struct):
    spec: dict[str, list[str] | None] | None = None
    status: dict[str, Any] | None = None


class PriorityClassShape(msgspec.Struct, rename="camel"):
    value: int | None = None
    global_default: bool | None = None
    description: str | None = None
    preemption_policy: str | None = None


def _default_node(node: Document) -> None:
    if node.get("spec") is None:
        node["spec"] = {}
    status = node.get("status")
    if status is None:
        status = node["status"] = {}
    canonicalise(status.get("capacity"), "Node")
    canonicalise(status.get("allocatable"), "Node")
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


def _node_causes(node: Document) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        field = f"spec.taints[{index}]"
        if not taint.get("key"):
            found.append(causes.required(f"{field}.key"))
        effect = taint.get("effect", "")
        supported = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        if effect not in supported:
            found.append(causes.not_supported(f"{field}.effect", effect, supported))
        identity = (taint.get("key", ""), effect)
        if identity in seen:
            found.append(causes.duplicate(field, taint))
        seen.add(identity)
    return found


def _begin_namespace(namespace: Document) -> None:
    spec = namespace["spec"] = dict(namespace.get("spec") or {})
    finalizers: list[str] = [*(spec.get("finalizers") or ())]
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    spec["finalizers"] = finalizers
    namespace["status"] = {"phase": "Active"}


def _default_namespace(namespace: Document) -> None:
    """Every namespace is labelled with its own name, so that selectors can name it."""
    metadata = namespace["metadata"]
    name = metadata.get("name")
    if name:
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}


def _keep_finalizers(new: Document, old: Document) -> None:
    """Only the finalize endpoint takes finalizers off a namespace."""
    new["spec"] = {**(new.get("spec") or {}), "finalizers": old["spec"].get("finalizers", [])}


def _mark_terminating(namespace: Document) -> None:
    namespace["metadata"].pop("deletionGracePeriodSeconds", None)
    namespace["status"] = {**(namespace.get("status") or {}), "phase": "Terminating"}


def _has_content(namespace: Document) -> bool:
    """The finalizers of a namespace stand in its spec: its content has to go first."""
    finalizers = namespace["metadata"].get("finalizers") or namespace["spec"].get("finalizers")
    return bool(finalizers)


def _protect_namespace(namespace: Document, _store: Store) -> None:
    name = namespace["metadata"]["name"]
    if name in _UNDELETABLE:
        why = "this namespace may not be deleted"
        raise statuses.forbidden("", "namespaces", name, why)


def _default_priority_class(priority_class: Document) -> None:
    priority_class.setdefault("value", 0)
    if not priority_class.get("preemptionPolicy"):
        priority_class["preemptionPolicy"] = "PreemptLowerPriority"


def _priority_class_causes(priority_class: Document) -> list[Cause]:
    found: list[Cause] = []
    name: str = priority_class["metadata"].get("name", "")
    value = priority_class["value"]
    if name.startswith("system-"):
        if name not in SYSTEM_PRIORITIES:
            detail = (
                "priority class names with 'system-' prefix are reserved for system use only."
                f" error: {name} is not a known system priority class"
            )
            found.append(causes.forbidden("metadata.name", detail))
    elif value > _HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        found.append(causes.forbidden("value", detail))
    supported = ("Never", "PreemptLowerPriority")
    if priority_class["preemptionPolicy"] not in supported:
        found.append(
            causes.not_supported("preemptionPolicy", priority_class["preemptionPolicy"], supported)
        )
    return found


def _priority_class_update_causes(new: Document, old: Document) -> list[Cause]:
    found: list[Cause] = []
    if new["value"] != old["value"]:
        found.append(causes.forbidden("value", "may not be changed in an update."))
    if new["preemptionPolicy"] != old["preemptionPolicy"]:
        detail = "field is immutable"
        found.append(causes.invalid("preemptionPolicy", new["preemptionPolicy"], detail))
    return found


def _one_global_default(priority_class: Document, store: Store) -> None:
    if priority_class.get("globalDefault") is not True:
        return
    name = priority_class["metadata"].get("name", "")
    for stored in store.bucket(PRIORITY_CLASSES_KEY).objects.values():
        if stored.name != name and decode(stored.body).get("globalDefault") is True:
            why = (
                f"PriorityClass {stored.name} is already marked as default. Only one default can"
                " exist"
            )
            raise statuses.forbidden("scheduling.k8s.io", "priorityclasses", name, why)


def _protect_system_class(priority_class: Document, _store: Store) -> None:
    name = priority_class["metadata"]["name"]
    if name in SYSTEM_PRIORITIES:
        why = "this is a system priority class and cannot be deleted"
        raise statuses.forbidden("scheduling.k8s.io", "priorityclasses", name, why)


NODES: Final = Behaviour(shape=NodeShape, default=_default_node, validate=_node_causes)
NAMESPACES: Final = Behaviour(
    shape=NamespaceShape,
    default=_default_namespace,
    prepare_create=_begin_namespace,
    prepare_update=_keep_finalizers,
    admit_delete=_protect_namespace,
    mark_deleted=_mark_terminating,
    is_held=_has_content,
)
PRIORITY_CLASSES: Final = Behaviour(
    shape=PriorityClassShape,
    default=_default_priority_class,
    validate=_priority_class_causes,
    validate_update=_priority_class_update_causes,
    admit_create=_one_global_default,
    admit_delete=_protect_system_class,
    next_generation=lambda _new, _old: False,
)
