"""The status a job should have, and the patch that gives it that.

Times are whole seconds, as Kubernetes keeps them. A phase that a job returns to has one
condition, the newest, at the end of the list.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from stromboli.api.batch import Job, JobCondition, JobPhase, JobState, JobStatus, TaskState
from stromboli.api.durations import SECOND, format_duration
from stromboli.api.errors import TimestampError
from stromboli.api.timestamps import format_time, parse_time
from stromboli.lifecycle.census import Census
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.troubles import Trouble

__all__ = ["new_status", "status_patch"]


def new_status(
    job: Job,
    *,
    phase: JobPhase,
    census: Census,
    records: Records,
    version: int,
    retry_count: int,
    is_kill: bool,
    trouble: Trouble,
    now: float,
) -> JobStatus:
    """`trouble` is why the job does not get on; false if it does."""
    moment = format_time(datetime.fromtimestamp(now, UTC))
    changed = phase != job.status.state.phase
    since = moment if changed else job.status.state.last_transition_time
    return JobStatus(
        state=JobState(
            phase=phase,
            reason=trouble.reason,
            message=trouble.message,
            last_transition_time=since,
        ),
        min_available=job.spec.min_available,
        task_status_count={
            task: TaskState(phase=dict(sorted(phases.items())))
            for task, phases in sorted(census.tasks.items())
        },
        pending=census.pending,
        running=census.running,
        succeeded=census.succeeded,
        failed=census.failed,
        terminating=census.terminating,
        unknown=census.unknown,
        version=version,
        retry_count=retry_count,
        running_duration=_running_duration(job, since) if is_kill else None,
        controlled_resources=records.written(),
        conditions=_conditions(job, phase, moment) if changed else job.status.conditions,
    )


def status_patch(before: JobStatus, after: JobStatus) -> dict[str, Any]:
    """The merge patch of the status, empty when nothing is new."""
    patch = merge_patch(msgspec.to_builtins(before), msgspec.to_builtins(after))
    return {"status": patch} if patch else {}


def _conditions(job: Job, phase: JobPhase, moment: str) -> tuple[JobCondition, ...]:
    others = tuple(c for c in job.status.conditions if c.status != phase)
    return (*others, JobCondition(status=phase, last_transition_time=moment))


def _running_duration(job: Job, since: str | None) -> str | None:
    """From the job's creation to its last change of phase, as Volcano reckons it."""
    created = job.metadata.creation_timestamp
    if created is None or since is None:
        return None
    try:
        passed = parse_time(since) - parse_time(created)
    except TimestampError:
        return None
    return format_duration(max(0, int(passed.total_seconds())) * SECOND)
