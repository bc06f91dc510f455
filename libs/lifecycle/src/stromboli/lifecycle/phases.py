"""The life of a job as a table: in this phase, this action has this effect.

Everything that moves a job from one phase to another is in `TABLE` and in the rules it names;
no other module sets a phase. The rows are Volcano's. A kill is entered once, by the change of
phase, and then goes on as long as the phase lasts: what a phase wants is worked out anew from
what is there each time, so a decision that was only half carried out is completed by the next.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from stromboli.api.batch import Action, Job, JobPhase
from stromboli.lifecycle.census import Census

__all__ = [
    "ENDS_IN",
    "FINISHED",
    "KILLING",
    "LEADS_TO",
    "TABLE",
    "TARGETED",
    "Effect",
    "Keep",
    "Rule",
    "What",
    "effect_of",
    "phase_of",
    "retries_after",
    "settled",
    "total_replicas",
]


class What(StrEnum):
    """What happens to the job's pods."""

    SYNC = "sync"
    """Missing ones are created, surplus ones deleted."""
    KILL = "kill"
    """All end, but those that are kept."""
    KILL_TARGET = "kill target"
    """Those of one task, partition or pod end; what is missing is created again."""


class Keep(StrEnum):
    """Which pods a kill spares."""

    NOTHING = "nothing"
    SUCCEEDED = "succeeded"
    """Those whose work is done; a Failed one is made again."""
    FINISHED = "finished"
    """Succeeded and Failed ones: people read their logs."""


class Rule(StrEnum):
    """When the phase changes although no action says so."""

    STAY = "stay"
    ONCE_AVAILABLE = "running once minAvailable pods have started"
    AS_PODS_END = "completed or failed once all pods have ended"
    ONCE_RESTARTED = "pending once the old pods are gone, failed after maxRetry"
    ONCE_ENDED = "ended once no pod is alive"


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    what: What
    keep: Keep = Keep.FINISHED
    enters: JobPhase | None = None
    """The phase that the action itself leads to."""
    counts_as_retry: bool = False
    begins_version: bool = False
    """A kill begins here: the pods of before belong to an old version of the job from now on."""
    rule: Rule = Rule.STAY


_ACTIONS: Final = frozenset(Action)
TARGETED: Final = frozenset({Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION})
"""These are about some of the job's pods."""


def _begin_kill(
    enters: JobPhase, *, keep: Keep = Keep.FINISHED, counts_as_retry: bool = False
) -> Effect:
    return Effect(
        what=What.KILL,
        keep=keep,
        enters=enters,
        counts_as_retry=counts_as_retry,
        begins_version=True,
    )


_RESTART: Final = _begin_kill(JobPhase.RESTARTING, keep=Keep.NOTHING, counts_as_retry=True)
_RESTART_TARGET: Final = Effect(
    what=What.KILL_TARGET, enters=JobPhase.RESTARTING, counts_as_retry=True
)
_RESUME: Final = _begin_kill(JobPhase.RESTARTING, keep=Keep.SUCCEEDED, counts_as_retry=True)
_ENDS: Final[dict[Action, Effect]] = {
    Action.ABORT_JOB: _begin_kill(JobPhase.ABORTING),
    Action.COMPLETE_JOB: _begin_kill(JobPhase.COMPLETING),
    Action.TERMINATE_JOB: _begin_kill(JobPhase.TERMINATING),
}
_WHILE_ALIVE: Final[dict[Action, Effect]] = {
    Action.RESTART_JOB: _RESTART,
    **dict.fromkeys(sorted(TARGETED), _RESTART_TARGET),
    **_ENDS,
}
_END_IT: Final = Effect(what=What.KILL, rule=Rule.ONCE_ENDED)
_IT_ENDED: Final = Effect(what=What.KILL)

_RESTARTING_SYNC: Final = Effect(what=What.SYNC, rule=Rule.ONCE_RESTARTED)
_RESTARTING_AGAIN: Final = Effect(
    what=What.KILL, keep=Keep.NOTHING, begins_version=True, rule=Rule.ONCE_RESTARTED
)
_RESTARTING_TARGET: Final = Effect(what=What.KILL_TARGET, rule=Rule.ONCE_RESTARTED)

TABLE: Final[Mapping[JobPhase, tuple[Mapping[Action, Effect], Effect]]] = {
    # phase: (what these actions do, what every other action does)
    JobPhase.PENDING: (_WHILE_ALIVE, Effect(what=What.SYNC, rule=Rule.ONCE_AVAILABLE)),
    JobPhase.RUNNING: (_WHILE_ALIVE, Effect(what=What.SYNC, rule=Rule.AS_PODS_END)),
    JobPhase.RESTARTING: (
        {
            Action.RESTART_JOB: _RESTARTING_AGAIN,
            **dict.fromkeys(sorted(TARGETED), _RESTARTING_TARGET),
            **_ENDS,
        },
        _RESTARTING_SYNC,
    ),
    JobPhase.ABORTING: ({Action.RESUME_JOB: _RESUME}, _END_IT),
    JobPhase.ABORTED: ({Action.RESUME_JOB: _RESUME}, _IT_ENDED),
    JobPhase.COMPLETING: ({}, _END_IT),
    JobPhase.TERMINATING: ({}, _END_IT),
    JobPhase.COMPLETED: ({}, _IT_ENDED),
    JobPhase.FAILED: ({}, _IT_ENDED),
    JobPhase.TERMINATED: ({}, _IT_ENDED),
}

ENDS_IN: Final[Mapping[JobPhase, JobPhase]] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
}

LEADS_TO: Final[Mapping[Rule, Mapping[JobPhase, str]]] = {
    Rule.STAY: {},
    Rule.ONCE_AVAILABLE: {
        JobPhase.RUNNING: "minAvailable pods have started",
        JobPhase.FAILED: "all pods ended, the others wait for tasks that failed",
    },
    Rule.AS_PODS_END: {
        JobPhase.COMPLETED: "enough pods succeeded",
        JobPhase.FAILED: "all pods ended, too few succeeded",
        JobPhase.PENDING: "fewer than minAvailable pods run",
    },
    Rule.ONCE_RESTARTED: {
        JobPhase.PENDING: "the old pods are gone",
        JobPhase.FAILED: "maxRetry is reached",
    },
    Rule.ONCE_ENDED: dict.fromkeys(ENDS_IN.values(), "no pod is alive"),
}
"""Where a rule may lead, and when; the last leads to what the phase ends in."""

FINISHED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
"""A job in one of these never runs again."""

KILLING: Final = FINISHED | {*ENDS_IN, JobPhase.ABORTED}
"""In these every pod ends; nothing that happens to a pod means anything any more."""


def phase_of(job: Job) -> JobPhase:
    """A job that nobody looked at yet, or whose phase nobody knows, is Pending."""
    try:
        return JobPhase(job.status.state.phase)
    except ValueError:
        return JobPhase.PENDING


def effect_of(phase: JobPhase, action: str) -> Effect:
    """The row of the table; an action that nobody knows is like any other."""
    rows, otherwise = TABLE[phase]
    known = Action(action) if action in _ACTIONS else Action.SYNC_JOB
    return rows.get(known, otherwise)


def settled(
    rule: Rule, phase: JobPhase, job: Job, census: Census, *, retry_count: int, unstartable: int = 0
) -> JobPhase:
    """The phase that the pods lead to by themselves.

    `unstartable` pods are missing and never start, because tasks that they depend on failed.
    """
    match rule:
        case Rule.STAY:
            return phase
        case Rule.ONCE_AVAILABLE:
            return _once_available(job, phase, census, unstartable)
        case Rule.AS_PODS_END:
            return _as_pods_end(job, census, unstartable)
        case Rule.ONCE_RESTARTED:
            if retry_count >= job.spec.max_retry:
                return JobPhase.FAILED
            free = total_replicas(job) - census.terminating
            return JobPhase.PENDING if free >= job.spec.min_available else phase
        case Rule.ONCE_ENDED:
            alive = census.terminating + census.pending + census.running
            return phase if alive else ENDS_IN[phase]


def retries_after(job: Job, effect: Effect) -> int:
    """`status.retryCount` after this effect; it never passes maxRetry by our doing."""
    before = job.status.retry_count
    if not effect.counts_as_retry:
        return before
    return max(before, min(before + 1, job.spec.max_retry))


def total_replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)


def _once_available(job: Job, phase: JobPhase, census: Census, unstartable: int) -> JobPhase:
    started = census.running + census.succeeded + census.failed
    if job.spec.min_available <= started:
        return JobPhase.RUNNING
    ended = census.succeeded + census.failed + unstartable
    return JobPhase.FAILED if unstartable and ended == total_replicas(job) else phase


def _as_pods_end(job: Job, census: Census, unstartable: int) -> JobPhase:
    total = total_replicas(job)
    min_success = job.spec.min_success
    if total == 0:
        return JobPhase.RUNNING
    if min_success is not None and census.succeeded >= min_success:
        return JobPhase.COMPLETED
    if census.succeeded + census.failed + unstartable == total:
        short = min_success is not None and census.succeeded < min_success
        if _a_task_failed(job, census) or short or census.succeeded < job.spec.min_available:
            return JobPhase.FAILED
        return JobPhase.COMPLETED
    if census.pending > total - job.spec.min_available:
        return JobPhase.PENDING
    return JobPhase.RUNNING


def _a_task_failed(job: Job, census: Census) -> bool:
    """A task with a minimum of its own has fewer successes than that."""
    wanted = sum(task.min_available or 0 for task in job.spec.tasks)
    if job.spec.min_available < wanted:
        return False
    return any(
        task.min_available is not None
        and task.name in census.tasks
        and census.tasks[task.name].get("Succeeded", 0) < task.min_available
        for task in job.spec.tasks
    )
