"""CronJobs: when they come due, and the jobs that they will make.

Volcano looks at the schedule only; here the job template is reviewed as the jobs made of it
will be, after the same defaults. A queue that is closed now is no reason to refuse, since it
may be open when the first job comes due.
"""

import re
from dataclasses import dataclass
from typing import Final

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.jobs.cases import JobCase
from stromboli.admitting.jobs.creating import job_faults, strung
from stromboli.admitting.jobs.deciding import defaulted
from stromboli.admitting.jobs.queueing import queue_open
from stromboli.admitting.jobs.warnings import warnings_about
from stromboli.admitting.names import in_brackets, subdomain_faults
from stromboli.admitting.paths import UPDATE
from stromboli.admitting.questions import Json, Review, Surroundings, Verdict
from stromboli.admitting.reading import name_of, read, typed
from stromboli.admitting.rules import OURS, Fault, Faults, Rule, faults_of, rule, verdict_of, warned
from stromboli.api.batch import Job
from stromboli.api.errors import BadSchedule, UnknownTimeZone
from stromboli.api.kinds import VC_CRON_JOB, VC_JOB
from stromboli.api.schedules import read_schedule, read_zone
from stromboli.api.wellknown import DEFAULT_QUEUE

__all__ = ["RULES", "TEMPLATE_RULE", "CronCase", "queues_named", "validate"]

_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_MAX_NAME: Final = 52
_MAX_ZONE: Final = 64
_TIME_SUFFIX: Final = "-0000000000"
"""As long as what a CronJob puts behind its name to name a job."""


@dataclass(frozen=True, slots=True)
class CronCase:
    schedule: str
    time_zone: str | None
    name: str


@rule(
    "cronjob-schedule",
    says="schedule is required, but got empty",
    about="a CronJob has a schedule",
)
def has_schedule(case: CronCase) -> Faults:
    if not case.schedule:
        yield ()


@rule(
    "cronjob-schedule-zone",
    says="schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
    about="the time zone has a field of its own",
)
def zone_apart(case: CronCase) -> Faults:
    if "TZ" in case.schedule:
        yield ()


@rule(
    "cronjob-schedule-form",
    says="schedule is not a valid cron expression",
    about="five fields, a descriptor such as `@daily`, or `@every` and a duration",
)
def schedule_form(case: CronCase) -> Faults:
    if case.schedule and "TZ" not in case.schedule and not _is_schedule(case.schedule):
        yield ()


@rule(
    "cronjob-zone-empty",
    says="timeZone must be nil or non-empty string, got empty string",
    about="a time zone that is given is not empty",
)
def zone_not_empty(case: CronCase) -> Faults:
    if case.time_zone == "":
        yield ()


@rule(
    "cronjob-zone-form",
    says="unknown timeZone",
    about="the parts of a zone's name are at most 14 letters, digits, `.`, `-`, `_` and `+`",
)
def zone_form(case: CronCase) -> Faults:
    if case.time_zone and not _has_zone_form(case.time_zone):
        yield ()


@rule(
    "cronjob-zone-local",
    says="timeZone can't be Local, and must be defined in https://www.iana.org/time-zones",
    about="what is local depends on where one asks",
)
def zone_not_local(case: CronCase) -> Faults:
    if case.time_zone is not None and case.time_zone.lower() == "local":
        yield ()


@rule(
    "cronjob-zone-known",
    says="invalid timeZone",
    about="the IANA database has the zone",
)
def zone_known(case: CronCase) -> Faults:
    zone = case.time_zone
    if zone and zone.lower() != "local" and _has_zone_form(zone) and not _is_time_zone(zone):
        yield ()


@rule(
    "cronjob-name-length",
    says="cronJob name must be no more than 52 characters to accommodate job name suffix "
    "(max 63 total)",
    about="the jobs of a CronJob carry a time behind its name",
)
def name_length(case: CronCase) -> Faults:
    if len(case.name) > _MAX_NAME:
        yield ()


@rule(
    "cronjob-name",
    says='invalid cronJob name "%s": %s',
    about="the name of a CronJob is a DNS subdomain",
)
def name_form(case: CronCase) -> Faults:
    faults = subdomain_faults(case.name)
    if faults:
        yield case.name, in_brackets(faults)


RULES: Final[tuple[Rule[CronCase], ...]] = (
    has_schedule,
    zone_apart,
    schedule_form,
    zone_not_empty,
    zone_form,
    zone_not_local,
    zone_known,
    name_length,
    name_form,
)


@rule(
    "cronjob-template",
    says="spec.jobTemplate: %s",
    about="the job template keeps the rules of jobs (`/jobs/validate`), after their defaults; "
    "its queue need not be open",
    origin=OURS,
)
def _template(faults: list[Fault]) -> Faults:
    if faults:
        yield (strung(faults),)


TEMPLATE_RULE: Final = _template


def validate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:
    cron = read(VC_CRON_JOB, review)
    name = name_of(review, cron)
    case = CronCase(cron.spec.schedule, cron.spec.time_zone, name)
    faults, _ = faults_of(RULES, case, surroundings)
    skipped = False
    warnings: tuple[str, ...] = ()
    if _template_is_new(review):
        job = _job_of(review, conf)
        job_case = JobCase(
            job,
            name=f"{name}{_TIME_SUFFIX}",
            namespace=review.namespace,
            user=review.user_info,
            surroundings=surroundings,
            conf=conf,
        )
        of_job, skipped = job_faults(job_case)
        warnings = tuple(one.text.strip() for one in of_job if one.rule is queue_open)
        warnings += warnings_about(job_case)
        faults += _of_template([one for one in of_job if one.rule is not queue_open])
    verdict = verdict_of(faults, message="; ".join(one.text for one in faults), skipped=skipped)
    return warned(verdict, warnings)


def queues_named(review: Review) -> set[str]:
    if not _template_is_new(review):
        return set()
    return {read(VC_CRON_JOB, review).spec.job_template.spec.queue or DEFAULT_QUEUE}


def _has_zone_form(zone: str) -> bool:
    return len(zone) <= _MAX_ZONE and all(map(_ZONE_PART.fullmatch, zone.split("/")))


def _of_template(faults: list[Fault]) -> list[Fault]:
    """One fault for all of the job's; a refusal for access keeps its own name and code."""
    apart = next((one.rule for one in faults if one.rule.origin == OURS), TEMPLATE_RULE)
    return [Fault(apart, TEMPLATE_RULE.says % values) for values in TEMPLATE_RULE.check(faults)]


def _template_is_new(review: Review) -> bool:
    """Whether the template must be looked at: what was accepted once stays so."""
    return review.operation != UPDATE or _template_in(review.object) != _template_in(
        review.old_object
    )


def _template_in(manifest: Json) -> Json:
    spec: Json = manifest.get("spec") if isinstance(manifest, dict) else None
    return spec.get("jobTemplate") if isinstance(spec, dict) else None


def _job_of(review: Review, conf: AdmissionConf) -> Job:
    """The job that would be made now, with its defaults; who makes it is told by its name."""
    template: Json = _template_in(review.object) or {}
    manifest = {"spec": template.get("spec") or {}}
    return typed(VC_JOB, defaulted(typed(VC_JOB, manifest), manifest, conf))


def _is_schedule(text: str) -> bool:
    try:
        read_schedule(text)
    except BadSchedule:
        return False
    return True


def _is_time_zone(name: str) -> bool:
    try:
        read_zone(name)
    except UnknownTimeZone:
        return False
    return True
