"""Which of a job's pods stay and which end, by what the decision wants.

Pure arithmetic on what is there: it does not matter which of the deletions that an earlier
decision wanted have been carried out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from stromboli.api.batch import Action, Job, TaskSpec
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.phases import Effect, Keep, What
from stromboli.lifecycle.policies import Happening
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.roster import WHOLE
from stromboli.lifecycle.triggers import is_renewed

__all__ = ["Hits", "Sorted", "missing_pods", "sort_pods", "target_of"]

Hits = Callable[[str, int], bool]
"""Is the pod of this task and index one that a restart of a part is about?"""


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    staying: tuple[Member, ...]
    to_delete: tuple[Member, ...]
    ending: int
    """Those to delete and those that are on their way already."""


def sort_pods(
    job: Job,
    members: Sequence[Member],
    effect: Effect,
    records: Records,
    *,
    keep: Keep,
    hits: Hits = lambda _task, _index: False,
) -> Sorted:
    """`keep` is what the last full kill spared; `hits` what a restart of a part is about."""
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    staying: list[Member] = []
    to_delete: list[Member] = []
    ending = 0
    for member in members:
        if member.is_terminating:
            ending += 1
        elif _stays(job, member, effect, keep, replicas.get(member.task, 0)) and not (
            is_renewed(member, records) or hits(member.task, member.index)
        ):
            staying.append(member)
        else:
            ending += 1
            to_delete.append(member)
    return Sorted(staying=tuple(staying), to_delete=tuple(to_delete), ending=ending)


def _stays(job: Job, member: Member, effect: Effect, keep: Keep, replicas: int) -> bool:
    spared = keep is Keep.FINISHED and member.is_finished
    if effect.what is What.KILL:
        return spared
    is_current = member.version >= job.status.version
    return member.index < replicas and (is_current or spared)


def target_of(job: Job, action: str, happening: Happening | None) -> Hits | None:
    """The pods that a restart of a part is about; None if it does not say which."""
    if happening is None or not happening.task:
        return None
    task, index = happening.task, happening.index
    if action == Action.RESTART_TASK:
        return lambda name, _: name == task
    if index == WHOLE:
        return None
    if action == Action.RESTART_POD:
        return lambda name, other: (name, other) == (task, index)
    size = _partition_size(job, task)
    if size <= 0:
        return None
    return lambda name, other: name == task and other // size == index // size


def _partition_size(job: Job, task_name: str) -> int:
    for task in job.spec.tasks:
        if task.name == task_name and task.partition_policy is not None:
            return task.partition_policy.partition_size
    return 0


def missing_pods(job: Job, members: Iterable[Member]) -> Iterator[tuple[TaskSpec, int]]:
    """The pods that should be there and are not; a name that is still taken is not missing."""
    found = list(members)
    taken = {(member.task, member.index) for member in found}
    for task in job.spec.tasks:
        if _may_start(job, task, found):
            for index in range(task.replicas):
                if (task.name, index) not in taken:
                    yield task, index


def _may_start(job: Job, task: TaskSpec, members: Sequence[Member]) -> bool:
    """Are the tasks ready that this one depends on?"""
    if task.depends_on is None or not task.depends_on.name:
        return True
    names = task.depends_on.name
    ready = [_is_ready(job, name, members) for name in names]
    return any(ready) if task.depends_on.iteration == "any" and len(names) > 1 else all(ready)


def _is_ready(job: Job, task_name: str, members: Sequence[Member]) -> bool:
    for task in job.spec.tasks:
        if task.name == task_name and task.min_available is not None:
            ready = sum(m.task == task_name and m.is_ready for m in members)
            return ready >= task.min_available
    return True
