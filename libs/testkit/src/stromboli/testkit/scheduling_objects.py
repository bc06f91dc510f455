"""Nodes, queues, gangs and pods for tests of scheduling, in one line each."""

from collections.abc import Iterable
from typing import Any

from stromboli.api.core import (
    Affinity,
    Container,
    ContainerPort,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceRequirements,
    Taint,
    Toleration,
)
from stromboli.api.fieldtypes import ResourceList
from stromboli.api.meta import KubeObject, ObjectMeta
from stromboli.api.scheduling import (
    Guarantee,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueStatus,
)
from stromboli.api.topology import (
    ExactMatch,
    HyperNode,
    HyperNodeSpec,
    Member,
    MemberSelector,
    MemberType,
)
from stromboli.api.wellknown import GROUP_NAME, TASK_SPEC
from stromboli.scheduling.conf import PluginConf, SchedulingConf

__all__ = ["PLAIN", "gang", "hyper_node", "node", "pod", "pod_group", "priority_class", "queue"]

CREATED = "2030-01-01T00:00:00Z"

PLAIN = SchedulingConf(
    tiers=(
        (PluginConf("priority"), PluginConf("gang"), PluginConf("conformance")),
        (PluginConf("overcommit"), PluginConf("predicates"), PluginConf("nodeorder")),
    )
)
"""No shares and no packing: gangs are spread over the nodes, the first come first."""


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    labels: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    unschedulable: bool = False,
    **others: str,
) -> Node:
    """`others` are further resources; `__` in a name stands for a slash, `_` for a dot."""
    offered: ResourceList = {"cpu": cpu, "memory": memory, "pods": pods}
    offered |= {key.replace("__", "/").replace("_", "."): value for key, value in others.items()}
    return Node(
        metadata=ObjectMeta(name=name, uid=f"node-{name}", labels=labels or {}),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(allocatable=offered),
    )


def hyper_node(
    name: str,
    tier: int,
    *,
    nodes: Iterable[str] = (),
    parts: Iterable[str] = (),
    members: Iterable[Member] = (),
    tier_name: str = "",
) -> HyperNode:
    """`nodes` and `parts`, HyperNodes below it, are named; `members` may be picked otherwise."""
    named = [
        Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=each)))
        for kind, names in ((MemberType.NODE, nodes), (MemberType.HYPER_NODE, parts))
        for each in names
    ]
    return HyperNode(
        metadata=ObjectMeta(name=name, uid=f"hyper-{name}"),
        spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=(*named, *members)),
    )


def queue(
    name: str = "default",
    *,
    state: str = "Open",
    weight: int = 1,
    guarantee: ResourceList | None = None,
    annotations: dict[str, str] | None = None,
    created: str = CREATED,
    **spec: Any,
) -> Queue:
    """`spec` holds more of the Queue's spec."""
    return Queue(
        metadata=ObjectMeta(
            name=name,
            uid=f"queue-{name}",
            creation_timestamp=created,
            annotations=annotations or {},
        ),
        spec=QueueSpec(weight=weight, guarantee=Guarantee(resource=guarantee or {}), **spec),
        status=QueueStatus(state=state),
    )


def priority_class(name: str, value: int) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name, uid=f"class-{name}"), value=value)


def pod_group(
    name: str,
    *,
    min_member: int,
    namespace: str = "test",
    phase: str = "",
    created: str = CREATED,
    in_queue: str = "default",
    **spec: Any,
) -> PodGroup:
    return PodGroup(
        metadata=ObjectMeta(
            name=name, namespace=namespace, uid=f"pg-{name}", creation_timestamp=created
        ),
        spec=PodGroupSpec(min_member=min_member, queue=in_queue, **spec),
        status=PodGroupStatus(phase=phase),
    )


def pod(
    name: str,
    *,
    group: str = "",
    cpu: str = "1",
    memory: str = "1Gi",
    namespace: str = "test",
    role: str = "",
    on: str = "",
    phase: str = "Pending",
    ending: bool = False,
    scheduler: str = "volcano",
    tolerations: tuple[Toleration, ...] = (),
    affinity: Affinity | None = None,
    node_selector: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    host_port: int = 0,
    **spec: Any,
) -> Pod:
    """A pod of one container; an amount of "" is not asked for."""
    requests: ResourceList = {
        key: value for key, value in (("cpu", cpu), ("memory", memory)) if value
    }
    annotations = {GROUP_NAME: group} if group else {}
    if role:
        annotations[TASK_SPEC] = role
    ports = (ContainerPort(host_port=host_port, container_port=host_port),) if host_port else ()
    container = Container(
        name="main", resources=ResourceRequirements(requests=requests), ports=ports
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"pod-{namespace}-{name}",
            creation_timestamp=CREATED,
            deletion_timestamp="2030-01-01T00:01:00Z" if ending else None,
            annotations=annotations,
            labels=labels or {},
        ),
        spec=PodSpec(
            containers=(container,),
            scheduler_name=scheduler,
            node_name=on,
            node_selector=node_selector or {},
            tolerations=tolerations,
            affinity=affinity,
            **spec,
        ),
        status=PodStatus(phase=phase),
    )


def gang(
    name: str,
    size: int,
    *,
    min_member: int | None = None,
    group: dict[str, Any] | None = None,
    **of_pods: Any,
) -> list[KubeObject]:
    """A PodGroup and its pods, all alike; `group` holds more of the PodGroup's spec."""
    least = size if min_member is None else min_member
    return [
        pod_group(name, min_member=least, **(group or {})),
        *(pod(f"{name}-main-{number}", group=name, **of_pods) for number in range(size)),
    ]
