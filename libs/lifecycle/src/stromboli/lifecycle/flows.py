"""Make the jobs of a flow, each when those it depends on have done their part.

A job that failed stops the flow from starting more; those that run go on. Whoever wants to
try again resumes the failed job, or deletes it, and then it is made anew; one that is collected
after its time to live is not. A flow that succeeded is over: its jobs are not made again,
whatever becomes of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from stromboli.api import kinds
from stromboli.api.batch import Job, JobPhase, JobSpec
from stromboli.api.core import Pod
from stromboli.api.errors import ApiError
from stromboli.api.flow import Flow, FlowPhase, JobFlow, JobFlowStatus, JobTemplate, RetainPolicy
from stromboli.api.kinds import controller_reference
from stromboli.api.meta import ObjectMeta
from stromboli.api.wellknown import CREATED_BY_JOB_FLOW, CREATED_BY_JOB_TEMPLATE
from stromboli.contracts.stimuli import Probe
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.flow_graphs import problem_of
from stromboli.lifecycle.flow_patches import patched
from stromboli.lifecycle.flow_probes import Answer, judge
from stromboli.lifecycle.flow_statuses import flow_status, phase_of_job
from stromboli.lifecycle.manifests import compact_manifest
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.telling import tell, warn

__all__ = ["FlowDecision", "FlowSituation", "decide_flow"]

_FLOW: Final = kinds.JOB_FLOW.token
_JOB: Final = kinds.VC_JOB.token
_LONGEST_LABEL: Final = 63


class FlowSituation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision about a JobFlow rests on."""

    key: str
    flow: JobFlow
    jobs: Mapping[str, Job] = msgspec.field(default_factory=dict)
    """By name, those that it controls."""
    ended: Mapping[str, Job] = msgspec.field(default_factory=dict)
    """By name, those that ended and are gone, as they were seen last."""
    template: Callable[[str], JobTemplate | None]
    pods_of: Callable[[Job], Sequence[Pod]]
    answers: Mapping[str, Answer] = msgspec.field(default_factory=dict)
    trouble: str = ""
    now: float


class FlowDecision(msgspec.Struct, frozen=True, kw_only=True):
    questions: tuple[Probe, ...] = ()
    look_again_at: float | None = None


class _Dependency(msgspec.Struct, frozen=True, kw_only=True):
    is_met: bool
    questions: tuple[Probe, ...] = ()
    look_again_at: float | None = None


def decide_flow(situation: FlowSituation, asker: Asker) -> FlowDecision:
    """One decision about one JobFlow."""
    flow, now = situation.flow, situation.now
    if flow.metadata.deletion_timestamp is not None:
        return FlowDecision()
    if situation.trouble:
        warn(asker, flow, "FailedCreate", situation.trouble, now=now)
    steps = {step.name: step for step in flow.spec.flows}  # the last of a name wins
    wanted = {_job_name(flow, step.name): _time_to_live(situation, step) for step in steps.values()}
    jobs = {name: job for name, job in situation.jobs.items() if name in wanted}
    ended = {name: job for name, job in situation.ended.items() if name in wanted}
    status = flow_status(flow.status, jobs, wanted=wanted, ended=ended, now=now)
    decision = FlowDecision()
    problem = problem_of(steps)
    if problem:
        warn(asker, flow, "InvalidFlow", problem, now=now)
    elif status.state.phase in {FlowPhase.PENDING, FlowPhase.RUNNING}:
        decision = _advance(situation, steps, status, asker)
    _write_status(flow, status, asker)
    if flow.status.state.phase == FlowPhase.SUCCEED:
        _clear_up(situation, asker)
    return decision


def _job_name(flow: JobFlow, template: str) -> str:
    return f"{flow.metadata.name}-{template}"


def _time_to_live(situation: FlowSituation, step: Flow) -> int | None:
    """Of the job that was made for a step: as it was last seen, or as it would be made now."""
    job = situation.ended.get(_job_name(situation.flow, step.name))
    if job is not None:
        return job.spec.ttl_seconds_after_finished
    template = situation.template(step.name)
    if template is None:
        return None
    try:
        return _spec(template, step).ttl_seconds_after_finished
    except ApiError:
        return None  # told of where the job would be made


def _spec(template: JobTemplate, step: Flow) -> JobSpec:
    return patched(template.spec, step.patch.job_spec if step.patch is not None else None)


def _write_status(flow: JobFlow, status: JobFlowStatus, asker: Asker) -> None:
    patch = merge_patch(msgspec.to_builtins(flow.status), msgspec.to_builtins(status))
    if patch:
        metadata = flow.metadata
        asker.patch(
            _FLOW,
            metadata.namespace,
            metadata.name,
            uid=metadata.uid,
            body={"status": patch},
            subresource="status",
        )


def _clear_up(situation: FlowSituation, asker: Asker) -> None:
    """Only after the status says that it succeeded: it is what is left of the jobs."""
    if situation.flow.spec.job_retain_policy != RetainPolicy.DELETE:
        return
    for job in situation.jobs.values():
        metadata = job.metadata
        if metadata.deletion_timestamp is None:
            asker.delete(_JOB, metadata.namespace, metadata.name, uid=metadata.uid)


# Starting what can be started.


def _advance(
    situation: FlowSituation, steps: Mapping[str, Flow], status: JobFlowStatus, asker: Asker
) -> FlowDecision:
    flow = situation.flow
    known = {
        *situation.jobs,
        *status.completed_jobs,
        *status.failed_jobs,
        *status.terminated_jobs,
    }
    questions: dict[str, Probe] = {}
    again: list[float] = []
    for name, step in steps.items():
        if _job_name(flow, name) in known:
            continue
        waits = [_dependency(situation, step, target, status) for target in _targets(step)]
        for dependency in waits:
            questions.update({question.id: question for question in dependency.questions})
            if dependency.look_again_at is not None:
                again.append(dependency.look_again_at)
        if all(dependency.is_met for dependency in waits):
            _make_job(situation, step, asker)
    return FlowDecision(
        questions=tuple(questions.values()), look_again_at=min(again) if again else None
    )


def _targets(step: Flow) -> Sequence[str]:
    return step.depends_on.targets if step.depends_on is not None else ()


def _dependency(
    situation: FlowSituation, step: Flow, target: str, status: JobFlowStatus
) -> _Dependency:
    name = _job_name(situation.flow, target)
    job = situation.jobs.get(name)
    if name in status.completed_jobs:
        return _Dependency(is_met=True)
    probe = step.depends_on.probe if step.depends_on is not None else None
    if job is None or probe is None or phase_of_job(job) == JobPhase.COMPLETED:
        return _Dependency(is_met=False)
    result = judge(
        probe,
        job,
        situation.pods_of(job),
        situation.answers,
        key=situation.key,
        now=situation.now,
    )
    return _Dependency(
        is_met=result.holds, questions=result.questions, look_again_at=result.look_again_at
    )


def _make_job(situation: FlowSituation, step: Flow, asker: Asker) -> None:
    flow, now = situation.flow, situation.now
    template = situation.template(step.name)
    if template is None:
        message = (
            f"the JobTemplate {step.name} does not exist in namespace {flow.metadata.namespace}; "
            "the flow goes on when it does"
        )
        warn(asker, flow, "TemplateNotFound", message, now=now)
        return
    try:
        spec = _spec(template, step)
    except ApiError as problem:
        warn(asker, flow, "InvalidPatch", f"{step.name}: {problem}", now=now)
        return
    job = Job(metadata=_metadata(flow, step.name), spec=spec)
    asker.create(_JOB, compact_manifest(job), owner_uid=flow.metadata.uid)
    message = f"create a job named {job.metadata.name}!"
    tell(asker, flow, "Created", message, now=now, once_for=str(asker.basis.decision))


def _metadata(flow: JobFlow, template: str) -> ObjectMeta:
    namespace = flow.metadata.namespace
    origin = {
        CREATED_BY_JOB_TEMPLATE: f"{namespace}.{template}",
        CREATED_BY_JOB_FLOW: f"{namespace}.{flow.metadata.name}",
    }
    return ObjectMeta(
        name=_job_name(flow, template),
        namespace=namespace,
        # The annotations say it too, and they may be as long as they are.
        labels={key: value for key, value in origin.items() if len(value) <= _LONGEST_LABEL},
        annotations=origin,
        owner_references=(controller_reference(flow),),
    )
