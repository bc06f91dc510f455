"""What the status must remember after a decision, for the next one to find its triggers.

Everything here answers one question: what would be lost if the controllers died right now, or
if the decision was about something else than all that happened?
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from stromboli.api.batch import Job, JobEvent
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.phases import Keep, What
from stromboli.lifecycle.planning import Plan
from stromboli.lifecycle.policies import Happening, answer_to
from stromboli.lifecycle.records import Delayed, Records
from stromboli.lifecycle.situations import Situation
from stromboli.lifecycle.sorting import Hits, Sorted
from stromboli.lifecycle.triggers import is_renewed, news_of

__all__ = [
    "asked_about",
    "cleared_away",
    "ended_after",
    "generation_after",
    "hits_nothing",
    "renewed_after",
    "roster_after",
    "still_waiting",
    "unanswered_evictions",
]


def hits_nothing(_task: str, _index: int) -> bool:
    return False


def unanswered_evictions(plan: Plan, hits: Hits) -> set[tuple[str, int]]:
    """Evictions that this decision has no answer to, because it is about something else."""
    if plan.command is None and plan.effect.what is What.SYNC:
        return set()  # the policies were asked about all of them
    return {
        (task, index)
        for task, indexes in plan.missing.items()
        for index in indexes
        if not hits(task, index)
    }


def generation_after(plan: Plan, job: Job, records: Records) -> int:
    """The generation of the spec that the policies were asked about."""
    about_else = bool(plan.causes) and all(
        cause.event is not JobEvent.JOB_UPDATED for cause in plan.causes
    )
    if records.generation and (plan.command is not None or about_else):
        return records.generation
    return asked_about(job)


def asked_about(job: Job) -> int:
    """The generation of the spec, where a policy wants to know of a new one."""
    wants_to_know = answer_to(job, Happening(event=JobEvent.JOB_UPDATED)) is not None
    return job.metadata.generation if wants_to_know else 0


def still_waiting(waiting: Delayed, hits: Hits) -> Delayed:
    """A restart of a part answers whatever waited for that part."""
    left = {
        (event, task): {index: at for index, at in since.items() if not hits(task, index)}
        for (event, task), since in waiting.items()
    }
    return {place: since for place, since in left.items() if since}


def roster_after(
    situation: Situation,
    pods: Sorted,
    records: Records,
    unanswered: set[tuple[str, int]],
    hits: Hits,
) -> dict[str, frozenset[int]]:
    """The pods to be missed should they vanish, and those that are missed already.

    One that is on its way out stays in it until it is gone, unless it is going by our doing, or
    is restarted by now with others that were lost.
    """
    version = situation.job.status.version
    present: dict[str, set[int]] = {task.name: set() for task in situation.job.spec.tasks}
    for member in pods.staying:
        if member.version == version:
            present[member.task].add(member.index)
    for member in situation.members:
        if (
            member.is_terminating
            and member.version == version
            and member.index in records.pods.get(member.task, ())
            and member.task in present
            and not hits(member.task, member.index)
        ):
            present[member.task].add(member.index)
    for task, index in unanswered:
        present[task].add(index)
    return {task: frozenset(indexes) for task, indexes in present.items() if indexes}


def ended_after(
    situation: Situation, staying: Iterable[Member], records: Records, *, keep: Keep, hits: Hits
) -> Records:
    """The records with the pods that have ended by themselves, and need not be there any more."""
    if keep is Keep.NOTHING:
        return replace(records, succeeded={}, failed={})
    cleared = [
        m
        for m in news_of(situation.vanished, records)
        if m.version == situation.job.status.version and not is_renewed(m, records)
    ]
    ended = [m for m in (*staying, *cleared) if m.ended_by_itself]
    succeeded = _ended_in("Succeeded", ended, records.succeeded, situation, hits)
    if keep is Keep.SUCCEEDED:
        return replace(records, succeeded=succeeded, failed={})
    failed = _ended_in("Failed", ended, records.failed, situation, hits)
    return replace(records, succeeded=succeeded, failed=failed)


def _ended_in(
    phase: str,
    ended: Iterable[Member],
    known: Mapping[str, frozenset[int]],
    situation: Situation,
    hits: Hits,
) -> dict[str, frozenset[int]]:
    indexes = {task: set(known.get(task, ())) for task in known}
    if known:
        # Made again all the same, as when a status that told of its end was lost.
        for member in situation.members:
            if not (member.is_finished or member.is_terminating) and member.task in indexes:
                indexes[member.task].discard(member.index)
    for member in ended:
        if member.phase == phase:
            indexes.setdefault(member.task, set()).add(member.index)
    replicas = {task.name: task.replicas for task in situation.job.spec.tasks}
    left = {
        task: frozenset(i for i in some if i < replicas.get(task, 0) and not hits(task, i))
        for task, some in indexes.items()
    }
    return {task: some for task, some in left.items() if some}


def cleared_away(staying: Iterable[Member], records: Records) -> dict[tuple[str, str], int]:
    """(task, phase) → how many pods ended so and are not there to be counted any more."""
    if not (records.succeeded or records.failed):
        return {}
    here: dict[str, set[int]] = {}
    for member in staying:
        here.setdefault(member.task, set()).add(member.index)
    counts = {
        (task, phase): len(indexes - here.get(task, set()))
        for phase, tasks in (("Succeeded", records.succeeded), ("Failed", records.failed))
        for task, indexes in tasks.items()
    }
    return {place: number for place, number in counts.items() if number}


def renewed_after(
    situation: Situation, records: Records, hits: Hits, retry_count: int
) -> dict[str, dict[int, int]]:
    """What a restart of a part has ended, for as long as any of it is there."""
    if hits is hits_nothing and not records.renewed:
        return {}
    renewed: dict[str, dict[int, int]] = {}
    for member in situation.members:
        first_new = 0
        if member.version != situation.job.status.version:
            continue
        if hits(member.task, member.index):
            first_new = retry_count
        elif is_renewed(member, records):
            first_new = records.renewed[member.task][member.index]
        if first_new > member.retry:
            renewed.setdefault(member.task, {})[member.index] = first_new
    return renewed
