"""What travels between the scheduler and an extender: the JSON that Volcano's sends and reads.

Names are those of Volcano's own records, as its JSON has them (most in Go's spelling). Of what
stands in them only what is known here is sent: a pod travels as its metadata and what a
constraint can ask about it, without containers, which never reach a scheduler; what it asks for
is `Resreq`. Amounts are thousandths, but for bytes of memory, as there.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from stromboli.api.resources import counts_in_thousandths, from_base_units
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.pods import Task, TaskStatus
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import CPU, MEMORY, PODS, Amounts

__all__ = [
    "Decided",
    "Overused",
    "Predicated",
    "Prioritized",
    "Ready",
    "Victims",
    "job_info",
    "node_info",
    "queue_info",
    "resource",
    "task_info",
]

_STATUS: Final = {
    TaskStatus.PENDING: 1 << 0,
    TaskStatus.BINDING: 1 << 3,
    TaskStatus.BOUND: 1 << 4,
    TaskStatus.RUNNING: 1 << 5,
    TaskStatus.RELEASING: 1 << 6,
    TaskStatus.SUCCEEDED: 1 << 7,
    TaskStatus.FAILED: 1 << 8,
    TaskStatus.UNKNOWN: 1 << 9,
}
_ALLOCATED: Final = 1 << 1
_READY_PHASE: Final = 1
_NOT_READY_PHASE: Final = 2


# What is said.


def resource(amounts: Iterable[tuple[str, int]]) -> dict[str, Any]:
    known = dict(amounts)
    scalars = {
        name: units if name == PODS or counts_in_thousandths(name) else 1000 * units
        for name, units in known.items()
        if name not in {CPU, MEMORY}
    }
    return {
        "MilliCPU": known.get(CPU, 0),
        "Memory": known.get(MEMORY, 0),
        "ScalarResources": scalars,
        "MaxTaskNum": known.get(PODS, 0),
    }


def task_info(task: Task, node: str = "") -> dict[str, Any]:
    """With `node`: as it would be there."""
    kind = task.kind
    request = resource(kind.request)
    return {
        "UID": task.uid,
        "Job": "/".join(task.job) if task.group else "",
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": request,
        "InitResreq": request,
        "NodeName": node or task.node,
        "Status": _ALLOCATED if node else _STATUS[task.status],
        "Priority": task.priority,
        "Preemptable": task.preemptable,
        "BestEffort": kind.is_best_effort,
        "SchGated": task.gated,
        "Pod": {
            "metadata": {
                "name": task.name,
                "namespace": task.namespace,
                "uid": task.uid,
                "labels": task.labels,
                "annotations": task.annotations,
                "creationTimestamp": task.created or None,
            },
            "spec": {
                "nodeName": node or task.node,
                "nodeSelector": dict(kind.node_selector),
                "tolerations": kind.tolerations,
                "priorityClassName": task.class_name,
            },
        },
    }


def node_info(nodes: NodeTable, slot: int) -> dict[str, Any]:
    facts = nodes.facts[slot]
    offered = nodes.allocatable[:, slot]
    used, ending = nodes.used[:, slot], nodes.releasing[:, slot]
    names = nodes.resources.names

    def shown(vector: Any) -> dict[str, Any]:
        return resource(zip(names, vector.tolist(), strict=False))

    return {
        "Name": facts.name,
        "Node": {
            "metadata": {"name": facts.name, "labels": dict(facts.labels)},
            "spec": {"taints": facts.taints, "unschedulable": facts.unschedulable},
        },
        "State": {"Phase": _READY_PHASE if facts.ready else _NOT_READY_PHASE, "Reason": ""},
        "Allocatable": shown(offered),
        "Capacity": shown(offered),
        "Idle": shown(offered - used),
        "Used": shown(used),
        "Releasing": shown(ending),
        "Pipelined": resource(()),
    }


def job_info(job: Job, queue: str) -> dict[str, Any]:
    return {
        "UID": "/".join(job.key),
        "PgUID": job.uid,
        "Name": job.key[1],
        "Namespace": job.key[0],
        "Queue": queue,
        "Priority": job.priority,
        "MinAvailable": job.min_member,
        "TaskMinAvailable": dict(job.role_minimums),
        "Tasks": {uid: task_info(task) for uid, task in job.tasks.items()},
        "Allocated": resource(job.allocated.items()),
        "TotalRequest": resource(job.requested.items()),
        "CreationTimestamp": job.created or None,
        "PodGroup": job.pod_group,
        "Preemptable": job.is_preemptable,
    }


def queue_info(queue: QueueInfo) -> dict[str, Any]:
    return {
        "UID": queue.name,
        "Name": queue.name,
        "Weight": queue.weight,
        "Hierarchy": "/".join(queue.hierarchy),
        "Weights": "/".join(f"{weight:g}" for weight in queue.hierarchy_weights),
        "Queue": {
            "metadata": {
                "name": queue.name,
                "uid": queue.uid,
                "annotations": dict(queue.annotations),
            },
            "spec": {
                "weight": queue.weight,
                "priority": queue.priority,
                "parent": queue.parent,
                "reclaimable": queue.reclaimable,
                "capability": _quantities(queue.capability),
                "deserved": _quantities(queue.deserved),
                "guarantee": {"resource": _quantities(queue.guarantee)},
            },
            "status": {"state": "Open" if queue.is_open else "Closed"},
        },
    }


def _quantities(amounts: Amounts) -> Mapping[str, str]:
    return {name: str(from_base_units(name, units)) for name, units in amounts}


# What is answered.


class Predicated(msgspec.Struct, frozen=True):
    """May the pod go to the node? It may if nothing is said against it."""

    against: str = msgspec.field(default="", name="status")
    code: int = 0


class Prioritized(msgspec.Struct, frozen=True):
    """How good the nodes are, by name."""

    scores: dict[str, float] | None = msgspec.field(default=None, name="nodeScore")
    problem: str = msgspec.field(default="", name="errorMessage")


class _Victim(msgspec.Struct, frozen=True):
    uid: str = msgspec.field(default="", name="UID")


class Victims(msgspec.Struct, frozen=True):
    """Who may go; 0 as status is no opinion."""

    status: int = 0
    victims: list[_Victim] | None = None


class Decided(msgspec.Struct, frozen=True):
    """A vote: above 0 for, below 0 against."""

    status: int = 0


class Overused(msgspec.Struct, frozen=True):
    """Does the queue use too much?"""

    overused: bool = False


class Ready(msgspec.Struct, frozen=True):
    """May the job start?"""

    status: bool = False
