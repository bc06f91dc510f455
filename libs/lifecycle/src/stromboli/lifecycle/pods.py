"""Pods from task templates.

A pod is its template, whole, with what makes it the pod of this task, index and version of
the job. Its name is fixed by these, so it can't be made twice.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, cast

import msgspec

from stromboli.api import wellknown as keys
from stromboli.api.batch import Job, TaskSpec
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.kinds import controller_reference
from stromboli.lifecycle.claims import claim_name
from stromboli.lifecycle.plugins import JobPlugin, PodDraft
from stromboli.lifecycle.pod_parts import is_label_value, volume_name
from stromboli.lifecycle.podgroups import pod_group_name, queue_of

__all__ = ["build_pod", "is_forwarded", "pod_name"]

_ANNOTATIONS_FROM_JOB: Final = (keys.PREEMPTABLE, keys.COOLDOWN_TIME, keys.REVOCABLE_ZONE)
_LABELS_FROM_JOB: Final = (keys.PREEMPTABLE, keys.COOLDOWN_TIME)
_FORWARDED: Final = "true"


def pod_name(job: Job, task: TaskSpec, index: int) -> str:
    return f"{job.metadata.name}-{task.name}-{index}"


def is_forwarded(job: Job) -> bool:
    """Does the job go to another cluster, because its queue extends there?"""
    return job.metadata.annotations.get(keys.JOB_FORWARDING) == _FORWARDED


def build_pod(
    job: Job, task: TaskSpec, index: int, *, plugins: Sequence[JobPlugin]
) -> OpaqueObject:
    """The manifest of one pod."""
    # Through JSON, which is ten times as fast as a copy in Python: there may be thousands.
    template: OpaqueObject = msgspec.json.decode(msgspec.json.encode(task.template))
    metadata = _mapping(template, "metadata")
    spec = _mapping(template, "spec")
    metadata = {
        "name": pod_name(job, task, index),
        "namespace": job.metadata.namespace,
        "labels": {**(metadata.get("labels") or {}), **_labels(job, task, index)},
        "annotations": {**(metadata.get("annotations") or {}), **_annotations(job, task, index)},
        "ownerReferences": [msgspec.to_builtins(controller_reference(job))],
    }
    spec["schedulerName"] = (
        spec.get("schedulerName") or job.spec.scheduler_name or keys.SCHEDULER_NAME
    )
    if job.spec.priority_class_name and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.spec.priority_class_name
    draft = PodDraft(task=task, index=index, metadata=metadata, spec=spec)
    _mount_claims(job, draft)
    for plugin in plugins:
        plugin.dress(job, draft)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _mapping(template: OpaqueObject, key: str) -> dict[str, Any]:
    found = template.get(key)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _labels(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    labels = {
        keys.TASK_INDEX: str(index),
        keys.TASK_SPEC: task.name,
        keys.JOB_NAME: job.metadata.name,
        keys.JOB_NAMESPACE: job.metadata.namespace,
        keys.QUEUE_NAME: queue_of(job),
        **{key: job.metadata.labels[key] for key in _LABELS_FROM_JOB if key in job.metadata.labels},
    }
    if not is_label_value(labels[keys.QUEUE_NAME]):
        del labels[keys.QUEUE_NAME]  # the annotation says it too, and may be as long as it is
    if is_forwarded(job):
        labels[keys.JOB_FORWARDING] = _FORWARDED
    if task.partition_policy is not None:
        size = task.partition_policy.partition_size
        labels[keys.PARTITION_ID] = str(index // size if size > 0 else 0)
    return labels


def _annotations(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    of_job = job.metadata.annotations
    annotations = {
        keys.TASK_INDEX: str(index),
        keys.TASK_SPEC: task.name,
        keys.GROUP_NAME: pod_group_name(job),
        keys.JOB_NAME: job.metadata.name,
        keys.QUEUE_NAME: queue_of(job),
        keys.JOB_VERSION: str(job.status.version),
        keys.TEMPLATE_UID: f"{job.metadata.name}-{task.name}",
        keys.JOB_RETRY_COUNT: str(job.status.retry_count),
        **{key: of_job[key] for key in _ANNOTATIONS_FROM_JOB if key in of_job},
    }
    if is_forwarded(job):
        annotations[keys.JOB_FORWARDING] = _FORWARDED
    if task.topology_policy:
        annotations[keys.NUMA_TOPOLOGY_POLICY] = task.topology_policy
    for budget in (keys.JDB_MIN_AVAILABLE, keys.JDB_MAX_UNAVAILABLE):
        if budget in of_job:
            annotations[budget] = of_job[budget]
            break
    return annotations


def _mount_claims(job: Job, draft: PodDraft) -> None:
    """The job's volumes, in every container but those that initialise."""
    mounted: set[str] = set()
    for volume in job.spec.volumes:
        claim = claim_name(job, volume)
        if not claim or claim in mounted:
            continue
        mounted.add(claim)
        # Volcano takes a random suffix; a decision must come out the same each time.
        suffix = blake2b(claim.encode(), digest_size=6).hexdigest()
        name = volume_name(f"{job.metadata.name}-{suffix}")
        draft.add_volume({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        for container in draft.containers:
            draft.mount(container, {"name": name, "mountPath": volume.mount_path})
