"""Decide about jobs: fill in the defaults, or say everything that is wrong."""

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.jobs.cases import JobCase, JobChange
from stromboli.admitting.jobs.creating import job_faults, strung
from stromboli.admitting.jobs.defaults import DEFAULTS, JobDraft
from stromboli.admitting.jobs.updating import UPDATE_RULES
from stromboli.admitting.jobs.warnings import warnings_about
from stromboli.admitting.patching import Patch, applied
from stromboli.admitting.paths import UPDATE
from stromboli.admitting.questions import ALLOWED, Json, Review, Surroundings, Verdict
from stromboli.admitting.reading import name_of, old_of, read
from stromboli.admitting.rules import faults_of, verdict_of, warned
from stromboli.api.batch import Job
from stromboli.api.kinds import VC_JOB
from stromboli.api.wellknown import DEFAULT_QUEUE

__all__ = ["defaulted", "mutate", "queues_named", "validate"]


def mutate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:  # noqa: ARG001  # one signature for all
    patch = _patch(read(VC_JOB, review), review.object, conf)
    return Verdict(allowed=True, patch=patch.operations or None)


def defaulted(job: Job, manifest: Json, conf: AdmissionConf) -> Json:
    """The manifest of `job` with its defaults filled in."""
    return applied(manifest, _patch(job, manifest, conf).operations)


def validate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:
    job = read(VC_JOB, review)
    if review.operation == UPDATE:
        return _change(JobChange(old_of(VC_JOB, review), job), surroundings)
    name = name_of(review, job)
    case = JobCase(job, name, review.namespace, review.user_info, surroundings, conf)
    faults, skipped = job_faults(case)
    verdict = verdict_of(faults, message=strung(faults), skipped=skipped)
    return warned(verdict, warnings_about(case))


def queues_named(review: Review) -> set[str]:
    if review.operation == UPDATE:
        return set()
    return {read(VC_JOB, review).spec.queue or DEFAULT_QUEUE}


def _patch(job: Job, manifest: Json, conf: AdmissionConf) -> Patch:
    patch = Patch(manifest)
    draft = JobDraft(job, conf)
    for each in DEFAULTS:
        each.fill(draft, patch)
    return patch


def _change(change: JobChange, surroundings: Surroundings) -> Verdict:
    if change.old.spec == change.new.spec:
        return ALLOWED
    faults, _ = faults_of(UPDATE_RULES, change, surroundings)
    return verdict_of(faults, message=faults[0].text if faults else "")
