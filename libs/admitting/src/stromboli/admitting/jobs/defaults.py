"""What a job is given where its author said nothing.

Volcano replaces the whole list of tasks; here each field is set by an operation of its own, so
the patch is small and nothing that a newer API server knows is dropped.
"""

from typing import Final

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.patching import Patch
from stromboli.admitting.questions import Json
from stromboli.admitting.rules import Default, default
from stromboli.api.batch import Job, TaskSpec
from stromboli.api.wellknown import DEFAULT_QUEUE, SCHEDULER_NAME

__all__ = ["DEFAULTS", "JobDraft"]

_MAX_RETRY: Final = 3
_MAX_INT32: Final = 2**31 - 1
_NEEDS_SVC: Final = ("tensorflow", "mpi", "pytorch", "ray")


class JobDraft:
    """A job that is about to be created."""

    __slots__ = ("conf", "job")

    def __init__(self, job: Job, conf: AdmissionConf) -> None:
        self.job: Final = job
        self.conf: Final = conf


@default("job-queue", about="`spec.queue` is `default`")
def queue(draft: JobDraft, patch: Patch) -> None:
    if not draft.job.spec.queue:
        patch.set("spec", "queue", value=DEFAULT_QUEUE)


@default(
    "job-scheduler", about="`spec.schedulerName` is the first of `--scheduler-name` (`volcano`)"
)
def scheduler(draft: JobDraft, patch: Patch) -> None:
    if not draft.job.spec.scheduler_name:
        names = draft.conf.scheduler_names
        patch.set("spec", "schedulerName", value=names[0] if names else SCHEDULER_NAME)


@default("job-max-retry", about="`spec.maxRetry` is 3")
def max_retry(draft: JobDraft, patch: Patch) -> None:
    if not draft.job.spec.max_retry:
        patch.set("spec", "maxRetry", value=_MAX_RETRY)


@default("task-name", about="a task without a name is `default` and its index")
def task_name(draft: JobDraft, patch: Patch) -> None:
    for index, task in enumerate(draft.job.spec.tasks):
        if not task.name:
            patch.set("spec", "tasks", index, "name", value=f"default{index}")


@default(
    "task-dns-policy",
    about="`dnsPolicy` is `ClusterFirstWithHostNet` in a template with `hostNetwork`",
)
def task_dns_policy(draft: JobDraft, patch: Patch) -> None:
    for index, task in enumerate(draft.job.spec.tasks):
        spec: Json = task.template.get("spec")
        if isinstance(spec, dict) and spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
            place = ("spec", "tasks", index, "template", "spec", "dnsPolicy")
            patch.set(*place, value="ClusterFirstWithHostNet")


@default(
    "task-min-available",
    about="`minAvailable` of a task is `minPartitions * partitionSize` if it has partitions "
    "and needs a number of them, and `replicas` otherwise",
)
def task_min_available(draft: JobDraft, patch: Patch) -> None:
    for index, task in enumerate(draft.job.spec.tasks):
        if task.min_available is None:
            patch.set("spec", "tasks", index, "minAvailable", value=_needed(task))


@default("task-max-retry", about="`maxRetry` of a task is 3")
def task_max_retry(draft: JobDraft, patch: Patch) -> None:
    for index, task in enumerate(draft.job.spec.tasks):
        if not task.max_retry:
            patch.set("spec", "tasks", index, "maxRetry", value=_MAX_RETRY)


@default(
    "job-min-available", about="`spec.minAvailable` is the sum of what the tasks need, if it is 0"
)
def min_available(draft: JobDraft, patch: Patch) -> None:
    if draft.job.spec.min_available:
        return
    total = sum(
        task.min_available if task.min_available is not None else _needed(task)
        for task in draft.job.spec.tasks
    )
    if total:
        patch.set("spec", "minAvailable", value=_int32(total))


@default(
    "job-plugins",
    about="the plugins tensorflow, mpi, pytorch and ray bring `svc: []` along, mpi `ssh: []` too",
)
def plugins(draft: JobDraft, patch: Patch) -> None:
    asked = draft.job.spec.plugins
    if "svc" not in asked and any(name in asked for name in _NEEDS_SVC):
        patch.set("spec", "plugins", "svc", value=[])
    if "ssh" not in asked and "mpi" in asked:
        patch.set("spec", "plugins", "ssh", value=[])


DEFAULTS: Final[tuple[Default[JobDraft], ...]] = (
    queue,
    scheduler,
    max_retry,
    task_name,
    task_dns_policy,
    task_min_available,
    task_max_retry,
    min_available,
    plugins,
)


def _needed(task: TaskSpec) -> int:
    partitions = task.partition_policy
    if partitions is not None and partitions.min_partitions > 0:
        return _int32(partitions.min_partitions * partitions.partition_size)
    return task.replicas


def _int32(number: int) -> int:
    return max(-_MAX_INT32 - 1, min(_MAX_INT32, number))
