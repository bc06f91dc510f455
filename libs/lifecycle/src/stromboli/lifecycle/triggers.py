"""What has happened to a job's pods that a policy may answer.

Found by comparing what is there with what the status records, never by listening to changes:
a core that starts in the middle finds the same. Only pods of the job's present version count;
those of an earlier one ended, or will end, by our own doing, and so does a pod that goes and
that nobody will miss.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from stromboli.api.batch import Job, JobEvent, JobPhase, TaskSpec
from stromboli.api.errors import TimestampError
from stromboli.api.scheduling import PodGroup, PodGroupPhase
from stromboli.api.timestamps import parse_time
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.policies import Happening, answer_to
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.roster import WHOLE

__all__ = [
    "evicted",
    "happenings",
    "is_going_by_our_doing",
    "is_renewed",
    "leaving",
    "news_of",
]

_DEFAULT_MAX_RETRY: Final = 3
"""Of a task that does not say how often its containers may be started again."""
_HAS_RUN: Final = ("Running", "Succeeded")


def happenings(
    job: Job,
    phase: JobPhase,
    members: Sequence[Member],
    records: Records,
    *,
    missing: Mapping[str, frozenset[int]],
    vanished: Iterable[Member] = (),
    group: PodGroup | None,
) -> Iterator[Happening]:
    """Completions first: work that is done must not be started again because of a failure.

    A pod that ended and was cleared away before anybody looked (it is in `vanished`) has ended.
    """
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    ours = [m for m in members if m.index < replicas.get(m.task, 0)]
    ours += (m for m in news_of(vanished, records) if m.index < replicas.get(m.task, 0))
    current = [
        m
        for m in ours
        if m.version == job.status.version
        and not is_renewed(m, records)
        and not is_going_by_our_doing(m, records)
    ]
    # A job that restarts can't be completed: it is when it is Pending again.
    if phase is not JobPhase.RESTARTING:
        yield from _completed_tasks(job, ours, current, records)
    for member in current:
        if member.phase == "Failed":
            yield Happening(
                event=JobEvent.POD_FAILED,
                task=member.task,
                index=member.index,
                exit_code=member.exit_code,
            )
    yield from _remembered_failures(current, records)
    for task, indexes in sorted(missing.items()):
        for index in sorted(indexes):
            yield Happening(event=JobEvent.POD_EVICTED, task=task, index=index)
    yield from _failed_tasks(job, current)
    if group is not None and group.status.phase == PodGroupPhase.UNKNOWN:
        yield Happening(event=JobEvent.UNKNOWN)
    if _is_updated(job, records):
        yield Happening(event=JobEvent.JOB_UPDATED)
    yield from _pending_pods(job, current)


def news_of(vanished: Iterable[Member], records: Records) -> Iterator[Member]:
    """Those that ended by themselves before they vanished, where nothing tells so yet."""
    for member in vanished:
        if member.ended_by_itself and member.index not in records.ended(member.task):
            yield member


def leaving(job: Job, action: str, members: Iterable[Member], records: Records) -> list[Happening]:
    """Evictions that are under way, where a policy will answer them with this action at once.

    What restarts a part now restarts these with it, so that they are not one more retry when
    their grace is over.
    """
    answer = {task.name: answer_to(job, _eviction(task.name)) for task in job.spec.tasks}
    return [
        _eviction(member.task, member.index)
        for member in members
        if member.is_terminating
        and member.version == job.status.version
        and member.index in records.pods.get(member.task, ())
        and member.index not in records.ended(member.task)
        and (policy := answer.get(member.task)) is not None
        and (policy.action, policy.timeout) == (action, None)
    ]


def _eviction(task: str, index: int = WHOLE) -> Happening:
    return Happening(event=JobEvent.POD_EVICTED, task=task, index=index)


def is_renewed(member: Member, records: Records) -> bool:
    """Has a restart of a part put another pod in its place, or will so?"""
    if not records.renewed:
        return False
    return member.retry < records.renewed.get(member.task, {}).get(member.index, 0)


def is_going_by_our_doing(member: Member, records: Records) -> bool:
    """We delete a pod only after we have struck it off the list of those to be missed."""
    return member.is_terminating and member.index not in records.pods.get(member.task, ())


def evicted(
    job: Job,
    members: Iterable[Member],
    records: Records,
    vanished: Sequence[Member],
) -> dict[str, frozenset[int]]:
    """Task → indexes of pods that are gone, not by our doing, and not because they ended.

    `vanished` are pods that were seen to go: of those that came and went before the status could
    record them, nothing else tells. A pod that was evicted a while ago still counts if a policy
    waits for its successor to run and it does not.
    """
    found = list(members)
    here = {(member.task, member.index) for member in found}
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    seen_to_go = {
        (m.task, m.index)
        for m in vanished
        if m.version == job.status.version and m.index not in records.renewed.get(m.task, ())
    }
    cleared = {(m.task, m.index) for m in vanished if m.ended_by_itself}
    recorded = {(task, index) for task, indexes in records.pods.items() for index in indexes}
    gone = (recorded | seen_to_go) - here
    gone |= _waited_for(records) - {(m.task, m.index) for m in found if m.phase in _HAS_RUN}
    missing: dict[str, set[int]] = {}
    for task, index in gone:
        # A pod beyond the replicas is not missed: we deleted it, or would have.
        if index < replicas.get(task, 0) and not (
            (task, index) in cleared or index in records.ended(task)
        ):
            missing.setdefault(task, set()).add(index)
    return {task: frozenset(indexes) for task, indexes in missing.items()}


def _waited_for(records: Records) -> set[tuple[str, int]]:
    return {
        (task, index)
        for (event, task), since in records.delayed.items()
        if event == JobEvent.POD_EVICTED
        for index in since
    }


def _completed_tasks(
    job: Job, ours: Sequence[Member], current: Sequence[Member], records: Records
) -> Iterator[Happening]:
    done: dict[str, set[int]] = {}
    for member in ours:
        if member.phase == "Succeeded":
            done.setdefault(member.task, set()).add(member.index)
    news = {member.task for member in current if member.phase == "Succeeded"}
    for task in job.spec.tasks:
        if task.name not in news:
            continue
        before = {i for i in records.succeeded.get(task.name, ()) if i < task.replicas}
        if len(done[task.name] | before) >= task.replicas > 0:
            yield Happening(event=JobEvent.TASK_COMPLETED, task=task.name)


def _remembered_failures(current: Sequence[Member], records: Records) -> Iterator[Happening]:
    """Failures that a policy answers after a while, of pods that were cleared away meanwhile."""
    here = {(member.task, member.index) for member in current}
    for (event, task), since in sorted(records.delayed.items()):
        if event == JobEvent.POD_FAILED:
            for index in sorted(since.keys() & records.failed.get(task, frozenset())):
                if (task, index) not in here:
                    yield Happening(event=JobEvent.POD_FAILED, task=task, index=index)


def _failed_tasks(job: Job, current: Sequence[Member]) -> Iterator[Happening]:
    """Tasks whose containers were started again too often; their worst pod stands for them."""
    for task in _answering(job, JobEvent.TASK_FAILED):
        restarts: dict[int, int] = {}
        for member in current:
            if member.task == task.name and member.phase in ("Running", "Pending"):
                restarts[member.index] = member.restarts
        allowed = task.max_retry or _DEFAULT_MAX_RETRY
        if restarts and allowed >= 0 and sum(restarts.values()) >= allowed:
            worst = max(restarts, key=lambda index: (restarts[index], -index))
            yield Happening(event=JobEvent.TASK_FAILED, task=task.name, index=worst)


def _answering(job: Job, event: JobEvent) -> list[TaskSpec]:
    """The tasks for which a policy answers it: to look at thousands of pods takes its time."""
    return [
        task
        for task in job.spec.tasks
        if answer_to(job, Happening(event=event, task=task.name)) is not None
    ]


def _is_updated(job: Job, records: Records) -> bool:
    """Has the spec changed since a policy was last asked about it, or does one still wait?"""
    waits = (JobEvent.JOB_UPDATED.value, "") in records.delayed
    return waits or 0 < records.generation < job.metadata.generation


def _pending_pods(job: Job, current: Sequence[Member]) -> Iterator[Happening]:
    """From when on a pod waits it tells itself, so that this needs no record."""
    impatient = {task.name for task in _answering(job, JobEvent.POD_PENDING)}
    for member in current:
        if member.phase == "Pending" and member.task in impatient:
            yield Happening(
                event=JobEvent.POD_PENDING,
                task=member.task,
                index=member.index,
                since=_created(member),
            )


def _created(member: Member) -> float | None:
    text = member.pod.metadata.creation_timestamp
    try:
        return parse_time(text).timestamp() if text else None
    except TimestampError:
        return None
