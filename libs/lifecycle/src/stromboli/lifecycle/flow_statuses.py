"""The status of a flow: its jobs by phase, what became of each, and the phase of the whole.

A job that has completed stays so for the flow even when the job is gone by now, collected or
deleted: it would be started a second time otherwise. So does one that failed or was terminated
and was collected after its time to live; one that somebody deleted before that is tried again.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from stromboli.api.batch import Job, JobPhase
from stromboli.api.flow import (
    FlowJobCondition,
    FlowJobStatus,
    FlowPhase,
    FlowState,
    JobFlowStatus,
    RunningHistory,
)
from stromboli.lifecycle.moments import as_text, as_unix

__all__ = ["flow_status", "phase_of_job"]

TimesToLive = Mapping[str, int | None]
"""Name of a job → its `ttlSecondsAfterFinished`."""

_LISTS: Final[Mapping[str, str]] = {
    JobPhase.PENDING: "pending",
    JobPhase.RUNNING: "running",
    JobPhase.COMPLETING: "running",
    JobPhase.COMPLETED: "completed",
    JobPhase.TERMINATING: "terminated",
    JobPhase.TERMINATED: "terminated",
    JobPhase.FAILED: "failed",
}
_ENDED: Final = frozenset({JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED})
_HISTORIES_KEPT: Final = 20


def phase_of_job(job: Job) -> str:
    return job.status.state.phase or JobPhase.PENDING


def flow_status(
    before: JobFlowStatus,
    jobs: Mapping[str, Job],
    *,
    wanted: Mapping[str, int | None],
    ended: Mapping[str, Job],
    now: float,
) -> JobFlowStatus:
    """`jobs` by name; `wanted` are the names of all that the flow should have, with their ttl.

    `ended` are jobs as they were when they went, in case that was too quick for the status.
    """
    before = _with_what_went(before, {n: j for n, j in ended.items() if n not in jobs}, now)
    lists: dict[str, list[str]] = {"completed": []}
    gone = dict(_remembered(before, jobs, wanted, now))
    for name, which in gone.items():
        lists.setdefault(which, []).append(name)
    for name, job in jobs.items():
        lists.setdefault(_LISTS.get(phase_of_job(job), "unknown"), []).append(name)
    sorted_lists = {name: tuple(sorted(names)) for name, names in lists.items()}
    kept = {
        status.name: _closed(status, now) if status.name in gone else status
        for status in before.job_status_list
        if status.name in wanted
    }
    told = {name: _job_status(job, kept.get(name), now) for name, job in jobs.items()}
    return JobFlowStatus(
        pending_jobs=sorted_lists.get("pending", ()),
        running_jobs=sorted_lists.get("running", ()),
        failed_jobs=sorted_lists.get("failed", ()),
        completed_jobs=sorted_lists["completed"],
        terminated_jobs=sorted_lists.get("terminated", ()),
        unknown_jobs=sorted_lists.get("unknown", ()),
        job_status_list=tuple({**kept, **told}[name] for name in sorted({**kept, **told})),
        conditions={
            **{name: seen for name, seen in before.conditions.items() if name in gone},
            **{name: _condition(job) for name, job in sorted(jobs.items())},
        },
        state=FlowState(phase=_phase(before.state.phase, sorted_lists, len(wanted))),
    )


def _with_what_went(before: JobFlowStatus, ended: Mapping[str, Job], now: float) -> JobFlowStatus:
    """The status as it would be, had it been written before these jobs went."""
    if not ended:
        return before
    told = {status.name: status for status in before.job_status_list}
    told |= {name: _job_status(job, told.get(name), now) for name, job in ended.items()}

    def listed(which: str, names: tuple[str, ...]) -> tuple[str, ...]:
        kept = {name for name in names if name not in ended}
        return (*kept, *(n for n, job in ended.items() if _LISTS.get(phase_of_job(job)) == which))

    return replace(
        before,
        completed_jobs=listed("completed", before.completed_jobs),
        failed_jobs=listed("failed", before.failed_jobs),
        terminated_jobs=listed("terminated", before.terminated_jobs),
        job_status_list=tuple(told.values()),
        conditions={
            **before.conditions,
            **{name: _condition(job) for name, job in ended.items()},
        },
    )


def _remembered(
    before: JobFlowStatus, jobs: Mapping[str, Job], wanted: TimesToLive, now: float
) -> Iterator[tuple[str, str]]:
    """(name, list) of the jobs that are gone and are not made again."""
    told = {status.name: status for status in before.job_status_list}
    for which, names in (
        ("completed", before.completed_jobs),
        ("failed", before.failed_jobs),
        ("terminated", before.terminated_jobs),
    ):
        for name in names:
            if name not in wanted or name in jobs:
                continue
            if which == "completed" or _was_collected(told.get(name), wanted[name], now):
                yield name, which


def _was_collected(status: FlowJobStatus | None, ttl_s: int | None, now: float) -> bool:
    """Did it outlive its time to live, or was that found out before?"""
    if status is None:
        return False
    histories = status.running_histories
    if histories and histories[-1].end_timestamp is not None:
        return True
    ended = as_unix(status.end_timestamp)
    return ttl_s is not None and ended is not None and ended + ttl_s <= now


def _closed(status: FlowJobStatus, now: float) -> FlowJobStatus:
    """With the end of its last state: the job is gone, and will not be made again."""
    histories = status.running_histories
    if not histories or histories[-1].end_timestamp is not None:
        return status
    last = replace(histories[-1], end_timestamp=as_text(now))
    return replace(status, running_histories=(*histories[:-1], last))


def _phase(before: str, lists: Mapping[str, tuple[str, ...]], wanted: int) -> str:
    if before == FlowPhase.SUCCEED:
        return before
    if lists.get("failed") or lists.get("terminated"):
        return FlowPhase.FAILED
    if wanted and len(lists["completed"]) == wanted:
        return FlowPhase.SUCCEED
    if lists.get("running") or lists["completed"]:
        return FlowPhase.RUNNING
    return FlowPhase.RUNNING if before == FlowPhase.RUNNING else FlowPhase.PENDING


def _job_status(job: Job, before: FlowJobStatus | None, now: float) -> FlowJobStatus:
    state = phase_of_job(job)
    since = job.status.state.last_transition_time or as_text(now)
    histories = before.running_histories if before is not None else ()
    if not histories or histories[-1].state != state:
        ended = tuple(
            one
            if one.end_timestamp is not None
            else RunningHistory(
                start_timestamp=one.start_timestamp, end_timestamp=since, state=one.state
            )
            for one in histories
        )
        begun = RunningHistory(start_timestamp=since, state=state)
        histories = (*ended, begun)[-_HISTORIES_KEPT:]
    return FlowJobStatus(
        name=job.metadata.name,
        state=state,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=since if state in _ENDED else None,
        restart_count=job.status.retry_count,
        running_histories=histories,
    )


def _condition(job: Job) -> FlowJobCondition:
    return FlowJobCondition(
        phase=phase_of_job(job),
        create_time=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration,
        task_status_count=job.status.task_status_count,
    )
