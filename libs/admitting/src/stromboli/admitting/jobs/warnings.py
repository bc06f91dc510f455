"""What is accepted and will most likely not do what its author wants.

Users see a warning where they see a refusal, but the job is created: there may be schedulers and
configurations in which it makes sense.
"""

from typing import Final

from stromboli.admitting.jobs.cases import JobCase
from stromboli.admitting.rules import OURS, Faults, Rule, faults_of, rule
from stromboli.api.task_order import startable_at_first, waits_for

__all__ = ["WARNING_RULES", "warnings_about"]


@rule(
    "job-order-and-gang",
    says="minAvailable is %d, but of the pods only %d can start before the tasks that depend on "
    "others, so the job would wait for ever: set spec.minAvailable to at most %d",
    about="the tasks that wait for no other have as many pods as the job needs to start",
    origin=OURS,
)
def gang_can_start(case: JobCase) -> Faults:
    spec = case.job.spec
    first = startable_at_first(spec)
    if any(map(waits_for, spec.tasks)) and spec.min_available > first:
        yield spec.min_available, first, first


WARNING_RULES: Final[tuple[Rule[JobCase], ...]] = (gang_can_start,)


def warnings_about(case: JobCase) -> tuple[str, ...]:
    faults, _ = faults_of(WARNING_RULES, case, case.surroundings)
    return tuple(fault.text for fault in faults)
