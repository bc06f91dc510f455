"""What counts as one retry: pods that are lost together are restarted together.

A node that is drained takes its pods one by one, and each of them may raise an event of its own.
A restart of a part is no further retry while the pods of the last one do not run yet, as long as
it comes soon after it and restarts none of them: a pod that fails again and again still counts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from stromboli.api.batch import Job, JobPhase
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.moments import as_unix
from stromboli.lifecycle.policies import Happening
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.roster import WHOLE

__all__ = ["TOGETHER_S", "is_one_more_retry", "restarted_after"]

TOGETHER_S: Final = 60.0
"""Pods that are lost later than this after a restart are not lost together with its pods."""

_HAS_RUN: Final = ("Running", "Succeeded")


def is_one_more_retry(
    job: Job,
    causes: Iterable[Happening],
    members: Sequence[Member],
    records: Records,
    *,
    hits: Callable[[str, int], bool],
    now: float,
) -> bool:
    """Whether a restart of the pods that `hits` names counts, or belongs to the retry before."""
    last = _last_restart(job)
    if last is None or now - last > TOGETHER_S or not _is_under_way(job, members, records):
        return True
    if any(_was_restarted(cause, records) for cause in causes):
        return True
    return any(
        member.retry >= job.status.retry_count and hits(member.task, member.index)
        for member in members
        if not member.is_terminating
    )


def restarted_after(
    before: dict[str, frozenset[int]],
    lost: Iterable[tuple[str, int]],
    members: Iterable[Member],
    *,
    hits: Callable[[str, int], bool],
) -> dict[str, frozenset[int]]:
    """`before` with the pods that this decision restarts, be they there or lost."""
    found = {task: set(indexes) for task, indexes in before.items()}
    for task, index in (*lost, *((member.task, member.index) for member in members)):
        if hits(task, index):
            found.setdefault(task, set()).add(index)
    return {task: frozenset(indexes) for task, indexes in found.items()}


def _is_under_way(job: Job, members: Sequence[Member], records: Records) -> bool:
    """Do some of the pods that the last retry has restarted not run yet?"""
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    runs = {(m.task, m.index) for m in members if m.phase in _HAS_RUN and not m.is_terminating}
    return any(
        index < replicas.get(task, 0)
        and (task, index) not in runs
        and index not in records.ended(task)
        for task, indexes in records.restarted.items()
        for index in indexes
    )


def _was_restarted(cause: Happening, records: Records) -> bool:
    restarted = records.restarted.get(cause.task, frozenset())
    return bool(restarted) if cause.index == WHOLE else cause.index in restarted


def _last_restart(job: Job) -> float | None:
    conditions = job.status.conditions
    times = [c.last_transition_time for c in conditions if c.status == JobPhase.RESTARTING]
    return as_unix(times[-1]) if times else None
