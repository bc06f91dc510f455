"""Which of a job's pods stay and which end, by what the decision wants.

Pure arithmetic on what is there: it does not matter which of the deletions that an earlier
decision wanted have been carried out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from stromboli.api.batch import Action, Job, TaskSpec
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.dependencies import may_start
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
    spared = _is_spared(member, keep)
    if effect.what is What.KILL:
        return spared
    is_current = member.version >= job.status.version
    return member.index < replicas and (is_current or spared)


def _is_spared(member: Member, keep: Keep) -> bool:
    if keep is Keep.SUCCEEDED:
        return member.phase == "Succeeded"
    return keep is Keep.FINISHED and member.is_finished


def target_of(job: Job, action: str, causes: Iterable[Happening]) -> Hits | None:
    """The pods that a restart of a part is about; None if nothing says which."""
    places = {(cause.task, cause.index) for cause in causes if cause.task}
    if action == Action.RESTART_TASK:
        tasks = {task for task, _ in places}
        return (lambda name, _: name in tasks) if tasks else None
    places = {place for place in places if place[1] != WHOLE}
    if action == Action.RESTART_POD:
        return (lambda name, index: (name, index) in places) if places else None
    sizes = {
        task.name: task.partition_policy.partition_size
        for task in job.spec.tasks
        if task.partition_policy is not None and task.partition_policy.partition_size > 0
    }
    parts = {(task, index // sizes[task]) for task, index in places if task in sizes}
    return (lambda name, i: (name, i // sizes.get(name, 1)) in parts) if parts else None


def missing_pods(
    job: Job, members: Iterable[Member], records: Records
) -> Iterator[tuple[TaskSpec, int]]:
    """The pods that should be there and are not.

    A name that is still taken is not missing, nor is a pod that ended and was cleared away.
    """
    found = list(members)
    taken = {(member.task, member.index) for member in found}
    for task in job.spec.tasks:
        ended = records.ended(task.name)
        if may_start(job, task, found, records):
            for index in range(task.replicas):
                if index not in ended and (task.name, index) not in taken:
                    yield task, index
