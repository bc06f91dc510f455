"""Tasks that wait for others: when they may start, and when they never will.

A task is ready when as many of its pods as it needs are done or at work; one that needs none is
always ready. It is hopeless when so many of its pods failed that it can't become ready any
more, and then whatever waits for it never starts.
"""

from collections.abc import Mapping, Sequence

from stromboli.api.batch import Job, TaskSpec
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.records import Records

__all__ = ["may_start", "startable_at_first", "unstartable_pods"]


def may_start(job: Job, task: TaskSpec, members: Sequence[Member], records: Records) -> bool:
    """Are the tasks ready that this one depends on?"""
    names = _waits_for(task)
    if not names:
        return True
    return _holds(task, [_is_ready(job, name, members, records) for name in names])


def startable_at_first(job: Job) -> int:
    """The pods that can be made before any other pod of the job runs."""
    needs = {task.name: task.min_available or 0 for task in job.spec.tasks}
    return sum(
        task.replicas
        for task in job.spec.tasks
        if not _waits_for(task)
        or _holds(task, [needs.get(name, 0) == 0 for name in _waits_for(task)])
    )


def unstartable_pods(
    job: Job, members: Sequence[Member], records: Records
) -> Mapping[str, tuple[int, str]]:
    """Task → how many of its pods are missing and never start, and the task that failed."""
    if not any(_waits_for(task) for task in job.spec.tasks):
        return {}
    tasks = {task.name: task for task in job.spec.tasks}
    lost: dict[str, tuple[int, str]] = {}
    # A task that never starts makes those hopeless that wait for it, and so on.
    for _ in tasks:
        hopeless = {
            name for name, task in tasks.items() if _is_hopeless(task, members, records, lost)
        }
        found = {
            name: (missing, next(other for other in _waits_for(task) if other in hopeless))
            for name, task in tasks.items()
            if _is_barred(task, hopeless) and (missing := _missing(task, members, records))
        }
        if found == lost:
            break
        lost = found
    return lost


def _waits_for(task: TaskSpec) -> Sequence[str]:
    return task.depends_on.name if task.depends_on is not None else ()


def _holds(task: TaskSpec, parts: Sequence[bool]) -> bool:
    """All of them, or any where the task says so and there is a choice."""
    has_choice = (
        task.depends_on is not None and task.depends_on.iteration == "any" and len(parts) > 1
    )
    return any(parts) if has_choice else all(parts)


def _is_barred(task: TaskSpec, hopeless: set[str]) -> bool:
    names = _waits_for(task)
    return bool(names) and not _holds(task, [name not in hopeless for name in names])


def _is_ready(job: Job, task_name: str, members: Sequence[Member], records: Records) -> bool:
    for task in job.spec.tasks:
        if task.name == task_name and task.min_available is not None:
            return len(_ready(task_name, members, records)) >= task.min_available
    return True


def _ready(task: str, members: Sequence[Member], records: Records) -> set[int]:
    here = {member.index for member in members if member.task == task and member.is_ready}
    return here | records.succeeded.get(task, frozenset())


def _is_hopeless(
    task: TaskSpec,
    members: Sequence[Member],
    records: Records,
    lost: Mapping[str, tuple[int, str]],
) -> bool:
    failed = records.failed.get(task.name, frozenset()) | {
        member.index
        for member in members
        if member.task == task.name and member.phase == "Failed" and not member.is_terminating
    }
    failed = {index for index in failed if index < task.replicas}
    possible = task.replicas - len(failed) - lost.get(task.name, (0, ""))[0]
    return possible < (task.min_available or 0)


def _missing(task: TaskSpec, members: Sequence[Member], records: Records) -> int:
    there = {member.index for member in members if member.task == task.name}
    there |= records.ended(task.name)
    return task.replicas - sum(index < task.replicas for index in there)
