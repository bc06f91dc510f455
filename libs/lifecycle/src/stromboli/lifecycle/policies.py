"""Which action a policy asks for when something happens to a pod or a task.

The policies of the task come before those of the job, each in the order they were written,
and the first that matches decides. Without a match there is nothing to do but to keep the
job as it should be.
"""

from collections.abc import Iterator

import msgspec

from stromboli.api.batch import Action, Job, JobEvent, LifecyclePolicy

__all__ = ["Happening", "action_for"]


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened and that a policy may answer."""

    event: JobEvent
    task: str = ""
    index: int = -1
    exit_code: int = 0

    @property
    def words(self) -> str:
        where = f" of {self.task}" if self.task else ""
        which = f" {self.index}" if self.index >= 0 else ""
        code = f", exit code {self.exit_code}" if self.exit_code else ""
        return f"{self.event}{where}{which}{code}"


def action_for(job: Job, happening: Happening) -> str:
    """The action of the first policy that matches; SyncJob if none does."""
    for policy in _policies(job, happening.task):
        if _matches(policy, happening):
            return policy.action
    return Action.SYNC_JOB


def _policies(job: Job, task_name: str) -> Iterator[LifecyclePolicy]:
    for task in job.spec.tasks:
        if task.name == task_name:
            yield from task.policies
    yield from job.spec.policies


def _matches(policy: LifecyclePolicy, happening: Happening) -> bool:
    events = {policy.event, *policy.events} - {""}
    # A pod is always pending at first, so only for too long a time is that an event.
    if happening.event is JobEvent.POD_PENDING and policy.timeout is None:
        return False
    if happening.event in events or JobEvent.ANY in events:
        return True
    return policy.exit_code is not None and policy.exit_code == happening.exit_code
