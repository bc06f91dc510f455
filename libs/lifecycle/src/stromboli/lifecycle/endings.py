"""Why a job failed, and why one that lives can't go on although nothing was refused.

What a job failed of stands in its state for good: it is what people look for first, and nothing
that happens to a job that is over replaces it.
"""

from collections.abc import Mapping
from typing import Final

from stromboli.api.batch import Job, JobPhase
from stromboli.api.task_order import startable_at_first
from stromboli.lifecycle.census import Census
from stromboli.lifecycle.phases import Rule, total_replicas
from stromboli.lifecycle.troubles import Trouble

__all__ = ["blocked", "ending_of", "lasting"]

_MAX_RETRY: Final = "MaxRetryReached"
_DEPENDENCY: Final = "DependencyFailed"
_TOO_FEW: Final = "TooFewSucceeded"
_ENDINGS: Final = frozenset({_MAX_RETRY, _DEPENDENCY, _TOO_FEW})

Unstartable = Mapping[str, tuple[int, str]]
"""Task → how many of its pods never start, and the task that failed."""


def ending_of(
    rule: Rule, job: Job, reached: JobPhase, census: Census, lost: Unstartable
) -> Trouble:
    """What the job fails of with this decision; false if it does not fail."""
    if reached is not JobPhase.FAILED or job.status.state.phase == JobPhase.FAILED:
        return Trouble()
    if rule is Rule.ONCE_RESTARTED:
        limit = job.spec.max_retry
        message = f"maxRetry reached: this was retry {limit} of {limit}"
        return Trouble(reason=_MAX_RETRY, message=message)
    if lost:
        return Trouble(reason=_DEPENDENCY, message=_never_start(lost))
    return Trouble(reason=_TOO_FEW, message=_too_few(job, census))


def lasting(job: Job, reached: JobPhase, ending: Trouble) -> Trouble:
    """What stands in the state of a failed job, whatever else is to be told."""
    state = job.status.state
    if ending or reached is not JobPhase.FAILED or state.reason not in _ENDINGS:
        return ending
    return Trouble(reason=state.reason, message=state.message)


def blocked(job: Job, phase: JobPhase, census: Census, lost: Unstartable) -> Trouble:
    """What keeps pods of a job from ever starting, though nobody refused anything."""
    if lost:
        return Trouble(reason=_DEPENDENCY, message=_never_start(lost))
    started = census.running + census.succeeded + census.failed
    if phase is not JobPhase.PENDING or started:
        return Trouble()
    first = startable_at_first(job.spec)
    if job.spec.min_available <= first or first == total_replicas(job):
        return Trouble()
    return Trouble(
        reason="DependencyBlocked",
        message=f"minAvailable is {job.spec.min_available}, but of the pods only {first} can start "
        f"before the tasks that depend on others: set spec.minAvailable to at most {first}",
    )


def _never_start(lost: Unstartable) -> str:
    task, (number, failed) = min(lost.items())
    pods = "a pod" if number == 1 else f"{number} pods"
    return f"{pods} of task {task} can't start: task {failed}, which it depends on, failed"


def _too_few(job: Job, census: Census) -> str:
    needed = f"minAvailable is {job.spec.min_available}"
    if job.spec.min_success is not None:
        needed = f"minSuccess is {job.spec.min_success}"
    short = [
        f"task {task.name} needs {task.min_available}"
        for task in job.spec.tasks
        if task.min_available is not None
        and census.tasks.get(task.name, {}).get("Succeeded", 0) < task.min_available
    ]
    wanted = ", ".join([needed, *short[:1]])
    total = total_replicas(job)
    return f"{census.failed} of {total} pods failed, {census.succeeded} succeeded; {wanted}"
