"""Tasks that wait for others: when they may start, and when they never will.

A task is ready when as many of its pods as it needs are done or at work; one that needs none is
always ready. It is hopeless when so many of its pods failed that it can't become ready any
more, and then whatever waits for it never starts.
"""

from collections.abc import Mapping, Sequence

from stromboli.api.batch import Job, TaskSpec
from stromboli.api.task_order import may_start_when, waits_for
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.records import Records

__all__ = ["may_start", "unstartable_pods"]


def may_start(job: Job, task: TaskSpec, members: Sequence[Member], records: Records) -> bool:
    """Are the tasks ready that this one depends on?"""
    return may_start_when(task, lambda name: _is_ready(job, name, members, records))


def unstartable_pods(
    job: Job, members: Sequence[Member], records: Records
) -> Mapping[str, tuple[int, str]]:
    """Task → how many of its pods are missing and never start, and the task that failed."""
    if not any(waits_for(task) for task in job.spec.tasks):
        return {}
    tasks = {task.name: task for task in job.spec.tasks}
    lost: dict[str, tuple[int, str]] = {}
    # A task that never starts makes those hopeless that wait for it, and so on.
    for _ in tasks:
        hopeless = {
            name for name, task in tasks.items() if _is_hopeless(task, members, records, lost)
        }
        found = {
            name: (missing, next(other for other in waits_for(task) if other in hopeless))
            for name, task in tasks.items()
            if _is_barred(task, hopeless) and (missing := _missing(task, members, records))
        }
        if found == lost:
            break
        lost = found
    return lost


def _is_barred(task: TaskSpec, hopeless: set[str]) -> bool:
    return not may_start_when(task, lambda name: name not in hopeless)


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
