"""The clusters and jobs that the scheduler's core is measured with.

Pods are as Volcano's job controller makes them with the svc plugin: labels and annotations, a
hostname of their own, and a volume for the token whose name differs in every pod.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stromboli.api.core import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    ResourceRequirements,
    Taint,
    Toleration,
)
from stromboli.api.core.volumes import Volume
from stromboli.api.fieldtypes import ResourceList
from stromboli.api.meta import Condition, KubeObject
from stromboli.api.scheduling import NetworkTopologySpec, PodGroupCondition
from stromboli.api.selectors import LabelSelector, Requirement
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.testkit.scheduling_objects import hyper_node, node, pod, pod_group, queue

__all__ = [
    "CONFS",
    "GPU",
    "Gangs",
    "asking_for",
    "gang",
    "gangs_of",
    "network_of",
    "nodes_of",
    "queues_of",
    "running",
]

GPU: Final = "nvidia.com/gpu"
_ZONE: Final = "topology.kubernetes.io/zone"
_TOLERATED: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{what}", operator="Exists", effect="NoExecute")
    for what in ("not-ready", "unreachable")
)
_OFF: Final = {"enablePreemptable": False}
_HELM_TIERS: Final = (
    (PluginConf("priority"), PluginConf("gang", flags=_OFF), PluginConf("conformance")),
    (
        PluginConf("overcommit"),
        PluginConf("drf", flags=_OFF),
        PluginConf("predicates"),
        PluginConf("proportion"),
        PluginConf("nodeorder"),
        PluginConf("binpack"),
    ),
)
_CAPACITY_TIERS: Final = (
    (PluginConf("priority"), PluginConf("gang"), PluginConf("conformance")),
    (
        PluginConf("drf"),
        PluginConf("predicates"),
        PluginConf("capacity"),
        PluginConf("nodeorder"),
        PluginConf("binpack"),
    ),
)
_USUAL: Final = ("enqueue", "allocate", "backfill")
CONFS: Final = {
    "helm": SchedulingConf(actions=_USUAL, tiers=_HELM_TIERS),
    "capacity": SchedulingConf(actions=_USUAL, tiers=_CAPACITY_TIERS),
    "evicting": SchedulingConf(
        actions=("enqueue", "allocate", "preempt", "reclaim", "backfill"), tiers=_HELM_TIERS
    ),
    "topology": SchedulingConf(
        actions=_USUAL,
        tiers=(_HELM_TIERS[0], (*_HELM_TIERS[1], PluginConf("network-topology-aware"))),
    ),
    "reclaiming": SchedulingConf(actions=("enqueue", "allocate", "reclaim"), tiers=_CAPACITY_TIERS),
}
"""`helm` is the default of Volcano's chart."""
_RACK: Final = 10
_SPINE: Final = 100
"""Nodes in one; with `topology` there are racks, spines of racks, and one core of all spines."""


class Gangs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    jobs: int
    size: int
    queues: int = 1
    mixed: bool = False
    """Jobs take turns with a node selector, a toleration, node affinity, or none of these; some
    nodes are tainted, and one job in fifty wants its pods on different nodes."""
    conf: str = "helm"
    tier: int = 0
    """Each job must stand within this tier of the network."""


def queues_of(gangs: Gangs) -> list[KubeObject]:
    names = ["root", "default", *(f"queue-{index}" for index in range(1, gangs.queues))]
    return [queue(name) for name in names]


def nodes_of(number: int, *, tainted: bool = False) -> Iterator[KubeObject]:
    for index in range(number):
        labels = {
            "kubernetes.io/hostname": f"node-{index:05}",
            _ZONE: f"zone-{index % 3}",
            "disk": "ssd" if index % 2 else "hdd",
        }
        taints = (Taint(key="gpu", effect="NoSchedule"),) if tainted and index % 10 == 0 else ()
        yield node(f"node-{index:05}", cpu="64", memory="256Gi", labels=labels, taints=taints)


def network_of(nodes: int) -> Iterator[KubeObject]:
    racks, spines = range(nodes // _RACK), range(nodes // _SPINE)
    for rack in racks:
        first = rack * _RACK
        inside = [f"node-{index:05}" for index in range(first, first + _RACK)]
        yield hyper_node(f"rack-{rack}", 1, nodes=inside)
    for spine in spines:
        below = [rack for rack in racks if rack * _RACK // _SPINE == spine]
        yield hyper_node(f"spine-{spine}", 2, parts=[f"rack-{rack}" for rack in below])
    yield hyper_node("core", 3, parts=[f"spine-{spine}" for spine in spines])


def gangs_of(gangs: Gangs) -> Iterator[KubeObject]:
    names = ["default", *(f"queue-{index}" for index in range(1, gangs.queues))]
    for number in range(gangs.jobs):
        name = f"job-{number:05}"
        more = _wishes(name, number) if gangs.mixed else {}
        in_queue = names[number % len(names)]
        yield from gang(name, gangs.size, in_queue, tier=gangs.tier, **more)


def _wishes(job: str, number: int) -> dict[str, Any]:
    if number % 50 == 49:
        return {"affinity": _on_different_nodes(job)}
    match number % 4:
        case 1:
            return {"node_selector": {"disk": "ssd"}}
        case 2:
            return {"tolerations": (Toleration(key="gpu", operator="Exists"), *_TOLERATED)}
        case 3:
            return {"affinity": _IN_TWO_ZONES}
        case _:
            return {}


_IN_TWO_ZONES: Final = Affinity(
    node_affinity=NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(
            node_selector_terms=(
                NodeSelectorTerm(
                    match_expressions=(
                        Requirement(key=_ZONE, operator="In", values=("zone-0", "zone-1")),
                    )
                ),
            )
        )
    )
)


def _on_different_nodes(job: str) -> Affinity:
    term = PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"volcano.sh/job-name": job}),
        topology_key="kubernetes.io/hostname",
    )
    return Affinity(
        pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )


def gang(
    name: str, size: int, in_queue: str = "default", *, cpu: str = "1", tier: int = 0, **more: Any
) -> Iterator[KubeObject]:
    """Of pods that wait; the PodGroup is admitted already."""
    close = NetworkTopologySpec(mode="hard", highest_tier_allowed=tier) if tier else None
    yield pod_group(
        name, min_member=size, phase="Inqueue", in_queue=in_queue, network_topology=close
    )
    for index in range(size):
        yield _pod(name, index, in_queue, cpu=cpu, **more)


def running(
    name: str, nodes: list[str], in_queue: str = "default", *, least: int = 1, cpu: str = "1"
) -> Iterator[KubeObject]:
    """A gang with a pod on each of these nodes, as kubelets and an earlier scheduler report it."""
    group = pod_group(name, min_member=least, phase="Running", in_queue=in_queue)
    status = replace(group.status, running=len(nodes), conditions=(_WAS_READY,))
    yield replace(group, status=status)
    for index, on in enumerate(nodes):
        found = _pod(name, index, in_queue, on=on, phase="Running", cpu=cpu)
        yield replace(
            found,
            status=replace(
                found.status, conditions=_REPORTED, start_time=_STARTED, pod_ip="10.0.0.1"
            ),
        )


_STARTED: Final = "2030-01-01T00:00:05Z"
_WAS_READY: Final = PodGroupCondition(
    type="Scheduled",
    status="True",
    reason="tasks in gang are ready to be scheduled",
    last_transition_time=_STARTED,
    transition_id="5f3c9e4e-3f0f-4ef3-9f0e-1f5a0e8f7c11",
)
_REPORTED: Final = tuple(
    Condition(type=type_, status="True", last_transition_time=_STARTED)
    for type_ in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
)


def _pod(name: str, index: int, in_queue: str, **more: Any) -> Pod:
    own = f"{name}-worker-{index}"
    options: dict[str, Any] = {"tolerations": _TOLERATED, "memory": "2Gi", **more}
    return pod(
        own,
        group=name,
        role="worker",
        hostname=own,
        subdomain=name,
        volumes=(Volume(name=f"kube-api-access-{index:05x}"),),
        labels={
            "volcano.sh/job-name": name,
            "volcano.sh/job-namespace": "test",
            "volcano.sh/queue-name": in_queue,
            "volcano.sh/task-spec": "worker",
            "volcano.sh/task-index": str(index),
        },
        **options,
    )


def asking_for(items: Iterator[KubeObject], requests: ResourceList) -> Iterator[KubeObject]:
    """The same, but every pod asks for this."""
    for item in items:
        if isinstance(item, Pod):
            container = Container(name="main", resources=ResourceRequirements(requests=requests))
            yield replace(item, spec=replace(item.spec, containers=(container,)))
        else:
            yield item
