"""Give a place to pods that ask for nothing else: they fit between all others.

As everywhere, nothing of a gang is bound before its minimum has found a place.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.actions.allocate import Args
from stromboli.scheduling.actions.domains import heeds_network, of_job
from stromboli.scheduling.actions.filling import place_batch, runs
from stromboli.scheduling.actions.turns import Turns, behind_others
from stromboli.scheduling.decisions import Action, Commit, Decisions
from stromboli.scheduling.explain import misplaced, waits_behind, waits_for_release
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task
from stromboli.scheduling.resources import IntVector
from stromboli.scheduling.session import Session

__all__ = ["build", "run"]

NAME: Final = "backfill"


def build(arguments: Mapping[str, Any]) -> Action:
    read_arguments(NAME, Args, arguments)
    return run


def run(session: Session, decisions: Decisions) -> None:
    session.freed.keep()
    wanting = [
        contender
        for contender in session.contenders.values()
        if (contender.best_effort or session.freed.holds(contender, small=True))
        and contender.phase != PodGroupPhase.PENDING
        and (contender.key not in decisions.holding or session.panel.is_ready(contender))
        and session.panel.invalid(contender) is None
    ]
    heads = behind_others(session) if wanting else {}
    for contender in wanting:
        if contender.key in heads:
            behind = waits_behind(contender, heads[contender.key])
            decisions.explanations.setdefault(contender.key, behind)
    turns = Turns(session, (one for one in wanting if one.key not in heads))
    while (contender := turns.pop()) is not None:
        owned = session.freed.release(contender, only_small=True)
        mark = session.trial.checkpoint()
        tasks, contender.best_effort = contender.best_effort, []
        left: list[Task] = []
        with session.choosing.within(_where(session, contender, tasks)):
            for batch in runs(tasks):
                found = place_batch(session, contender, batch, len(batch))
                left += batch[found:]
        explanation = misplaced(session, contender, left[0]) if left else None
        if explanation is not None:
            decisions.explanations.setdefault(contender.key, explanation)
        is_ready = session.panel.is_ready(contender)
        if is_ready:
            kept = session.trial.commit(mark)
            if kept.placements:
                decisions.commits.append(Commit(contender, kept.placements))
            if kept.pipelined:
                decisions.holding[contender.key] = None
                waits = waits_for_release(session, contender, kept.pipelined)
                decisions.explanations.setdefault(contender.key, waits)
        else:
            session.trial.rollback(mark)
        contender.best_effort = left if is_ready else tasks
        if owned and not is_ready and session.panel.may_wait(contender):
            session.freed.keep_small(contender, owned)


def _where(session: Session, contender: Contender, tasks: list[Task]) -> IntVector | None:
    """The nodes that a job must keep to that stands close together; None: it may stand anywhere."""
    if not heeds_network(session, contender):
        return None
    short = contender.job.min_member - contender.ready()
    together = of_job(session, contender, max(1, min(short, len(tasks))), tasks)
    domain = next(together.domains(), None)
    return np.zeros(0, dtype=np.int64) if domain is None else session.network.slots(domain)
