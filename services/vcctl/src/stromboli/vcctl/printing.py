"""The tables of vcctl: columns, widths and words exactly as Volcano prints them.

People's scripts cut these lines at fixed places, so trailing spaces stay and nothing is
shortened: a value that is too wide moves the rest of its line, as it does in Volcano.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from stromboli.api.batch import Job
from stromboli.api.errors import TimestampError
from stromboli.api.scheduling import PodGroup, PodGroupPhase, Queue
from stromboli.api.timestamps import parse_time
from stromboli.api.wellknown import JOB_TYPE

__all__ = ["NO_RESOURCES", "age", "human_duration", "job_table", "queue_table"]

NO_RESOURCES: Final = "No resources found"

_JOB_COLUMNS: Final[Mapping[str, int]] = {
    "Creation": 15,
    "Phase": 12,
    "JobType": 12,
    "Replicas": 12,
    "Min": 6,
    "Pending": 10,
    "Running": 10,
    "Succeeded": 12,
    "Failed": 10,
    "Unknown": 12,
    "RetryCount": 10,
}
_NAME_GAP: Final = 3

_QUEUE_PHASES: Final = (
    PodGroupPhase.INQUEUE,
    PodGroupPhase.PENDING,
    PodGroupPhase.RUNNING,
    PodGroupPhase.UNKNOWN,
    PodGroupPhase.COMPLETED,
)
_QUEUE_HEADER: Final = ("Name", "Weight", "State", "Parent", *_QUEUE_PHASES)
_QUEUE_WIDTHS: Final = (25, *(8,) * 8)

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def job_table(jobs: Sequence[Job], *, with_namespace: bool) -> str:
    """The answer to `vcctl job list`."""
    if not jobs:
        return NO_RESOURCES
    columns = {"Name": _fitting("Name", (job.metadata.name for job in jobs)), **_JOB_COLUMNS}
    rows = [{"Name": job.metadata.name, **_job_row(job)} for job in jobs]
    if with_namespace:
        width = _fitting("Namespace", (job.metadata.namespace for job in jobs))
        columns = {"Namespace": width, **columns}
        rows = [
            {"Namespace": job.metadata.namespace, **row}
            for job, row in zip(jobs, rows, strict=True)
        ]
    header = {column: column for column in columns}
    return "\n".join(
        "".join(row[column].ljust(width) for column, width in columns.items())
        for row in (header, *rows)
    )


def _job_row(job: Job) -> dict[str, str]:
    status = job.status
    return {
        "Creation": (job.metadata.creation_timestamp or "")[: len("yyyy-mm-dd")],
        "Phase": status.state.phase,
        "JobType": job.metadata.labels.get(JOB_TYPE) or "Batch",
        "Replicas": str(sum(task.replicas for task in job.spec.tasks)),
        "Min": str(status.min_available),
        "Pending": str(status.pending),
        "Running": str(status.running),
        "Succeeded": str(status.succeeded),
        "Failed": str(status.failed),
        "Unknown": str(status.unknown),
        "RetryCount": str(status.retry_count),
    }


def _fitting(header: str, values: Iterable[str]) -> int:
    return max(len(header), *map(len, values)) + _NAME_GAP


def queue_table(queues: Sequence[Queue], podgroups: Iterable[PodGroup]) -> str:
    """The answer to `vcctl queue list`; the counts are of PodGroups, not of jobs."""
    if not queues:
        return NO_RESOURCES
    counts: dict[tuple[str, str], int] = {}
    for podgroup in podgroups:
        key = (podgroup.spec.queue, podgroup.status.phase)
        counts[key] = counts.get(key, 0) + 1
    rows = [
        (
            queue.metadata.name,
            str(queue.spec.weight),
            queue.status.state,
            queue.spec.parent,
            *(str(counts.get((queue.metadata.name, phase), 0)) for phase in _QUEUE_PHASES),
        )
        for queue in queues
    ]
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(row, _QUEUE_WIDTHS, strict=True))
        for row in (_QUEUE_HEADER, *rows)
    )


def age(timestamp: str | None, now: datetime) -> str:
    """How long ago that was, as kubectl says it."""
    if timestamp is None:
        return "<unknown>"
    try:
        moment = parse_time(timestamp)
    except TimestampError:
        return "<unknown>"
    return human_duration((now - moment).total_seconds())


def human_duration(seconds: float) -> str:
    """Kubernetes' short form of a duration: at most two units, the smaller where it matters."""
    whole = int(seconds)
    # A little less than nothing is two clocks that differ a little.
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two_units(whole, (_MINUTE, "m"), (1, "s"))
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, (_HOUR, "h"), (_MINUTE, "m"))
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two_units(whole, (_DAY, "d"), (_HOUR, "h"))
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two_units(whole, (_YEAR, "y"), (_DAY, "d"))
    return f"{whole // _YEAR}y"


def _two_units(seconds: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    first, rest = divmod(seconds, large[0])
    second = rest // small[0]
    return f"{first}{large[1]}{second}{small[1]}" if second else f"{first}{large[1]}"
