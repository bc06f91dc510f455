"""Which action a policy asks for when something happens, and how long it waits with it.

The policies of the task come before those of the job, each in the order they were written,
and the first that matches decides. Without a match there is nothing to do but to keep the
job as it should be.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from stromboli.api.batch import Action, Job, JobEvent, LifecyclePolicy
from stromboli.api.durations import SECOND, parse_duration
from stromboli.api.errors import DurationError
from stromboli.lifecycle.roster import WHOLE

__all__ = ["NEVER_ANSWERED", "Answer", "Happening", "answer_to", "unreadable_timeouts"]

NEVER_ANSWERED: Final = frozenset(
    {JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED, JobEvent.POD_RUNNING}
)
"""These bring the job up to date and nothing else, whatever a policy says."""

_ONLY_BY_NAME: Final = frozenset({JobEvent.JOB_UPDATED})
"""Not meant by `*`: Volcano never raises it, so a job that says `*` does not expect it."""

_OF_A_POD: Final = frozenset({JobEvent.POD_PENDING, JobEvent.POD_FAILED, JobEvent.POD_EVICTED})


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened and that a policy may answer."""

    event: JobEvent
    task: str = ""
    index: int = WHOLE
    exit_code: int = 0
    since: float | None = None
    """When, if the pod itself says so."""

    @property
    def slot(self) -> int:
        """What its delay is kept under: the pod, or the task or job as a whole."""
        return self.index if self.event in _OF_A_POD else WHOLE

    @property
    def words(self) -> str:
        where = f" of {self.task}" if self.task else ""
        which = f" {self.index}" if self.index >= 0 else ""
        code = f", exit code {self.exit_code}" if self.exit_code else ""
        return f"{self.event}{where}{which}{code}"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy wants done, and after how long."""

    action: str
    timeout: str | None = None

    @property
    def delay_s(self) -> float:
        return parse_duration(self.timeout) / SECOND if self.timeout else 0.0


def answer_to(job: Job, happening: Happening) -> Answer | None:
    """Of the first policy that matches; None if there is nothing to do but to sync."""
    if happening.event in NEVER_ANSWERED:
        return None
    for policy in _policies(job, happening.task):
        if _matches(policy, happening):
            if policy.action in ("", Action.SYNC_JOB):
                return None
            return Answer(action=policy.action, timeout=policy.timeout)
    return None


def unreadable_timeouts(job: Job) -> list[str]:
    """Of policies that nobody can carry out; admission refuses them, but may have been away."""
    return sorted(
        {
            policy.timeout
            for policy in (*job.spec.policies, *(p for t in job.spec.tasks for p in t.policies))
            if policy.timeout is not None and not _is_readable(policy.timeout)
        }
    )


def _policies(job: Job, task_name: str) -> Iterator[LifecyclePolicy]:
    for task in job.spec.tasks:
        if task.name == task_name:
            yield from task.policies
    yield from job.spec.policies


def _matches(policy: LifecyclePolicy, happening: Happening) -> bool:
    if policy.timeout is not None and not _is_readable(policy.timeout):
        return False
    events = {policy.event, *policy.events} - {""}
    # A pod is always pending at first, so only for too long a time is that an event.
    if happening.event is JobEvent.POD_PENDING and policy.timeout is None:
        return False
    if happening.event in events:
        return True
    if JobEvent.ANY in events and happening.event not in _ONLY_BY_NAME:
        return True
    return policy.exit_code is not None and policy.exit_code == happening.exit_code


def _is_readable(timeout: str) -> bool:
    try:
        parse_duration(timeout)
    except DurationError:
        return False
    return True
