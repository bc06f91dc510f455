"""Make the job of a schedule when its time has come, once for each time.

What was done is read from what is there: a job carries the time it was made for in its name
and in an annotation, so after a crash at any point the same time is not used twice. The status
follows from the jobs: who is active, when the last one was made, when the last one succeeded.
A time that passed while nobody looked is made up for, the latest of them only.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.api.batch import Job, JobPhase
from stromboli.api.core import ObjectReference
from stromboli.api.cron import ConcurrencyPolicy, CronJob, CronJobStatus
from stromboli.api.errors import BadSchedule, UnknownTimeZone
from stromboli.api.kinds import controller_reference
from stromboli.api.meta import ObjectMeta
from stromboli.api.schedules import Interval, Schedule, read_schedule, read_zone
from stromboli.api.wellknown import CRONJOB_SCHEDULED_TIMESTAMP
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.manifests import compact_manifest
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.moments import as_text, as_unix
from stromboli.lifecycle.telling import tell, warn

__all__ = ["CronDecision", "CronSituation", "decide_cron"]

_CRON: Final = kinds.VC_CRON_JOB.token
_JOB: Final = kinds.VC_JOB.token
_ENDED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
_TOO_MANY: Final = 100
_MINUTE_S: Final = 60
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_SUCCESSFUL_KEPT: Final = 3
_FAILED_KEPT: Final = 1


class CronSituation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision about a CronJob rests on."""

    cron: CronJob
    jobs: tuple[Job, ...] = ()
    """Those that it controls."""
    started: float | None = None
    """The time for which a job was made that may be gone again."""
    trouble: str = ""
    now: float


class CronDecision(msgspec.Struct, frozen=True, kw_only=True):
    look_again_at: float | None = None
    starts: float | None = None
    """The time that a job is being made for."""


def decide_cron(situation: CronSituation, asker: Asker) -> CronDecision:
    """One decision about one CronJob."""
    cron = situation.cron
    if cron.metadata.deletion_timestamp is not None:
        return CronDecision()
    if situation.trouble:
        message = f"Error creating job: {situation.trouble}"
        warn(asker, cron, "FailedCreate", message, now=situation.now)
    _prune(situation, asker)
    _tell_changes(situation, asker)
    status = _status(situation)
    patch = merge_patch(msgspec.to_builtins(cron.status), msgspec.to_builtins(status))
    if patch:
        asker.patch(
            _CRON,
            cron.metadata.namespace,
            cron.metadata.name,
            uid=cron.metadata.uid,
            body={"status": patch},
            subresource="status",
        )
    if cron.spec.suspend:
        return CronDecision()
    schedule = _schedule(situation, asker)
    if schedule is None:
        return CronDecision()
    return _start(situation, schedule, status, asker)


# What is known of the jobs.


def _is_active(job: Job) -> bool:
    return job.status.state.phase not in _ENDED


def _status(situation: CronSituation) -> CronJobStatus:
    """What follows from the jobs; what is known already is never taken back."""
    status = situation.cron.status
    made_for = [_made_for(job) for job in situation.jobs]
    succeeded = [
        as_unix(job.status.state.last_transition_time)
        for job in situation.jobs
        if job.status.state.phase == JobPhase.COMPLETED
    ]
    active = sorted(filter(_is_active, situation.jobs), key=lambda job: job.metadata.name)
    return replace(
        status,
        active=tuple(_reference(job) for job in active),
        last_schedule_time=_latest(status.last_schedule_time, [*made_for, situation.started]),
        last_successful_time=_latest(status.last_successful_time, succeeded),
    )


def _latest(known: str | None, others: Iterable[float | None]) -> str | None:
    moments = [moment for moment in (as_unix(known), *others) if moment is not None]
    return as_text(max(moments)) if moments else None


def _made_for(job: Job) -> float | None:
    return as_unix(job.metadata.annotations.get(CRONJOB_SCHEDULED_TIMESTAMP))


def _reference(job: Job) -> ObjectReference:
    return ObjectReference(
        api_version=kinds.VC_JOB.api_version,
        kind=kinds.VC_JOB.kind,
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        uid=job.metadata.uid,
    )


def _tell_changes(situation: CronSituation, asker: Asker) -> None:
    """What has happened since the status was written."""
    cron, now = situation.cron, situation.now
    last = as_unix(cron.status.last_schedule_time) or 0.0
    for job in situation.jobs:
        if (_made_for(job) or 0.0) > last:
            message = f"Created job {job.metadata.name} for CronJob {cron.metadata.name}"
            tell(asker, cron, "SuccessfulCreate", message, now=now)
    by_uid = {job.metadata.uid: job for job in situation.jobs}
    for reference in cron.status.active:
        job = by_uid.get(reference.uid)
        if job is not None and not _is_active(job):
            message = f"Saw completed job: {reference.name} in active, remove"
            tell(asker, cron, "SawCompletedJob", message, now=now)


def _prune(situation: CronSituation, asker: Asker) -> None:
    spec = situation.cron.spec
    limits = (
        (JobPhase.COMPLETED, spec.successful_jobs_history_limit, _SUCCESSFUL_KEPT),
        (JobPhase.FAILED, spec.failed_jobs_history_limit, _FAILED_KEPT),
    )
    for phase, limit, usual in limits:
        ended = [job for job in situation.jobs if job.status.state.phase == phase]
        surplus = len(ended) - (usual if limit is None else limit)
        if surplus > 0:
            _delete(situation, sorted(ended, key=_age)[:surplus], asker)


def _age(job: Job) -> tuple[str, str]:
    return job.metadata.creation_timestamp or "", job.metadata.name


def _delete(situation: CronSituation, jobs: Sequence[Job], asker: Asker) -> None:
    for job in jobs:
        metadata = job.metadata
        if metadata.deletion_timestamp is None:
            asker.delete(_JOB, metadata.namespace, metadata.name, uid=metadata.uid)
            message = f'Deleted job "{metadata.name}"'
            tell(asker, situation.cron, "SuccessfulDelete", message, now=situation.now)


# When, and whether.


def _schedule(situation: CronSituation, asker: Asker) -> Schedule | None:
    cron = situation.cron
    try:
        return read_schedule(cron.spec.schedule, cron.spec.time_zone)
    except BadSchedule as problem:
        has_zone = "TZ=" in cron.spec.schedule
        reason = "UnsupportedSchedule" if has_zone else "UnParseableCronJobSchedule"
        warn(asker, cron, reason, str(problem), now=situation.now)
    except UnknownTimeZone as problem:
        warn(asker, cron, "InvalidTimeZone", str(problem), now=situation.now)
    return None


def _start(
    situation: CronSituation, schedule: Schedule, status: CronJobStatus, asker: Asker
) -> CronDecision:
    now = _moment(situation.now)
    since = _since(situation, status)
    due = schedule.latest(since, now)
    upcoming = schedule.following(due or since if isinstance(schedule, Interval) else now)
    again = None if upcoming is None else upcoming.timestamp()
    if due is None:
        return CronDecision(look_again_at=again)
    oldest = _oldest(situation)
    if due < oldest:
        message = f"Missed scheduled time to start a job: {as_text(due.timestamp())}"
        warn(asker, situation.cron, "MissSchedule", message, now=situation.now)
        return CronDecision(look_again_at=again)
    if _missed(schedule, max(since, oldest), now) > _TOO_MANY:
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
            "check clock skew"
        )
        warn(asker, situation.cron, "TooManyMissedTimes", message, now=situation.now)
    starts = None
    if _may_start(situation, due, asker):
        starts = due.timestamp()
        job = _job(situation.cron, due, schedule)
        asker.create(_JOB, compact_manifest(job), owner_uid=situation.cron.metadata.uid)
    return CronDecision(look_again_at=again, starts=starts)


def _since(situation: CronSituation, status: CronJobStatus) -> datetime:
    """The last time that was used, or from when on there are any."""
    created = situation.cron.metadata.creation_timestamp
    known = as_unix(status.last_schedule_time) or as_unix(created)
    return _moment(situation.now if known is None else known)


def _oldest(situation: CronSituation) -> datetime:
    """A time before this one is too late to start a job for."""
    deadline_s = situation.cron.spec.starting_deadline_seconds
    now = _moment(situation.now)
    try:
        return _FIRST if deadline_s is None else now - timedelta(seconds=deadline_s)
    except OverflowError:
        return _FIRST


def _missed(schedule: Schedule, since: datetime, now: datetime) -> int:
    """How many times have passed; it does not count beyond what is too many anyway."""
    missed = 0
    moment = schedule.following(since)
    while moment is not None and moment <= now and missed <= _TOO_MANY:
        missed += 1
        moment = schedule.following(moment)
    return missed


def _may_start(situation: CronSituation, due: datetime, asker: Asker) -> bool:
    cron = situation.cron
    active = [job for job in situation.jobs if _is_active(job)]
    moment = due.timestamp()
    if any(_made_for(job) == moment for job in situation.jobs):
        return False
    match cron.spec.concurrency_policy:
        case ConcurrencyPolicy.FORBID if active:
            message = "Skipping job creation because another job is already running"
            tell(
                asker,
                cron,
                "ForbidConcurrent",
                message,
                now=situation.now,
                once_for=as_text(moment),
            )
            return False
        case ConcurrencyPolicy.REPLACE if active:
            message = "Replacing active job for CronJob"
            tell(
                asker,
                cron,
                "ReplaceConcurrent",
                message,
                now=situation.now,
                once_for=as_text(moment),
            )
            _delete(situation, active, asker)
        case _:
            pass
    return True


def _moment(unix: float) -> datetime:
    return datetime.fromtimestamp(unix, UTC)


def _job(cron: CronJob, due: datetime, schedule: Schedule) -> Job:
    template = cron.spec.job_template
    unix = int(due.timestamp())
    # More often than once a minute, the minute does not tell them apart.
    is_frequent = isinstance(schedule, Interval) and schedule.every.total_seconds() < _MINUTE_S
    number = unix if is_frequent else unix // _MINUTE_S
    local = due.astimezone(read_zone(cron.spec.time_zone))
    return Job(
        metadata=ObjectMeta(
            name=f"{cron.metadata.name}-{number}",
            namespace=cron.metadata.namespace,
            labels=template.metadata.labels,
            annotations={
                **template.metadata.annotations,
                CRONJOB_SCHEDULED_TIMESTAMP: _rfc_3339(local),
            },
            owner_references=(controller_reference(cron),),
        ),
        spec=template.spec,
    )


def _rfc_3339(local: datetime) -> str:
    text = local.isoformat(timespec="seconds")
    return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text
