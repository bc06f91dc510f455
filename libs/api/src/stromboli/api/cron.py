"""batch.volcano.sh/v1alpha1: CronJob, a Job that is made again and again by a schedule."""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from stromboli.api.batch import JobSpec
from stromboli.api.core.events import ObjectReference
from stromboli.api.fieldtypes import ATOMIC_LIST, Int32, Int64, Shape, Timestamp, allowed, one_of
from stromboli.api.meta import KubeObject

__all__ = [
    "ConcurrencyPolicy",
    "CronJob",
    "CronJobSpec",
    "CronJobStatus",
    "JobTemplateSpec",
    "TemplateMeta",
]


class ConcurrencyPolicy(StrEnum):
    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class TemplateMeta(Shape):
    """What every job that is made carries besides its name."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class JobTemplateSpec(Shape):
    metadata: TemplateMeta = field(default_factory=TemplateMeta)
    spec: JobSpec = field(default_factory=JobSpec)


class CronJobSpec(Shape):
    """When a job is to be made, from what, and what happens to those before it."""

    schedule: Annotated[str, allowed(required=True)] = ""
    time_zone: str | None = None
    starting_deadline_seconds: Annotated[Int64 | None, allowed(minimum=0)] = None
    concurrency_policy: Annotated[str, one_of(ConcurrencyPolicy, default="Allow")] = ""
    suspend: Annotated[bool | None, allowed(default=False)] = None
    job_template: Annotated[JobTemplateSpec, allowed(required=True)] = field(
        default_factory=JobTemplateSpec
    )
    successful_jobs_history_limit: Annotated[Int32 | None, allowed(minimum=0, default=3)] = None
    failed_jobs_history_limit: Annotated[Int32 | None, allowed(minimum=0, default=1)] = None


class CronJobStatus(Shape):
    active: Annotated[tuple[ObjectReference, ...], ATOMIC_LIST] = ()
    last_schedule_time: Timestamp = None
    last_successful_time: Timestamp = None


class CronJob(KubeObject):
    """Makes a Job at every time that its schedule names."""

    spec: CronJobSpec = field(default_factory=CronJobSpec)
    status: CronJobStatus = field(default_factory=CronJobStatus)
