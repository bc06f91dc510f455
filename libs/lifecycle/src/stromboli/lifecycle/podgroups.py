"""The PodGroup of a job: the gang as the scheduler sees it.

Its name carries the job's uid, so a job that was deleted and made again gets another gang.
Queue, labels, annotations and network topology are those of the job at the time it was made;
the size of the gang follows the job.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from stromboli.api.batch import Job, TaskSpec
from stromboli.api.kinds import controller_reference
from stromboli.api.meta import ObjectMeta
from stromboli.api.scheduling import (
    PodGroup,
    PodGroupCondition,
    PodGroupPhase,
    PodGroupSpec,
    SubGroupPolicy,
)
from stromboli.api.selectors import LabelSelector
from stromboli.api.wellknown import DEFAULT_QUEUE, PARTITION_ID, RUNNING_ESTIMATE, TASK_SPEC
from stromboli.lifecycle.quota import PriorityOf, min_resources

__all__ = [
    "FOLLOWS_JOB",
    "admits_pods",
    "build_pod_group",
    "less_by",
    "pending_reason",
    "pod_group_name",
    "queue_of",
]

FOLLOWS_JOB: Final = (
    "minMember",
    "minTaskMember",
    "minResources",
    "priorityClassName",
    "subGroupPolicy",
)
"""The fields of its spec that are brought up to date when the job changes."""

_CLOSED_TO_PODS: Final = ("", PodGroupPhase.PENDING)


def pod_group_name(job: Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def queue_of(job: Job) -> str:
    return job.spec.queue or DEFAULT_QUEUE


def admits_pods(group: PodGroup | None) -> bool:
    """Whether the queue has let the gang in; before that its pods are not even created."""
    return group is not None and group.status.phase not in _CLOSED_TO_PODS


def pending_reason(group: PodGroup) -> PodGroupCondition | None:
    """Why the gang is not let in, as the scheduler says it; None if it is, or nobody says."""
    if admits_pods(group):
        return None
    for condition in reversed(group.status.conditions):
        if condition.status == "True" and condition.type != "Scheduled":
            return condition
    return None


def build_pod_group(job: Job, priority_of: PriorityOf) -> PodGroup:
    """The PodGroup that this job should have."""
    return PodGroup(
        metadata=ObjectMeta(
            name=pod_group_name(job),
            namespace=job.metadata.namespace,
            labels=job.metadata.labels,
            annotations=_annotations(job),
            owner_references=(controller_reference(job),),
        ),
        spec=PodGroupSpec(
            min_member=job.spec.min_available,
            min_task_member={task.name: _minimum(task) for task in job.spec.tasks},
            queue=queue_of(job),
            priority_class_name=job.spec.priority_class_name,
            min_resources=min_resources(job, priority_of),
            network_topology=job.spec.network_topology,
            sub_group_policy=tuple(
                policy for task in job.spec.tasks if (policy := _sub_groups(task)) is not None
            ),
        ),
    )


def less_by(job: Job, ended: Mapping[tuple[str, str], int]) -> Job:
    """The job without so many pods of each (task, phase), and with so many fewer needed."""
    if not ended:
        return job
    fewer: dict[str, int] = {}
    for (task, _), number in ended.items():
        fewer[task] = fewer.get(task, 0) + number
    spec = job.spec
    least = max(0, spec.min_available - sum(fewer.values()))
    tasks = tuple(_smaller(task, fewer.get(task.name, 0)) for task in spec.tasks)
    return replace(job, spec=replace(spec, min_available=least, tasks=tasks))


def _smaller(task: TaskSpec, by: int) -> TaskSpec:
    least = _minimum(task) if task.min_available is None else task.min_available
    return (
        replace(task, replicas=max(0, task.replicas - by), min_available=max(0, least - by))
        if by
        else task
    )


def _annotations(job: Job) -> dict[str, str]:
    """The job's own, and how long it says it will run, for which a PodGroup has no field."""
    estimate = job.spec.running_estimate
    own = job.metadata.annotations
    return {**own, RUNNING_ESTIMATE: estimate} if estimate else own


def _minimum(task: TaskSpec) -> int:
    if task.min_available is not None:
        return task.min_available
    partitions = task.partition_policy
    if partitions is not None and partitions.min_partitions and partitions.partition_size:
        return partitions.min_partitions * partitions.partition_size
    return task.replicas


def _sub_groups(task: TaskSpec) -> SubGroupPolicy | None:
    partitions = task.partition_policy
    if partitions is None:
        return None
    return SubGroupPolicy(
        name=task.name,
        sub_group_size=partitions.partition_size,
        min_sub_groups=partitions.min_partitions,
        label_selector=LabelSelector(match_labels={TASK_SPEC: task.name}),
        match_label_keys=(PARTITION_ID,),
        network_topology=partitions.network_topology,
    )
