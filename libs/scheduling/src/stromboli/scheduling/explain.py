"""Why a job waits: one current reason, how much it is short of, and what would help.

The code is for programs, the sentence for people; Volcano's own wording comes first in a
PodGroup's condition, because people search for it. What would help is also what wakes the job:
until then nobody looks at it again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.plugins.api import Refusal
from stromboli.scheduling.pods import Task, TaskClass, TaskStatus, let_through
from stromboli.scheduling.reasons import GOES_ON, Code, Unblock
from stromboli.scheduling.resources import (
    PODS,
    Amounts,
    BoolPerNode,
    IntVector,
    added,
    readable,
)
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Placement

__all__ = [
    "NOT_LOOKED_AT",
    "Code",
    "Explanation",
    "Unblock",
    "fit_error",
    "held",
    "invalid",
    "left_over",
    "misplaced",
    "needed_at_once",
    "not_admitted",
    "not_complete",
    "overused",
    "refused",
    "waits_behind",
    "waits_for_release",
    "waits_for_victims",
]

_TOP: Final = 3
_ADMITTING: Final = frozenset({"enqueue", "allocate"})
"""Actions that do not leave a job that is new as it is."""


_BY_TURNS: Final = frozenset(
    {
        Unblock.CAPACITY,
        Unblock.ADMISSION,
        Unblock.SHARE,
        Unblock.VICTIMS,
        Unblock.TURN,
        Unblock.RESERVATION,
    }
)
"""What comes free is offered to one after the other."""
_CODES: Final = {code.value: code for code in Code}
_UNBLOCKED_BY: Final = {
    Code.MISCONFIGURED: Unblock.QUEUE,
    Code.RESERVED_FOR: Unblock.RESERVATION,
    Code.VOLUME_WAIT: Unblock.VOLUMES,
}
"""Of refusals; where nothing else is said, shares decide."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is not placed."""

    code: Code
    sentence: str
    unblock: Unblock
    short_by: Amounts = ()
    need: Amounts = ()
    """What must be free in the whole cluster before room that came free is worth a look."""
    queue: str = ""
    """The queue that must have room for `need` instead, where it is the queue that refuses."""
    origin: str = ""
    """Volcano's words about the pod that found no node."""
    pod: str = ""
    """Uid of that pod."""
    schedulable: int = 0
    """How many pending pods had found a node before one did not."""
    ahead: tuple[str, ...] = ()
    """The jobs of its queue whose turn comes first, as namespace/name; at most a few."""
    ahead_in_all: int = 0
    """How many they are."""
    since: float = 0.0
    """When it began to wait for this reason."""
    evaluated: float = 0.0
    """When it was last looked at."""

    @property
    def text(self) -> str:
        first = ""
        if self.ahead_in_all:
            more = ", …" if self.ahead_in_all > len(self.ahead) else ""
            comes = "comes" if self.ahead_in_all == 1 else "come"
            names = f"{', '.join(self.ahead)}{more}"
            first = f"{self.ahead_in_all} of its queue {comes} first ({names}); "
        return f"{self.code.value}: {self.sentence}; {first}{GOES_ON}{self.unblock.value}"

    @property
    def waits_its_turn(self) -> bool:
        """Whether it matters who is ahead of it."""
        return self.unblock in _BY_TURNS


NOT_LOOKED_AT: Final = Explanation(
    Code.PENDING_EVALUATION, "it came or was admitted just now", Unblock.TIME
)
"""Nobody has looked at the job, or at its pods, yet."""


def not_complete(contender: Contender) -> Explanation:
    job = contender.job
    have, least = contender.valid(), job.min_member
    missing = [
        f"{role} {contender.valid(role)} of {number}"
        for role, number in sorted(job.role_minimums.items())
        if contender.valid(role) < number
    ]
    if have < least:
        plural = "pod" if least == 1 else "pods"
        sentence = f"{have} of at least {least} {plural} exist and can still run"
    elif missing:
        sentence = f"not enough pods of each task: {', '.join(missing)}"
    else:
        sentence = "not enough whole sub-groups of its pods exist and can still run"
    if job.unfit:
        sentence += f"; {_set_aside(job)}"
    return Explanation(Code.GANG_INCOMPLETE, sentence, Unblock.JOB)


def _set_aside(job: Job) -> str:
    name, why = next(iter(sorted(job.unfit.items())))
    were = "1 of its pods was" if len(job.unfit) == 1 else f"{len(job.unfit)} of its pods were"
    return f"{were} set aside ({name}: {why}{'; …' if len(job.unfit) > 1 else ''})"


def held(job: Job) -> Explanation:
    """Pods that the gang can't do without are not to be placed yet: somebody gated them."""
    gated = [task for task in job.in_status(TaskStatus.PENDING) if task.gated]
    number, passing = len(gated), let_through(gated)
    sentence = f"{number} of its pods are held by scheduling gates, "
    if job.ready < job.min_member:
        sentence += f"and it needs {job.min_member} of {len(job.tasks)} at once"
    else:
        sentence += f"and it has the {job.min_member} that it needs"
    if passing:
        sentence += f"; its queue has room for {passing} of them and lets them through"
    return Explanation(Code.HELD, sentence, Unblock.JOB)


def left_over(contender: Contender, actions: Sequence[str]) -> Explanation:
    """No action had anything to say about the job, and it is not complete, or wants to grow."""
    job = contender.job
    if contender.valid() < job.min_member or any(
        contender.valid(role) < least for role, least in job.role_minimums.items()
    ):
        return not_complete(contender)
    is_shut_out = contender.phase == PodGroupPhase.PENDING and not _ADMITTING & set(actions)
    if (
        is_shut_out
        or (contender.waiting and "allocate" not in actions)
        or (contender.best_effort and "backfill" not in actions)
    ):
        sentence = f"none of the configured actions ({', '.join(actions)}) places its pods"
        return Explanation(Code.MISCONFIGURED, sentence, Unblock.CONFIGURATION)
    if job.unfit and not job.awaited:
        return Explanation(Code.GANG_INCOMPLETE, _set_aside(job), Unblock.JOB)
    return NOT_LOOKED_AT


def invalid(contender: Contender, refusal: Refusal) -> Explanation:
    """The job can't be placed whatever the cluster has."""
    if refusal.code:
        return refused(contender, refusal)
    return not_complete(contender)


def refused(contender: Contender, refusal: Refusal) -> Explanation:
    """A plugin says no to the job, or to what it asks for."""
    code = _CODES.get(refusal.code, Code.QUEUE_LIMIT)
    unblock = refusal.unblock or _UNBLOCKED_BY.get(code, Unblock.SHARE)
    schedulable = sum(contender.placed.values()) + sum(contender.pipelined.values())
    return Explanation(
        code,
        refusal.sentence or refusal.message,
        unblock,
        refusal.short_by,
        need=refusal.need,
        queue=contender.queue if refusal.need else "",
        origin=refusal.message,
        schedulable=schedulable,
    )


def overused(contender: Contender) -> Explanation:
    sentence = f"its queue {contender.queue!r} uses all that it deserves"
    return Explanation(Code.QUOTA_WAIT, sentence, Unblock.SHARE, queue=contender.queue)


def waits_behind(contender: Contender, head: Contender) -> Explanation:
    """Its queue keeps a strict order."""
    name = "/".join(head.key)
    sentence = f"its queue {contender.queue!r} is in strict order, and {name} ahead of it waits"
    return Explanation(Code.PRIORITY_WAIT, sentence, Unblock.TURN, ahead=(name,))


def waits_for_release(
    session: Session, contender: Contender, pipelined: Iterable[Placement]
) -> Explanation:
    """Pods wait on nodes where others are ending; or nobody is, and these are not bound yet."""
    waiting = sum(contender.pipelined.values())
    held = sum(contender.placed.values())
    placements = list(pipelined)
    if not _anybody_ends(session, placements):
        return _not_bound_yet(session, waiting, placements)
    return Explanation(
        Code.WAITING_FOR_RELEASE,
        f"{held} of its pods have room, {waiting} wait for pods that are ending",
        Unblock.CAPACITY,
        schedulable=held,
    )


def _anybody_ends(session: Session, placements: Sequence[Placement]) -> bool:
    """Whether somebody is ending, or was told to go, on the nodes of these."""
    slots = {slot for placement in placements for slot in placement.slots.tolist()}
    if any(eviction.slot in slots for eviction in session.trial.evicted.values()):
        return True
    return bool(session.nodes.releasing[:, sorted(slots)].any())


def _not_bound_yet(session: Session, waiting: int, placements: Sequence[Placement]) -> Explanation:
    """Room is free: who makes room keeps it for them, and leaves the binding to others."""
    sentence = f"there is room for {waiting} of its pods, "
    kinds = {placement.kind for placement in placements}
    binding = {"backfill" if kind.is_best_effort else "allocate" for kind in kinds}
    if binding <= set(session.actions):
        sentence += "and they are bound when it is looked at next"
        return Explanation(Code.PENDING_EVALUATION, sentence, Unblock.TIME)
    actions = ", ".join(session.actions)
    sentence += f"but none of the configured actions ({actions}) binds them"
    return Explanation(Code.MISCONFIGURED, sentence, Unblock.CONFIGURATION)


def waits_for_victims(contender: Contender, victims: Sequence[Task]) -> Explanation:
    """Others were told to make room for it."""
    named = ", ".join(f"{task.namespace}/{task.name}" for task in victims[:_TOP])
    more = f" and {len(victims) - _TOP} more" if len(victims) > _TOP else ""
    waiting = sum(contender.pipelined.values())
    return Explanation(
        Code.WAITING_FOR_VICTIMS,
        f"{waiting} of its pods wait for {named}{more} to make room",
        Unblock.CAPACITY,
        schedulable=sum(contender.placed.values()),
    )


def not_admitted(session: Session, contender: Contender, refusal: Refusal) -> Explanation:
    """The cluster or the queue is spoken for, or too small."""
    if refusal.code:
        return refused(contender, refusal)
    need = tuple(pair for pair in contender.job.min_resources if pair[0] != PODS)
    total, _ = session.totals()
    too_much = _beyond(need, total)
    if too_much:
        sentence = (
            f"it needs at least {readable(need)}, the whole cluster lacks {readable(too_much)}"
        )
        return Explanation(
            Code.EXCEEDS_MAX, sentence, Unblock.NODES, too_much, origin=refusal.message
        )
    sentence = refusal.message
    if refusal.short_by:
        sentence += f": short of {readable(refusal.short_by)}"
    return Explanation(Code.ENQUEUE_WAIT, sentence, Unblock.ADMISSION, refusal.short_by)


def misplaced(session: Session, contender: Contender, task: Task) -> Explanation:
    """A pod found no node. Look before the trial is rolled back: what the gang took counts."""
    feasible = session.choosing.outlook(contender, task.kind).feasible
    schedulable = sum(contender.placed.values()) + sum(contender.pipelined.values())
    origin = f"{task.name}: {fit_error(session, contender, task)}"
    code, sentence, unblock, short_by, need = _judge(session, contender, task, feasible)
    if unblock is Unblock.CAPACITY and session.choosing.neighbours.concerns(task):
        unblock, need = Unblock.COMPANY, ()
    return Explanation(
        code,
        sentence,
        unblock,
        short_by=short_by,
        need=need,
        origin=origin,
        pod=task.uid,
        schedulable=schedulable,
    )


def _judge(
    session: Session, contender: Contender, task: Task, feasible: BoolPerNode
) -> tuple[Code, str, Unblock, Amounts, Amounts]:
    kind, resources = task.kind, session.nodes.resources
    if not len(session.nodes):
        return Code.NODE_FILTER, "there are no nodes", Unblock.NODES, (), ()
    if not feasible.any():
        counts = _rejections(session, contender, task)
        top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_TOP]
        said = ", ".join(f"{number} {reason}" for reason, number in top)
        return Code.NODE_FILTER, f"no node is suitable: {said}", Unblock.NODES, (), ()
    if not session.choosing.admits(contender, task).any():
        counts = _rejections(session, contender, task)
        said = ", ".join(sorted(f"{number} {reason}" for reason, number in counts.items()))
        return Code.NODE_FILTER, f"no node is suitable: {said}", Unblock.COMPANY, (), ()
    request = resources.vector(kind.request)
    offered = session.allocatable[:, feasible]
    if not (request[:, None] <= offered).all(axis=0).any():
        largest = offered.max(axis=1)
        short_by = resources.amounts(request - largest)
        sentence = f"a pod needs {readable(_wanted(kind))}, no suitable node is that large"
        if short_by:
            sentence += f" (the largest lacks {readable(short_by)})"
        return Code.EXCEEDS_MAX, sentence, Unblock.NODES, short_by, ()
    need, missing = _need(contender, task)
    suitable = _suitable(session, contender)
    total: IntVector = session.allocatable[:, suitable].sum(axis=1)
    too_much = resources.amounts(resources.vector(need) - total)
    if too_much:
        sentence = (
            f"it needs {readable(need)} at once, all suitable nodes lack {readable(too_much)}"
        )
        return Code.EXCEEDS_MAX, sentence, Unblock.NODES, too_much, ()
    idle = np.maximum(session.trial.idle[:, suitable], 0).sum(axis=1)
    short_by = resources.amounts(resources.vector(missing) - idle)
    if short_by:
        sentence = f"it needs {readable(need)} at once, short of {readable(short_by)}"
        return Code.CLUSTER_FULL, sentence, Unblock.CAPACITY, short_by, need
    placed = sum(contender.placed.values())
    sentence = (
        f"enough is free in all, but no node has {readable(_wanted(kind))} left for one more pod "
        f"({placed} of those needed have found a place)"
    )
    return Code.FRAGMENTED, sentence, Unblock.CAPACITY, (), need


def needed_at_once(contender: Contender, task: Task) -> Amounts:
    """What must be placed before the gang may start, or its next pod."""
    return _need(contender, task)[0]


def _need(contender: Contender, task: Task) -> tuple[Amounts, Amounts]:
    """What must be placed before the gang may start, and the part that has found no place.

    For a gang that runs already it is its next pod.
    """
    if not contender.deficit:
        return task.kind.request, task.kind.request
    already = contender.seated
    number = already + contender.deficit
    return (
        added(task.kind.request for task in contender.waiting[:number]),
        added(task.kind.request for task in contender.waiting[already:number]),
    )


def _suitable(session: Session, contender: Contender) -> BoolPerNode:
    mask = np.zeros(len(session.nodes), dtype=np.bool_)
    for kind in dict.fromkeys(task.kind for task in (*contender.waiting, *contender.best_effort)):
        mask |= session.choosing.outlook(contender, kind).feasible
    return mask


def _rejections(session: Session, contender: Contender, task: Task) -> dict[str, int]:
    """Nodes by the first filter they fail."""
    return _refused(session, contender, task)[0]


def _refused(
    session: Session, contender: Contender, task: Task, slots: IntVector | None = None
) -> tuple[dict[str, int], BoolPerNode]:
    """Nodes by the first filter they fail, and those that fail none."""
    choosing = session.choosing
    counts: dict[str, int] = {}
    left = np.full(len(session.nodes), slots is None)
    if slots is not None:
        left[slots] = True
    for verdict in (*choosing.verdicts(contender, task.kind), *choosing.company(task)):
        failed = int((left & ~verdict.passes).sum())
        if failed:
            counts[verdict.reason] = counts.get(verdict.reason, 0) + failed
        left &= verdict.passes
    return counts, left


def fit_error(
    session: Session,
    contender: Contender,
    task: Task,
    slots: IntVector | None = None,
    *,
    otherwise: str = "there is room for it alone, but not with all that it needs beside it",
) -> str:
    """Volcano's words for why no node, or none of these, takes the pod.

    `otherwise` is said where each node would, by itself.
    """
    counts, left = _refused(session, contender, task, slots)
    for name, units in task.kind.request:
        lacking = left & (session.trial.idle[session.nodes.resources.row(name)] < units)
        failed = int(lacking.sum())
        if failed:
            reason = "node(s) pod number exceeded" if name == PODS else f"Insufficient {name}"
            counts[reason] = counts.get(reason, 0) + failed
        left &= ~lacking
    said = ", ".join(sorted(f"{number} {reason}" for reason, number in counts.items()))
    number = len(session.nodes) if slots is None else len(slots)
    return f"0/{number} nodes are unavailable: {said or otherwise}."


def _wanted(kind: TaskClass) -> Amounts:
    return tuple(pair for pair in kind.request if pair[0] != PODS) or kind.request


def _beyond(need: Amounts, have: dict[str, int]) -> Amounts:
    return tuple(
        (name, units - have.get(name, 0)) for name, units in need if units > have.get(name, 0)
    )
