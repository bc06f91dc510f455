"""What may change about a job that exists: how many pods, how many are needed, its priority.

An update that leaves the spec alone is always in order, so that rules that came later never
keep anybody from removing a finalizer.
"""

from typing import Final

from msgspec.structs import replace

from stromboli.admitting.jobs.cases import JobChange
from stromboli.admitting.jobs.naming import UPDATED_HOST_NAME_RULE
from stromboli.admitting.jobs.topology import BOTH_TIERS, has_both_tiers
from stromboli.admitting.rules import Cel, Faults, Rule, rule
from stromboli.api.batch import JobSpec, VolumeSpec

__all__ = ["UPDATE_RULES"]


@rule(
    "update-replicas",
    says="'replicas' must be >= 0 in task: %s",
    about="a task has no negative number of pods",
    is_final=True,
)
def replicas(change: JobChange) -> Faults:
    for task in change.new.spec.tasks:
        if task.replicas < 0:
            yield (task.name,)


@rule(
    "update-task-min-available-negative",
    says="'minAvailable' must be >= 0 in task: %s",
    about="a task needs no negative number of pods",
    is_final=True,
)
def task_min_available_negative(change: JobChange) -> Faults:
    for task in change.new.spec.tasks:
        if task.min_available is not None and task.min_available < 0:
            yield (task.name,)


@rule(
    "update-task-min-available",
    says="'minAvailable' must be <= 'replicas' in task: %s",
    about="a task can't need more pods than it has",
    is_final=True,
    cel=Cel(
        "!has(object.spec.tasks) || object.spec.tasks.all(t, !has(t.minAvailable) || "
        "t.minAvailable <= (has(t.replicas) ? t.replicas : 0))",
        "'minAvailable' must be <= 'replicas' in a task",
    ),
)
def task_min_available(change: JobChange) -> Faults:
    for task in change.new.spec.tasks:
        if task.min_available is not None and task.min_available > task.replicas:
            yield (task.name,)


@rule(
    "update-partition-replicas",
    says="'Replicas' are not equal to TotalPartitions*PartitionSize in task: %s, job: %s",
    about="a task with partitions can't be scaled past or below them",
    is_final=True,
)
def partition_replicas(change: JobChange) -> Faults:
    for task in change.new.spec.tasks:
        partitions = task.partition_policy
        if partitions is not None and (
            task.replicas != partitions.total_partitions * partitions.partition_size
        ):
            yield task.name, change.new.metadata.name


@rule(
    "update-partition-min-available",
    says="'MinAvailable' is not equal to MinPartitions*PartitionSize in task: %s, job: %s",
    about="a task that needs a number of partitions needs exactly their pods",
    is_final=True,
)
def partition_min_available(change: JobChange) -> Faults:
    for task in change.new.spec.tasks:
        partitions = task.partition_policy
        if (
            partitions is not None
            and task.min_available is not None
            and partitions.min_partitions > 0
            and task.min_available != partitions.min_partitions * partitions.partition_size
        ):
            yield task.name, change.new.metadata.name


@rule(
    "update-min-available",
    says="job 'minAvailable' must not be greater than total replicas",
    about="a job can't need more pods than its tasks have",
    is_final=True,
    cel=Cel(
        "!has(object.spec.minAvailable) || object.spec.minAvailable <= "
        "(has(object.spec.tasks) ? object.spec.tasks : [])"
        ".map(t, has(t.replicas) ? t.replicas : 0).sum()",
        "job 'minAvailable' must not be greater than total replicas",
    ),
)
def min_available(change: JobChange) -> Faults:
    if change.new.spec.min_available > sum(task.replicas for task in change.new.spec.tasks):
        yield ()


@rule(
    "update-min-available-negative",
    says="job 'minAvailable' must be >= 0",
    about="a job needs no negative number of pods",
    is_final=True,
)
def min_available_negative(change: JobChange) -> Faults:
    if change.new.spec.min_available < 0:
        yield ()


@rule(
    "update-network-tiers",
    says=BOTH_TIERS,
    about="the highest tier is given by number or by name",
    is_final=True,
)
def network_tiers(change: JobChange) -> Faults:
    if has_both_tiers(change.new.spec.network_topology):
        yield ()


@rule(
    "update-tasks",
    says="job updates may not add or remove tasks",
    about="the tasks of a job are fixed",
    is_final=True,
    cel=Cel(
        "size(has(object.spec.tasks) ? object.spec.tasks : []) == "
        "size(has(oldObject.spec.tasks) ? oldObject.spec.tasks : [])",
        "job updates may not add or remove tasks",
    ),
)
def same_tasks(change: JobChange) -> Faults:
    if len(change.old.spec.tasks) != len(change.new.spec.tasks):
        yield ()


@rule(
    "update-other-fields",
    says="job updates may not change fields other than `minAvailable`, "
    "`tasks[*].replicas under spec` and `PriorityClassName`",
    about="nothing else of the spec changes; `tasks[*].minAvailable` may, and the controller names "
    "the claims it makes",
    is_final=True,
)
def other_fields(change: JobChange) -> Faults:
    if _fixed_part(change.old.spec) != _fixed_part(change.new.spec):
        yield ()


UPDATE_RULES: Final[tuple[Rule[JobChange], ...]] = (
    replicas,
    task_min_available_negative,
    task_min_available,
    partition_replicas,
    partition_min_available,
    min_available,
    min_available_negative,
    network_tiers,
    same_tasks,
    other_fields,
    UPDATED_HOST_NAME_RULE,
)


def _fixed_part(spec: JobSpec) -> JobSpec:
    return replace(
        spec,
        min_available=0,
        priority_class_name="",
        tasks=tuple(replace(task, replicas=0, min_available=None) for task in spec.tasks),
        volumes=tuple(map(_unnamed, spec.volumes)),
    )


def _unnamed(volume: VolumeSpec) -> VolumeSpec:
    return replace(volume, volume_claim_name="") if volume.volume_claim is not None else volume
