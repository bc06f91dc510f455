"""What came of a simulation, as a document of plain values.

binds         "namespace/pod": node, of every pod that the scheduler placed
pipelined     "namespace/pod": node, of those that wait there for others to end
evictions     "namespace/pod" of those that had to go
podgroups     "namespace/name": phase, reason, message
queues        name: state, weight, and whatever the plugins reckon with; amounts are exact
explanations  "namespace/name" of every job that waits: why, and what would help
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from stromboli.api.scheduling import PodGroup, PodGroupConditionType, PodGroupPhase, Queue
from stromboli.api.timestamps import format_time
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Explanation
from stromboli.scheduling.hierarchy import QueueTree
from stromboli.scheduling.status import condition_of
from stromboli.simulating.absent import explanations_of
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.exact_amounts import exact_text, exact_texts, rewritten

__all__ = ["outcome_of"]

_AMOUNTS: Final[Mapping[str, str]] = {
    "deserved": "deserved",
    "real_capacity": "realCapability",
    "request": "request",
    "inqueue": "inqueue",
}
"""Volcano's metrics of queues, and what the field in a Queue is called.

Its `capacity` is what the Queue says itself.
"""
_SETTLED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})
_PLAIN: Final[Mapping[str, str]] = {"milli_cpu": "cpu", "memory_bytes": "memory"}
_SCALAR: Final = "scalar_resources"
_MOST_UNITS: Final = 1 << 53
"""More than that is no limit at all."""


def outcome_of(cluster: Cluster) -> dict[str, Any]:
    core, explanations = cluster.core, explanations_of(cluster)
    document = {
        "binds": dict(sorted(_binds(cluster).items())),
        "pipelined": {"/".join(key): node for key, node in sorted(core.pipelined.items())},
        "evictions": list(dict.fromkeys("/".join(key) for key in cluster.evictions)),
        "podgroups": {
            f"{namespace}/{name}": _group(cluster, item, explanations.get((namespace, name)))
            for (kind, namespace, name), item in sorted(cluster.objects.items())
            if kind == "vcpodgroup"
        },
        "queues": _queues(cluster),
        "explanations": {
            "/".join(key): _explanation(why) for key, why in sorted(explanations.items())
        },
    }
    return msgspec.to_builtins(document)


def _binds(cluster: Cluster) -> dict[str, str]:
    """Less those of pods that were evicted afterwards and wait again, or are gone."""
    evicted = set(cluster.evictions)
    found: dict[str, str] = {}
    for key, node in cluster.binds.items():
        pod = cluster.objects.get(("pod", *key))
        stays = pod is not None and pod.spec.node_name and not pod.metadata.deletion_timestamp
        if stays or key not in evicted:
            found["/".join(key)] = node
    return found


def _group(cluster: Cluster, group: PodGroup, why: Explanation | None) -> dict[str, str]:
    reason = message = ""
    if group.status.phase in _SETTLED:
        # It may wait with the pods beyond its minimum, and is scheduled all the same.
        why = None
    key = (group.metadata.namespace, group.metadata.name)
    type_ = PodGroupConditionType.SCHEDULED if why is None else PodGroupConditionType.UNSCHEDULABLE
    condition = condition_of(group.status.conditions, type_)
    is_current = why is None or key in cluster.core.explanations
    if condition is not None and condition.status == "True" and is_current:
        reason, message = condition.reason, condition.message
    elif why is not None:
        reason, message = why.code.value, why.text
    phase = group.status.phase or PodGroupPhase.PENDING.value
    return {"phase": phase, "reason": reason, "message": message}


def _explanation(why: Explanation) -> dict[str, Any]:
    return {
        "code": why.code.value,
        "sentence": why.sentence,
        "shortBy": exact_texts(why.short_by),
        "ahead": list(why.ahead),
        "unblock": why.unblock.value,
        "since": _time(why.since),
        "lastEvaluated": _time(why.evaluated),
    }


def _queues(cluster: Cluster) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for (kind, _, name), item in sorted(cluster.objects.items()):
        if kind == "queue":
            found[name] = _queue(item)
    for (metric, labels), value in cluster.core.gauges().items():
        told = dict(labels)
        queue = found.get(told.get("queue_name", ""))
        if queue is not None:
            _note(queue, metric.removeprefix("queue_"), told.get("resource", ""), value)
    for name, amounts in _allocated(cluster.core).items():
        if name in found:
            found[name]["allocated"] = exact_texts(tuple(sorted(amounts.items())))
    for queue in found.values():
        _tidy(queue)
    return found


def _tidy(queue: dict[str, Any]) -> None:
    for what in _AMOUNTS.values():
        if not queue.get(what, True):
            del queue[what]
    if queue.get("overused") and not queue["allocated"]:
        # For Volcano nothing is all of nothing, which is no answer to a person.
        queue["overused"] = False


def _allocated(core: SchedulerCore) -> dict[str, dict[str, int]]:
    """What the pods of every queue hold, and of those below it."""
    sums: dict[str, dict[str, int]] = {}
    tree = QueueTree(core.cluster.queues)
    for job in core.cluster.jobs.values():
        if job.pod_group is None or not job.allocated:
            continue
        for name in tree.path(core.cluster.queue_name(job)):
            total = sums.setdefault(name, {})
            for resource, units in job.allocated.items():
                total[resource] = total.get(resource, 0) + units
    return sums


def _queue(queue: Queue) -> dict[str, Any]:
    spec = queue.spec
    said: dict[str, Any] = {"state": queue.status.state, "weight": spec.weight, "allocated": {}}
    if spec.parent:
        said["parent"] = spec.parent
    if spec.priority:
        said["priority"] = spec.priority
    amounts = {
        "deserved": spec.deserved,
        "capability": spec.capability,
        "guarantee": spec.guarantee.resource,
    }
    for what, resources in amounts.items():
        if resources:
            said[what] = rewritten(resources)
    return said


def _note(queue: dict[str, Any], metric: str, resource: str, value: float) -> None:
    if metric in ("share", "weight"):
        queue[metric] = round(value, 6) if metric == "share" else int(value)
        return
    if metric == "overused":
        queue[metric] = bool(value)
        return
    for prefix, what in _AMOUNTS.items():
        suffix = metric.removeprefix(f"{prefix}_")
        name = resource if suffix == _SCALAR else _PLAIN.get(suffix, "")
        if suffix != metric and name:
            amounts: dict[str, str] = queue.setdefault(what, {})
            amounts.pop(name, None)
            if value and value < _MOST_UNITS:
                amounts[name] = exact_text(name, int(value))
            return


def _time(moment: float) -> str:
    return format_time(datetime.fromtimestamp(moment, tz=UTC)) if moment else ""
