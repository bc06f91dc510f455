"""Partitions of a task, and how close together in the network its pods must be."""

from typing import Final

from stromboli.admitting.jobs.cases import JobCase, TaskCase
from stromboli.admitting.rules import Cel, Faults, Rule, rule
from stromboli.api.scheduling import NetworkTopologySpec

__all__ = ["PARTITION_RULES", "has_both_tiers", "job_tiers"]

BOTH_TIERS: Final = (
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
)


def both_tiers_cel(topology: str) -> str:
    """The rule about one networkTopology, in CEL; absent is in order."""
    return (
        f"!(has({topology}.highestTierAllowed) && has({topology}.highestTierName) && "
        f'{topology}.highestTierName != "")'
    )


def has_both_tiers(topology: NetworkTopologySpec | None) -> bool:
    return (
        topology is not None
        and topology.highest_tier_allowed is not None
        and topology.highest_tier_name != ""
    )


@rule(
    "job-network-tiers",
    says=BOTH_TIERS,
    about="the highest tier is given by number or by name",
    cel=Cel(
        f"!has(object.spec.networkTopology) || {both_tiers_cel('object.spec.networkTopology')}",
        BOTH_TIERS,
    ),
)
def job_tiers(case: JobCase) -> Faults:
    if has_both_tiers(case.job.spec.network_topology):
        yield ()


@rule(
    "task-network-tiers",
    says=BOTH_TIERS,
    about="in a `partitionPolicy`, too, the highest tier is given by number or by name",
    cel=Cel(
        "!has(object.spec.tasks) || object.spec.tasks.all(t, !has(t.partitionPolicy) || "
        "!has(t.partitionPolicy.networkTopology) || "
        f"{both_tiers_cel('t.partitionPolicy.networkTopology')})",
        BOTH_TIERS,
    ),
)
def task_tiers(case: TaskCase) -> Faults:
    partitions = case.task.partition_policy
    if partitions is not None and has_both_tiers(partitions.network_topology):
        yield ()


@rule(
    "partition-total",
    says="'TotalPartitions' must be greater than 0 in task: %s, job: %s",
    about="a task with a `partitionPolicy` has partitions",
)
def partition_total(case: TaskCase) -> Faults:
    partitions = case.task.partition_policy
    if partitions is not None and partitions.total_partitions <= 0:
        yield case.task.name, case.job.name


@rule(
    "partition-size",
    says="'PartitionSize' must be greater than 0 in task: %s, job: %s",
    about="a partition has pods",
)
def partition_size(case: TaskCase) -> Faults:
    partitions = case.task.partition_policy
    if partitions is not None and partitions.partition_size <= 0:
        yield case.task.name, case.job.name


@rule(
    "partition-replicas",
    says="'Replicas' are not equal to TotalPartitions*PartitionSize in task: %s, job: %s",
    about="the partitions of a task hold its pods, no more and no less",
    cel=Cel(
        "!has(object.spec.tasks) || object.spec.tasks.all(t, !has(t.partitionPolicy) || "
        "(has(t.replicas) ? t.replicas : 0) == "
        "t.partitionPolicy.totalPartitions * t.partitionPolicy.partitionSize)",
        "'Replicas' are not equal to TotalPartitions*PartitionSize",
    ),
)
def partition_replicas(case: TaskCase) -> Faults:
    partitions = case.task.partition_policy
    if partitions is not None and (
        case.task.replicas != partitions.total_partitions * partitions.partition_size
    ):
        yield case.task.name, case.job.name


@rule(
    "partition-min-available",
    says="'MinAvailable' is not equal to MinPartitions*PartitionSize in task: %s, job: %s",
    about="a task that needs a number of partitions needs exactly their pods",
)
def partition_min_available(case: TaskCase) -> Faults:
    partitions, needed = case.task.partition_policy, case.task.min_available
    if (
        partitions is not None
        and needed is not None
        and partitions.min_partitions > 0
        and needed != partitions.min_partitions * partitions.partition_size
    ):
        yield case.task.name, case.job.name


PARTITION_RULES: Final[tuple[Rule[TaskCase], ...]] = (
    task_tiers,
    partition_total,
    partition_size,
    partition_replicas,
    partition_min_available,
)
