"""JobFlows: jobs that wait for each other must not do so in circles."""

from dataclasses import dataclass
from typing import Final

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.graphs import cycle_in, undefined_in
from stromboli.admitting.names import in_brackets, qualified_name_faults
from stromboli.admitting.paths import UPDATE
from stromboli.admitting.questions import ALLOWED, Review, Surroundings, Verdict
from stromboli.admitting.reading import name_of, old_of, read
from stromboli.admitting.rules import OURS, Cel, Faults, Rule, faults_of, rule, verdict_of
from stromboli.api.kinds import JOB_FLOW

__all__ = ["RULES", "FlowCase", "queues_named", "validate"]


@dataclass(frozen=True, slots=True)
class FlowCase:
    """Who waits for whom; of flows with one name the last counts, as in Volcano."""

    graph: dict[str, tuple[str, ...]]
    name: str = ""


@rule(
    "jobflow-targets",
    says="jobflow Flow is not DAG: vertex is not defined: %s",
    about="a flow waits for flows of the same JobFlow",
    cel=Cel(
        "!has(object.spec.flows) || object.spec.flows.all(f, !has(f.dependsOn) || "
        "!has(f.dependsOn.targets) || f.dependsOn.targets.all(t, "
        "object.spec.flows.exists(o, o.name == t)))",
        "jobflow Flow is not DAG: vertex is not defined",
    ),
)
def targets_defined(case: FlowCase) -> Faults:
    missing = undefined_in(case.graph)
    if missing is not None:
        yield (missing,)


@rule(
    "jobflow-circle",
    says="jobflow Flow is not DAG: %s",
    about="flows do not wait for each other in circles; the message names one",
)
def no_circle(case: FlowCase) -> Faults:
    circle = cycle_in(case.graph)
    if circle:
        yield (" -> ".join(circle),)


@rule(
    "jobflow-job-name",
    says="create job with name %s validate failed %s",
    about="the jobs, named `<JobFlow>-<JobTemplate>`, have names of at most 63 characters",
    origin=OURS,
)
def job_names(case: FlowCase) -> Faults:
    for template in case.graph if case.name else ():
        job = f"{case.name}-{template}"
        faults = qualified_name_faults(job)
        if faults:
            yield job, in_brackets(faults)


RULES: Final[tuple[Rule[FlowCase], ...]] = (targets_defined, no_circle, job_names)


def validate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:  # noqa: ARG001  # one signature for all
    item = read(JOB_FLOW, review)
    flows = item.spec.flows
    if review.operation == UPDATE and old_of(JOB_FLOW, review).spec == item.spec:
        return ALLOWED
    graph = {flow.name: flow.depends_on.targets if flow.depends_on else () for flow in flows}
    faults, _ = faults_of(RULES, FlowCase(graph, name_of(review, item)), surroundings)
    return verdict_of(faults, message=faults[0].text if faults else "")


def queues_named(_: Review) -> set[str]:
    return set()
