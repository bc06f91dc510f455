"""The entries of a trace as the objects they stand for: nodes, queues, priorities, jobs."""

import math
from collections.abc import Iterator
from typing import Any, Final

from stromboli.api.batch import Job
from stromboli.api.durations import SECOND, format_duration
from stromboli.api.errors import ObjectUnreadable
from stromboli.api.kinds import NODE, PRIORITY_CLASS, QUEUE, VC_JOB, Kind
from stromboli.api.meta import KubeObject
from stromboli.api.wellknown import DEFAULT_QUEUE, RUN_SECONDS, SCHEDULER_NAME
from stromboli.api.wire import read_object
from stromboli.simulating.entries import FOREVER, Entry
from stromboli.simulating.located import Located, plain

__all__ = [
    "JOB_FIELDS",
    "NODE_FIELDS",
    "PRIORITY_FIELDS",
    "QUEUE_FIELDS",
    "job_template",
    "nodes_of",
    "priority_of",
    "queue_of",
]

NODE_FIELDS: Final = ("name", "count", "cpu", "memory", "gpu", "pods", "others", "labels", "taints")
QUEUE_FIELDS: Final = (
    *("name", "weight", "capability", "deserved", "guarantee"),
    *("parent", "priority", "reclaimable", "dequeueStrategy", "annotations"),
)
PRIORITY_FIELDS: Final = ("name", "value")
JOB_FIELDS: Final = (
    *("name", "namespace", "at", "count", "every", "duration", "estimate", "queue", "priority"),
    *("min", "replicas", "requests", "tasks", "job"),
)
TASK_FIELDS: Final = ("name", "replicas", "min", "duration", "requests")
_SHORT_FORM: Final = ("namespace", "estimate", "queue", "priority", "min", "replicas", "requests")
_MOST_NODES: Final = 100_000
_WEIGHTS: Final = (1, 65535)


def nodes_of(entry: Entry) -> Iterator[KubeObject]:
    """`count` equal nodes, or one of exactly this name."""
    name = entry.name("name", "node")
    count = entry.whole("count", -1, most=_MOST_NODES)
    offered = {
        "cpu": entry.text("cpu", "8"),
        "memory": entry.text("memory", "32Gi"),
        "pods": str(entry.whole("pods", 110)),
        **entry.amounts("others"),
    }
    if gpus := entry.whole("gpu", 0):
        offered["nvidia.com/gpu"] = str(gpus)
    labels, taints = entry.raw("labels"), entry.raw("taints")
    for node in [name] if count < 0 else [f"{name}-{number}" for number in range(count)]:
        manifest = {
            "metadata": {
                "name": node,
                "labels": {
                    "kubernetes.io/hostname": node,
                    "kubernetes.io/os": "linux",
                    **(plain(labels) if labels is not None else {}),
                },
            },
            "spec": {"taints": plain(taints)} if taints is not None else {},
            "status": {
                "capacity": offered,
                "allocatable": offered,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        made = _made(entry, NODE, manifest)
        if made is None:
            return
        yield made


def queue_of(entry: Entry) -> KubeObject | None:
    name = entry.name("name")
    if not name:
        entry.problem("name", "is missing: jobs name their queue by it")
    spec: dict[str, Any] = {
        "weight": entry.whole("weight", 1, least=_WEIGHTS[0], most=_WEIGHTS[1]),
        "capability": entry.amounts("capability"),
        "deserved": entry.amounts("deserved"),
        "guarantee": {"resource": entry.amounts("guarantee")},
        "priority": entry.whole("priority", 0),
    }
    for key in ("parent", "reclaimable", "dequeueStrategy"):
        given = entry.raw(key)
        if given is not None:
            spec[key] = plain(given)
    annotations = entry.raw("annotations")
    metadata = {"name": name, "annotations": plain(annotations) if annotations is not None else {}}
    return _made(entry, QUEUE, {"metadata": metadata, "spec": spec})


def priority_of(entry: Entry) -> KubeObject | None:
    name = entry.name("name")
    if not name:
        entry.problem("name", "is missing: jobs name their priority by it")
    value = entry.whole("value", 0, least=-(10**9), most=10**9)
    return _made(entry, PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})


def job_template(entry: Entry, name: str) -> Job | None:
    """The job of an entry, without the number that `count` adds to its name."""
    duration = entry.seconds("duration")
    if entry.has("job"):
        return _given_job(entry, name, duration)
    if duration is None and not entry.has("tasks"):
        if not entry.has("duration"):
            entry.problem("duration", f"is missing: say how long it runs, or `{FOREVER}`")
        return None
    tasks = list(_tasks(entry, duration))
    replicas = sum(task["replicas"] for task in tasks)
    spec: dict[str, Any] = {
        "schedulerName": SCHEDULER_NAME,
        "queue": entry.name("queue", DEFAULT_QUEUE),
        "minAvailable": entry.whole("min", replicas, most=max(replicas, 0)),
        "priorityClassName": entry.name("priority"),
        "tasks": tasks,
    }
    estimate = entry.seconds("estimate")
    if estimate is not None and math.isfinite(estimate):
        spec["runningEstimate"] = format_duration(round(estimate * SECOND))
    metadata = {"name": name, "namespace": entry.name("namespace", "default")}
    return _made(entry, VC_JOB, {"metadata": metadata, "spec": spec})


def _tasks(entry: Entry, duration: float | None) -> Iterator[dict[str, Any]]:
    if not entry.has("tasks"):
        yield _task(entry, "main", entry.whole("replicas", 1, least=1), duration)
        return
    for field in ("replicas", "requests"):
        if entry.has(field):
            entry.problem(field, "stands beside `tasks`: say it for each task")
    for number, task in enumerate(entry.entries("tasks", TASK_FIELDS)):
        own = task.seconds("duration") if task.has("duration") else duration
        if own is None and not task.has("duration"):
            task.problem("duration", "is missing here and in the job: say how long its pods run")
        name = task.name("name", f"task-{number}")
        made = _task(task, name, task.whole("replicas", 1), own)
        if task.has("min"):
            made["minAvailable"] = task.whole("min", 0, most=made["replicas"])
        yield made


def _task(entry: Entry, name: str, replicas: int, duration: float | None) -> dict[str, Any]:
    requests = entry.amounts("requests")
    container = {"name": "main", "image": "trace", "resources": {"requests": requests}}
    template: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    _set_run_time(template, duration)
    return {"name": name, "replicas": replicas, "template": template}


def _set_run_time(template: dict[str, Any], duration: float | None) -> None:
    """None and infinity leave it without one: it runs until its job ends."""
    if duration is None or not math.isfinite(duration):
        return
    metadata = template.setdefault("metadata", {})
    metadata.setdefault("annotations", {}).setdefault(RUN_SECONDS, f"{duration:.9g}")


def _given_job(entry: Entry, name: str, duration: float | None) -> Job | None:
    """A whole manifest, with the trace's duration where its templates have none."""
    for field in (*_SHORT_FORM, "tasks"):
        if entry.has(field):
            entry.problem(field, "stands beside `job`: say it in the manifest")
    where = entry.raw("job")
    if where is None or where.mapping is None:
        entry.problem("job", "expected a manifest of a Job")
        return None
    manifest = plain(where)
    said = (manifest.get("apiVersion", VC_JOB.api_version), manifest.get("kind", VC_JOB.kind))
    if said != (VC_JOB.api_version, VC_JOB.kind):
        entry.problem("job", f"is a {said[0]} {said[1]}, expected a {VC_JOB.api_version} Job")
        return None
    metadata = manifest.setdefault("metadata", {})
    if isinstance(metadata, dict):
        metadata.setdefault("namespace", "default")
        metadata["name"] = name if entry.has("name") else metadata.get("name", name)
    made = _made(entry, VC_JOB, manifest, within=where)
    if made is not None:
        for task in made.spec.tasks:
            _set_run_time(task.template, duration)
    return made


def _made(entry: Entry, kind: Kind[Any], manifest: object, within: Located | None = None) -> Any:
    try:
        return read_object(kind, manifest)
    except ObjectUnreadable as fault:
        entry.problem("job" if within is not None else "", str(fault))
        return None
