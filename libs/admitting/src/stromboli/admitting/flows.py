"""JobFlows: jobs that wait for each other must not do so in circles."""

from dataclasses import dataclass
from typing import Final

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.graphs import cycle_in, undefined_in
from stromboli.admitting.questions import Review, Surroundings, Verdict
from stromboli.admitting.reading import read
from stromboli.admitting.rules import Cel, Faults, Rule, faults_of, rule, verdict_of
from stromboli.api.kinds import JOB_FLOW

__all__ = ["RULES", "FlowCase", "queues_named", "validate"]


@dataclass(frozen=True, slots=True)
class FlowCase:
    """Who waits for whom; of flows with one name the last counts, as in Volcano."""

    graph: dict[str, tuple[str, ...]]


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


RULES: Final[tuple[Rule[FlowCase], ...]] = (targets_defined, no_circle)


def validate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:  # noqa: ARG001  # one signature for all
    flows = read(JOB_FLOW, review).spec.flows
    graph = {flow.name: flow.depends_on.targets if flow.depends_on else () for flow in flows}
    faults, _ = faults_of(RULES, FlowCase(graph), surroundings)
    return verdict_of(faults, message=faults[0].text if faults else "")


def queues_named(_: Review) -> set[str]:
    return set()
