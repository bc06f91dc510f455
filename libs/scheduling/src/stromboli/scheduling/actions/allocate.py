"""Give admitted jobs their nodes: a gang whole or not at all, then its extras one by one.

A job's turn ends as soon as its gang is complete; what it wants beyond that waits for more
turns, one pod each, so that queues and jobs take turns by their shares. Where nobody could come
in between, the extras are placed together: the result is the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.actions.convoys import Convoys
from stromboli.scheduling.actions.filling import Filled, fill
from stromboli.scheduling.actions.gates import open_gates
from stromboli.scheduling.actions.turns import Turn, Turns
from stromboli.scheduling.decisions import Action, Commit, Decisions
from stromboli.scheduling.explain import (
    Code,
    Explanation,
    Unblock,
    invalid,
    misplaced,
    not_complete,
    overused,
    refused,
    waits_behind,
    waits_for_release,
)
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task
from stromboli.scheduling.session import Session
from stromboli.scheduling.topology_reasons import scattered

__all__ = ["Args", "build", "run"]

NAME: Final = "allocate"

_ENDS_IN_TIME: Final = frozenset({Code.QUEUE_LIMIT, Code.QUOTA_WAIT})
"""The queue is full now, but could take the job when others of it have ended."""


class Args(msgspec.Struct, frozen=True):
    """By Volcano's name; a class that found no node is never asked again in a cycle here."""

    error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")


def build(arguments: Mapping[str, Any]) -> Action:
    read_arguments(NAME, Args, arguments)
    return run


def run(session: Session, decisions: Decisions) -> None:
    session.freed.keep()

    def others(turn: Turn) -> Iterable[Contender]:
        """Who is like a job that found a place may find one too."""
        if session.reserve is None or not turn.contender.has_place:
            return ()
        return _candidates(session, session.reserve.after(turn.contender), decisions)

    contenders = session.contenders.values()
    turns = Turns(session, _candidates(session, contenders, decisions), others)
    convoys = Convoys.of(session, turns, decisions)
    while (contender := turns.pop()) is not None:
        queue = session.queue(contender)
        if contender.key not in session.first and session.panel.overused(queue):
            for left in (contender, *turns.leave(contender)):
                decisions.explanations.setdefault(left.key, overused(left))
            continue
        owned = session.freed.release(contender)
        open_gates(session, contender, decisions)
        if convoys.take_turns(contender):
            continue
        if _take_turns(session, turns, contender, decisions, owned):
            turns.push(contender)
        elif queue.strict_order and not session.panel.is_ready(contender):
            for left in turns.leave(contender):
                decisions.explanations.setdefault(left.key, waits_behind(left, contender))


def _take_turns(
    session: Session,
    turns: Turns,
    contender: Contender,
    decisions: Decisions,
    owned: Sequence[Task],
) -> bool:
    """One, or several where nobody could come in between; whether the job wants another.

    Pods for which others made room have theirs together.
    """
    again = bool(contender.waiting) and _takes_turns(session, turns, contender, decisions, owned)
    if owned and (contender.key in decisions.holding or session.panel.is_ready(contender)):
        session.freed.keep_small(contender, owned)
    return again


def _takes_turns(
    session: Session,
    turns: Turns,
    contender: Contender,
    decisions: Decisions,
    owned: Sequence[Task],
) -> bool:
    most = max(1, len(owned)) if session.panel.is_ready(contender) else None
    order = _order(session, contender) if most is not None else None
    again = _take_turn(session, contender, decisions, most)
    while again and most is not None and _is_next(session, turns, contender, order):
        most = len(contender.waiting)
        again = _take_turn(session, contender, decisions, most)
    return again


def _candidates(
    session: Session, contenders: Iterable[Contender], decisions: Decisions
) -> Iterator[Contender]:
    for contender in contenders:
        if contender.phase == PodGroupPhase.PENDING:
            if "enqueue" in session.actions:
                continue
            contender.phase = PodGroupPhase.INQUEUE
        refusal = session.panel.invalid(contender)
        if refusal is not None:
            decisions.explanations[contender.key] = invalid(contender, refusal)
        elif contender.waiting or contender.at_gate or session.freed.holds(contender, small=False):
            yield contender


def _order(session: Session, contender: Contender) -> tuple[SortKey, SortKey]:
    return session.queue_order(session.queue(contender)), session.job_order(contender)


def _is_next(
    session: Session,
    turns: Turns,
    contender: Contender,
    before: tuple[SortKey, SortKey] | None,
) -> bool:
    """Whether the job would have the next turn too, and the one after that."""
    if session.panel.watches_overuse and not session.panel.allocatable:
        return False
    return turns.nobody_waits or _order(session, contender) == before


def _take_turn(
    session: Session, contender: Contender, decisions: Decisions, most: int | None
) -> bool:
    """Whether the job wants another turn."""
    mark = session.trial.checkpoint()
    filled = fill(session, contender, most)
    explanation = _explained(session, contender, filled)
    deferred = session.deferred.get(contender.key)
    if deferred is not None:
        decisions.holding[contender.key] = None
        decisions.explanations[contender.key] = deferred
        return False
    if session.panel.is_ready(contender):
        kept = session.trial.commit(mark)
        if kept.placements:
            decisions.commits.append(Commit(contender, kept.placements))
        if kept.pipelined:
            decisions.holding[contender.key] = None
            waits = waits_for_release(session, contender, kept.pipelined)
            decisions.explanations.setdefault(contender.key, waits)
        contender.keep(filled.left)
        if explanation is not None:
            decisions.explanations[contender.key] = explanation
        return bool(filled.left) and filled.found > 0
    tried = session.trial.placements(mark)
    if filled.found and session.panel.may_wait(contender):
        contender.keep(filled.left)
        decisions.tried[contender.key] = [one for one in tried if not one.pipelined]
        decisions.holding[contender.key] = None
        decisions.explanations[contender.key] = waits_for_release(session, contender, tried)
        return False
    decisions.tried[contender.key] = tried
    session.trial.rollback(mark)
    if explanation is None and not contender.job.gated:
        explanation = not_complete(contender)
    if explanation is not None:
        _tell_that_it_waits(session, contender, explanation)
        decisions.explanations[contender.key] = explanation
    return False


def _tell_that_it_waits(session: Session, contender: Contender, why: Explanation) -> None:
    """Only where time alone can help: pods of others end, on nodes or in its queue."""
    if why.unblock is Unblock.CAPACITY:
        session.panel.blocked(contender, ())
    elif why.code in _ENDS_IN_TIME and why.short_by:
        session.panel.blocked(contender, why.short_by)


def _explained(session: Session, contender: Contender, filled: Filled) -> Explanation | None:
    """Why some found no place; looked at before anything is taken back."""
    if filled.refusal is not None:
        return refused(contender, filled.refusal)
    if filled.failed is not None and filled.scattered is not None:
        return scattered(session, contender, filled.failed, filled.scattered)
    if filled.failed is not None:
        return misplaced(session, contender, filled.failed)
    if filled.refused is not None:
        refusal = session.why_not_allowed(contender, filled.refused.kind)
        return refused(contender, refusal) if refusal is not None else None
    return None
