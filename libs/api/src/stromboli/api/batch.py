"""batch.volcano.sh/v1alpha1: Job, tasks of pods that live and die by policies.

Pod templates and volume claims are carried whole, as the dictionaries they came as: the
controllers make pods and claims from them, so a field that this version does not know must
reach the API server all the same. `read_template` gives the typed view to decide by.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import field

from stromboli.api.fieldtypes import Int32, OpaqueObject, Shape, Timestamp, allowed, one_of
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import SUBDOMAIN, NetworkTopologySpec

__all__ = [
    "Action",
    "ClaimSpec",
    "DependsOn",
    "Job",
    "JobCondition",
    "JobEvent",
    "JobPhase",
    "JobSpec",
    "JobState",
    "JobStatus",
    "LifecyclePolicy",
    "NumaPolicy",
    "PartitionPolicy",
    "PodTemplate",
    "TaskSpec",
    "TaskState",
    "VolumeSpec",
]

PodTemplate: TypeAlias = OpaqueObject
"""A PodTemplateSpec, whole. `stromboli.api.wire.read_template` reads it."""

ClaimSpec: TypeAlias = OpaqueObject
"""A PersistentVolumeClaimSpec, whole."""


class JobEvent(StrEnum):
    """What a policy can wait for."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"
    JOB_UPDATED = "JobUpdated"
    TASK_FAILED = "TaskFailed"


class Action(StrEnum):
    """What a policy or a Command can ask for. The CRD leaves it open; admission does not."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    SYNC_JOB = "SyncJob"
    ENQUEUE_JOB = "EnqueueJob"
    SYNC_QUEUE = "SyncQueue"
    OPEN_QUEUE = "OpenQueue"
    CLOSE_QUEUE = "CloseQueue"


class JobPhase(StrEnum):
    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class NumaPolicy(StrEnum):
    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class LifecyclePolicy(Shape):
    """What to do when something happens: an event, one of several, or an exit code."""

    action: str = ""
    event: Annotated[str, one_of(JobEvent)] = ""
    events: tuple[Annotated[str, one_of(JobEvent)], ...] = ()
    exit_code: Int32 | None = None
    timeout: str | None = None


class DependsOn(Shape):
    """The tasks that must be ready before this one starts; `iteration` is any or all."""

    name: tuple[str, ...] = ()
    iteration: str = ""


class PartitionPolicy(Shape):
    """Divides a task into partitions of equal size, each placed as a unit."""

    total_partitions: Annotated[Int32, allowed(required=True, minimum=1)] = 0
    partition_size: Annotated[Int32, allowed(required=True, minimum=1)] = 0
    min_partitions: Annotated[Int32, allowed(default=0, minimum=0)] = 0
    network_topology: NetworkTopologySpec | None = None


class TaskSpec(Shape):
    """Equal pods, made from one template."""

    name: Annotated[str, allowed(maxLength=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")] = ""
    replicas: Annotated[Int32, allowed(minimum=0)] = 0
    min_available: Annotated[Int32 | None, allowed(minimum=0)] = None
    template: PodTemplate = field(default_factory=dict)
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: Annotated[str, one_of(NumaPolicy)] = ""
    max_retry: Annotated[Int32, allowed(minimum=0)] = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class VolumeSpec(Shape):
    """A volume that every container of the job mounts: an existing claim, or one to be made."""

    mount_path: Annotated[str, allowed(required=True, minLength=1, pattern="^[^:]+$")] = ""
    volume_claim_name: Annotated[str, allowed(maxLength=253)] = ""
    volume_claim: ClaimSpec | None = None


class JobSpec(Shape):
    """The tasks, how many of their pods must run together, and what happens when they do not."""

    scheduler_name: Annotated[str, allowed(maxLength=63)] = ""
    min_available: Annotated[Int32, allowed(minimum=0)] = 0
    min_success: Annotated[Int32 | None, allowed(minimum=1)] = None
    tasks: Annotated[tuple[TaskSpec, ...], allowed(minItems=1)] = ()
    volumes: tuple[VolumeSpec, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    queue: Annotated[str, allowed(default="default", maxLength=253, pattern=SUBDOMAIN)] = ""
    priority_class_name: Annotated[str, allowed(maxLength=253, pattern=SUBDOMAIN)] = ""
    max_retry: Annotated[Int32, allowed(default=3, minimum=0)] = 0
    ttl_seconds_after_finished: Annotated[Int32 | None, allowed(minimum=0)] = None
    running_estimate: str | None = None
    network_topology: NetworkTopologySpec | None = None


class JobState(Shape):
    phase: Annotated[str, one_of(JobPhase)] = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp = None


class JobCondition(Shape):
    """A phase the job has been in, and since when."""

    status: Annotated[str, one_of(JobPhase, required=True)] = ""
    last_transition_time: Timestamp = None


class TaskState(Shape):
    """How many pods of a task are in each pod phase."""

    phase: dict[str, Int32] = field(default_factory=dict)


class JobStatus(Shape):
    state: JobState = field(default_factory=JobState)
    min_available: Annotated[Int32, allowed(minimum=0)] = 0
    task_status_count: dict[str, TaskState] = field(default_factory=dict)
    pending: Annotated[Int32, allowed(minimum=0)] = 0
    running: Annotated[Int32, allowed(minimum=0)] = 0
    succeeded: Annotated[Int32, allowed(minimum=0)] = 0
    failed: Annotated[Int32, allowed(minimum=0)] = 0
    terminating: Annotated[Int32, allowed(minimum=0)] = 0
    unknown: Annotated[Int32, allowed(minimum=0)] = 0
    version: Annotated[Int32, allowed(minimum=0)] = 0
    retry_count: Annotated[Int32, allowed(minimum=0)] = 0
    running_duration: str | None = None
    controlled_resources: dict[str, str] = field(default_factory=dict)
    conditions: tuple[JobCondition, ...] = ()


class Job(KubeObject):
    """A batch job: tasks that run together, restart together and end together."""

    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)
