"""Admit jobs: from then on their pods may be created and placed.

A PodGroup that does not say what it needs is admitted at once, as in Volcano.
"""

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.actions.turns import Turns
from stromboli.scheduling.decisions import Decisions
from stromboli.scheduling.explain import not_admitted
from stromboli.scheduling.session import Session

__all__ = ["run"]


def run(session: Session, decisions: Decisions) -> None:
    turns = Turns(
        session,
        (c for c in session.contenders.values() if c.phase == PodGroupPhase.PENDING),
    )
    while (contender := turns.pop()) is not None:
        if contender.job.min_resources:
            refusal = session.enqueue_refusal(contender)
            if refusal is not None:
                explanation = not_admitted(session, contender, refusal)
                decisions.explanations[contender.key] = explanation
                continue
        contender.phase = PodGroupPhase.INQUEUE
        decisions.admitted.append(contender)
