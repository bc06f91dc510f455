"""The status of a flow: its jobs by phase, what became of each, and the phase of the whole.

A job that has completed stays so for the flow even when the job is gone by now, collected or
deleted: it would be started a second time otherwise.
"""

from collections.abc import Mapping
from typing import Final

from stromboli.api.batch import Job, JobPhase
from stromboli.api.flow import (
    FlowJobCondition,
    FlowJobStatus,
    FlowPhase,
    FlowState,
    JobFlowStatus,
    RunningHistory,
)
from stromboli.lifecycle.moments import as_text

__all__ = ["flow_status", "phase_of_job"]

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
    before: JobFlowStatus, jobs: Mapping[str, Job], *, wanted: frozenset[str], now: float
) -> JobFlowStatus:
    """`jobs` by name, and `wanted` the names of all that the flow should have."""
    lists: dict[str, list[str]] = {}
    gone = sorted((set(before.completed_jobs) & wanted) - jobs.keys())
    lists["completed"] = gone
    for name, job in jobs.items():
        lists.setdefault(_LISTS.get(phase_of_job(job), "unknown"), []).append(name)
    sorted_lists = {name: tuple(sorted(names)) for name, names in lists.items()}
    kept = {status.name: status for status in before.job_status_list if status.name in wanted}
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
