"""Give a place to pods that ask for nothing else: they fit between all others.

As everywhere, nothing of a gang is bound before its minimum has found a place.
"""

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.actions.allocate import runs
from stromboli.scheduling.actions.turns import Turns
from stromboli.scheduling.decisions import Commit, Decisions
from stromboli.scheduling.explain import misplaced
from stromboli.scheduling.pods import Task
from stromboli.scheduling.session import Session

__all__ = ["run"]


def run(session: Session, decisions: Decisions) -> None:
    turns = Turns(
        session,
        (
            contender
            for contender in session.contenders.values()
            if contender.best_effort
            and contender.phase != PodGroupPhase.PENDING
            and contender.key not in decisions.holding
            and session.invalid(contender) is None
        ),
    )
    while (contender := turns.pop()) is not None:
        mark = session.trial.checkpoint()
        tasks, contender.best_effort = contender.best_effort, []
        left: list[Task] = []
        for batch in runs(tasks):
            found = session.place(contender, batch, len(batch))
            left += batch[found:]
        explanation = misplaced(session, contender, left[0]) if left else None
        if explanation is not None:
            decisions.explanations.setdefault(contender.key, explanation)
        if session.is_ready(contender):
            placements = session.trial.commit(mark)
            if placements:
                decisions.commits.append(Commit(contender, placements))
        else:
            session.trial.rollback(mark)
        contender.best_effort = left
