"""A PodGroup's phase, conditions and counts, with Volcano's reasons and wording.

Nothing here writes: it says what the status should be. A condition whose words alone would
change is left as it stands for half a minute, because amounts that are free change with every
pod and nobody reads that fast.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from stromboli.api.errors import TimestampError
from stromboli.api.scheduling import (
    PodGroupCondition,
    PodGroupConditionType,
    PodGroupPhase,
    PodGroupStatus,
)
from stromboli.api.timestamps import format_time, parse_time
from stromboli.scheduling.explain import Code, Explanation
from stromboli.scheduling.jobs import READY, Job
from stromboli.scheduling.pods import TaskStatus

__all__ = [
    "condition_of",
    "fit_error",
    "is_ready",
    "next_status",
    "phase_of",
    "says",
    "status_patch",
    "waiting_since",
    "wants_more",
]

NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
READY_REASON: Final = "tasks in gang are ready to be scheduled"
NOT_READY: Final = "pod group is not ready"

_SCHEDULED: Final = (
    TaskStatus.RUNNING,
    TaskStatus.BOUND,
    TaskStatus.FAILED,
    TaskStatus.SUCCEEDED,
)
_READY: Final = PodGroupCondition(
    type=PodGroupConditionType.SCHEDULED, status="True", reason=READY_REASON
)
_PLACED: Final = (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED)
_REWORD_AFTER_S: Final = 30.0


def next_status(
    job: Job, *, phase: str, explanation: Explanation | None, now: float
) -> PodGroupStatus:
    """The status that the PodGroup should have; `explanation` is why it is not complete."""
    conditions = job.status.conditions
    unschedulable = False
    ready = is_ready(job)
    if explanation is not None and not ready:
        if not _is_only_ending(job):
            unschedulable = bool(job.tasks)
            conditions = _with(
                conditions, _unschedulable(job, explanation), job, explanation, explanation.since
            )
            if _differ_only_in_words(conditions, job.status.conditions, explanation):
                worth_it = now >= job.worded_at + _REWORD_AFTER_S
                conditions = conditions if worth_it else job.status.conditions
    elif job.tasks and ready:
        conditions = _with(conditions, _READY, job, None, now)
    return PodGroupStatus(
        phase=phase_of(job, phase, unschedulable=unschedulable),
        conditions=conditions,
        running=job.by_status.get(TaskStatus.RUNNING, 0),
        succeeded=job.by_status.get(TaskStatus.SUCCEEDED, 0),
        failed=job.by_status.get(TaskStatus.FAILED, 0),
    )


def condition_of(conditions: Iterable[PodGroupCondition], type_: str) -> PodGroupCondition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def is_ready(job: Job) -> bool:
    """Whether the gang's minimum is met by pods that have a place or have finished.

    Nobody can say that of a PodGroup that is set aside before it began.
    """
    if job.problem and not job.ready:
        return False
    return job.ready >= job.min_member and all(
        job.count(*READY, role=role) >= least for role, least in job.role_minimums.items()
    )


def wants_more(job: Job) -> bool:
    """Whether it is not complete, or has pods without a place beyond that."""
    return bool(job.awaited or job.unfit) or not is_ready(job)


def phase_of(job: Job, phase: str, *, unschedulable: bool = False) -> str:
    """Volcano's, but a job with running pods is not sent back to Pending: it was admitted."""
    running = job.by_status.get(TaskStatus.RUNNING, 0)
    if running and unschedulable:
        return PodGroupPhase.UNKNOWN
    scheduled = job.count(*_SCHEDULED)
    if TaskStatus.RELEASING in job.by_status:
        scheduled += sum(bool(task.node) for task in job.in_status(TaskStatus.RELEASING))
    if job.tasks and scheduled and scheduled >= job.min_member:
        ended = job.count(TaskStatus.SUCCEEDED, TaskStatus.FAILED)
        return PodGroupPhase.COMPLETED if ended == scheduled else PodGroupPhase.RUNNING
    if running and phase in {PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN}:
        return phase
    return phase if phase == PodGroupPhase.INQUEUE else PodGroupPhase.PENDING


def fit_error(job: Job, explanation: Explanation) -> str:
    """`pod group is not ready, 6 Pending, 6 minAvailable; Pending: 3 Schedulable, …`."""
    text = f"{NOT_READY}, {_histogram({**job.histogram(), 'minAvailable': job.min_member})}"
    pending = job.count(TaskStatus.PENDING)
    if pending:
        schedulable = min(pending, explanation.schedulable)
        parts = {"Schedulable": schedulable, "Unschedulable": pending - schedulable}
        text += f"; Pending: {_histogram({k: v for k, v in parts.items() if v})}"
    if explanation.origin:
        text += f". Origin reason is {explanation.origin}"
    return text


def _histogram(counts: dict[str, int]) -> str:
    return ", ".join(sorted(f"{number} {name}" for name, number in counts.items()))


def _unschedulable(job: Job, explanation: Explanation) -> PodGroupCondition:
    if explanation.origin == explanation.sentence:
        explanation = replace(explanation, origin="")  # once is enough
    if job.tasks:
        missing = max(0, job.min_member - job.ready - explanation.schedulable)
        said = f"{missing}/{len(job.tasks)} tasks in gang unschedulable: "
        said += fit_error(job, explanation)
        said = f"{said.rstrip('.')}. {explanation.text}"
    else:
        origin = explanation.origin.rstrip(".")
        said = f"{origin}. {explanation.text}" if origin else explanation.text
    return PodGroupCondition(
        type=PodGroupConditionType.UNSCHEDULABLE,
        status="True",
        reason=NOT_ENOUGH_RESOURCES,
        message=said,
    )


def _is_only_ending(job: Job) -> bool:
    """Pods that are ending would make up the gang: that is an end, not a shortage."""
    ending = job.count(TaskStatus.RELEASING)
    return bool(ending) and ending >= job.min_member and not job.count(TaskStatus.PENDING)


def _with(
    conditions: tuple[PodGroupCondition, ...],
    wanted: PodGroupCondition,
    job: Job,
    explanation: Explanation | None,
    since: float,
) -> tuple[PodGroupCondition, ...]:
    """The conditions with this one in the place of its type, or at the end."""
    for place, standing in enumerate(conditions):
        if standing.type == wanted.type:
            if _says_the_same(standing, wanted, explanation, since):
                return conditions
            stamped = _stamped(wanted, job.uid, since)
            return (*conditions[:place], stamped, *conditions[place + 1 :])
    return (*conditions, _stamped(wanted, job.uid, since))


def _stamped(condition: PodGroupCondition, uid: str, since: float) -> PodGroupCondition:
    shown, exact = _texts_of(since)
    return msgspec.structs.replace(
        condition,
        last_transition_time=shown,
        transition_id=_transition_id(uid, condition, exact),
    )


@lru_cache(maxsize=64)
def _texts_of(when: float) -> tuple[str, str]:
    """As objects show it, and exactly; a cycle with many jobs is one moment."""
    moment = datetime.fromtimestamp(when, tz=UTC)
    return format_time(moment), moment.isoformat()


def _says_the_same(
    standing: PodGroupCondition,
    wanted: PodGroupCondition,
    explanation: Explanation | None,
    since: float,
) -> bool:
    is_same = (standing.status, standing.reason, standing.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )
    # That a job waits anew for the old reason is worth saying; that it is ready is not.
    return is_same and (explanation is None or standing.last_transition_time == _texts_of(since)[0])


def _differ_only_in_words(
    wanted: tuple[PodGroupCondition, ...],
    standing: tuple[PodGroupCondition, ...],
    explanation: Explanation,
) -> bool:
    """The code is the same, and has been so since then."""
    before = condition_of(standing, PodGroupConditionType.UNSCHEDULABLE)
    after = condition_of(wanted, PodGroupConditionType.UNSCHEDULABLE)
    return (
        before is not None
        and after is not None
        and before.last_transition_time == after.last_transition_time
        and says(before, explanation.code)
    )


def says(condition: PodGroupCondition, code: Code) -> bool:
    """Whether it was written for this reason."""
    return f"{code.value}: " in condition.message


def waiting_since(job: Job, code: Code) -> float | None:
    """Since when the job waits for this reason, as a predecessor of ours wrote it down."""
    standing = condition_of(job.status.conditions, PodGroupConditionType.UNSCHEDULABLE)
    if standing is None or not says(standing, code) or job.status.phase in _PLACED:
        return None
    try:
        return parse_time(standing.last_transition_time or "").timestamp()
    except TimestampError:
        return None


def _transition_id(uid: str, condition: PodGroupCondition, moment: str) -> str:
    """Looks like Volcano's random one, but is the same for the same decision."""
    said = f"{uid}/{condition.type}/{condition.message}/{moment}"
    digits = blake2b(said.encode(), digest_size=16).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def status_patch(status: PodGroupStatus) -> bytes:
    """A merge patch; counts that are zero are taken out, as Go leaves them out."""
    body: dict[str, Any] = {
        "phase": status.phase,
        "conditions": status.conditions or None,
        "running": status.running or None,
        "succeeded": status.succeeded or None,
        "failed": status.failed or None,
    }
    return msgspec.json.encode({"status": body})
