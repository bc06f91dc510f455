"""Give admitted jobs their nodes: a gang whole or not at all, then its extras one by one.

A job's first turn ends as soon as its gang is complete; what it wants beyond that waits for
another turn, behind the gangs that are not complete yet.
"""

from collections.abc import Iterator

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.actions.turns import Turns
from stromboli.scheduling.decisions import Commit, Decisions
from stromboli.scheduling.explain import Code, Explanation, Unblock, misplaced, not_complete
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.session import Session

__all__ = ["run", "runs"]


def run(session: Session, decisions: Decisions) -> None:
    turns = Turns(session, _candidates(session, decisions))
    while (contender := turns.pop()) is not None:
        if _take_turn(session, contender, decisions):
            turns.push(contender)


def _candidates(session: Session, decisions: Decisions) -> Iterator[Contender]:
    for contender in session.contenders.values():
        if contender.phase == PodGroupPhase.PENDING:
            continue
        if session.invalid(contender) is not None:
            decisions.explanations[contender.key] = not_complete(contender)
        elif contender.waiting:
            yield contender


def _take_turn(session: Session, contender: Contender, decisions: Decisions) -> bool:
    """Whether the job wants another turn."""
    mark = session.trial.checkpoint()
    was_ready = session.is_ready(contender)
    left, failed = _place_all(session, contender, grow=was_ready)
    explanation = misplaced(session, contender, failed) if failed is not None else None
    deferred = session.deferred.get(contender.key)
    if deferred is not None:
        decisions.holding[contender.key] = None
        decisions.explanations[contender.key] = deferred
        return False
    if session.is_ready(contender):
        placements = session.trial.commit(mark)
        if placements:
            decisions.commits.append(Commit(contender, placements))
        contender.waiting = left
        if explanation is not None:
            decisions.explanations[contender.key] = explanation
        return bool(left) and not was_ready
    if session.may_wait(contender):
        decisions.holding[contender.key] = None
        decisions.explanations[contender.key] = _waits_for_release(contender)
        return False
    session.trial.rollback(mark)
    if explanation is not None:
        decisions.explanations[contender.key] = explanation
    return False


def _place_all(
    session: Session, contender: Contender, *, grow: bool
) -> tuple[list[Task], Task | None]:
    """Place until the gang is complete, or to grow as many as find room.

    Returns the tasks without a place, and the first one that found none.
    """
    left: list[Task] = []
    first_failed: Task | None = None
    failed_kinds: dict[TaskClass, None] = {}
    failed_roles: dict[str, None] = {}
    may_go_on = True
    for batch in runs(contender.waiting):
        kind, role = batch[0].kind, batch[0].role
        want = len(batch)
        if not grow:
            if session.is_ready(contender):
                want = 0
            elif (enough := contender.until_ready(role)) is not None:
                want = min(want, enough)
        if not may_go_on or kind in failed_kinds or (role and role in failed_roles):
            want = 0
        found = session.place(contender, batch, want) if want else 0
        left += batch[found:]
        if found < want:
            first_failed = first_failed or batch[found]
            failed_kinds[kind] = None
            failed_roles[role] = None
            may_go_on = grow or _may_go_on_without(contender, failed_roles)
    return left, first_failed


def _may_go_on_without(contender: Contender, failed_roles: dict[str, None]) -> bool:
    """Whether the gang can still become complete although these roles found no more room."""
    job = contender.job
    minimums = job.pod_group.spec.min_task_member if job.pod_group else {}
    if job.min_member >= len(job.tasks):
        return False
    if job.min_member < sum(minimums.values()):
        others = sum(task.role not in failed_roles for task in contender.waiting)
        return contender.ready() + others >= job.min_member
    return all(contender.ready(role) >= minimums.get(role, 0) for role in failed_roles)


def _waits_for_release(contender: Contender) -> Explanation:
    waiting = sum(contender.pipelined.values())
    held = sum(contender.placed.values())
    return Explanation(
        Code.WAITING_FOR_RELEASE,
        f"{held} of its pods have room, {waiting} wait for pods that are ending",
        Unblock.CAPACITY,
        schedulable=held,
    )


def runs(tasks: list[Task]) -> Iterator[list[Task]]:
    """Tasks that follow each other and are of one class and role."""
    batch: list[Task] = []
    for task in tasks:
        if batch and (task.kind is not batch[0].kind or task.role != batch[0].role):
            yield batch
            batch = []
        batch.append(task)
    if batch:
        yield batch
