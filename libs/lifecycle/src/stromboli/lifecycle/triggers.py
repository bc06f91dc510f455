"""What has happened to a job's pods that a policy may answer.

Found by comparing what is there with what the status records, never by listening to changes:
a core that starts in the middle finds the same. Only pods of the job's present version count;
those of an earlier one ended, or will end, by our own doing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stromboli.api.batch import Action, Job, JobEvent
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.policies import Happening, action_for
from stromboli.lifecycle.records import Records

__all__ = ["evicted", "happenings", "trigger"]


def trigger(job: Job, happened: Iterable[Happening]) -> tuple[str, Happening | None]:
    """The first action that a policy asks for, and why; SyncJob if none does."""
    for happening in happened:
        action = action_for(job, happening)
        if action != Action.SYNC_JOB:
            return action, happening
    return Action.SYNC_JOB, None


def happenings(
    job: Job, members: Sequence[Member], missing: Mapping[str, frozenset[int]]
) -> Iterator[Happening]:
    """Completions first: work that is done must not be started again because of a failure."""
    yield from _completed_tasks(job, members)
    for member in members:
        if member.version == job.status.version and member.phase == "Failed":
            yield Happening(
                event=JobEvent.POD_FAILED,
                task=member.task,
                index=member.index,
                exit_code=member.exit_code,
            )
    for task, indexes in sorted(missing.items()):
        for index in sorted(indexes):
            yield Happening(event=JobEvent.POD_EVICTED, task=task, index=index)


def evicted(
    job: Job,
    members: Iterable[Member],
    records: Records,
    vanished: Iterable[tuple[str, int, int]],
) -> dict[str, frozenset[int]]:
    """Task → indexes of pods that are gone, and not by our doing.

    `vanished` are (task, index, version) of pods that were seen to go: of those that came and
    went before the status could record them, nothing else tells.
    """
    here = {(member.task, member.index) for member in members}
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    seen_to_go = {(t, i) for t, i, version in vanished if version == job.status.version}
    recorded = {(task, index) for task, indexes in records.pods.items() for index in indexes}
    missing: dict[str, set[int]] = {}
    for task, index in (recorded | seen_to_go) - here:
        # A pod beyond the replicas is not missed: we deleted it, or would have.
        if index < replicas.get(task, 0):
            missing.setdefault(task, set()).add(index)
    return {task: frozenset(indexes) for task, indexes in missing.items()}


def _completed_tasks(job: Job, members: Sequence[Member]) -> Iterator[Happening]:
    for task in job.spec.tasks:
        done = [
            member
            for member in members
            if member.task == task.name
            and member.index < task.replicas
            and member.phase == "Succeeded"
        ]
        is_news = any(member.version == job.status.version for member in done)
        if is_news and len(done) >= task.replicas > 0:
            yield Happening(event=JobEvent.TASK_COMPLETED, task=task.name)
