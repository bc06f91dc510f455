"""Admit jobs: from then on their pods may be created and placed.

A PodGroup that does not say what it needs is admitted at once, as in Volcano.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.actions.turns import Turn, Turns
from stromboli.scheduling.decisions import Action, Decisions
from stromboli.scheduling.explain import not_admitted, waits_behind
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.session import Session

__all__ = ["build", "run"]

NAME: Final = "enqueue"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


def build(arguments: Mapping[str, Any]) -> Action:
    read_arguments(NAME, Args, arguments)
    return run


def run(session: Session, decisions: Decisions) -> None:
    def others(turn: Turn) -> Iterable[Contender]:
        """Who is like a job that was admitted may be admitted too."""
        if session.reserve is None or turn.contender.phase == PodGroupPhase.PENDING:
            return ()
        return session.reserve.after(turn.contender)

    turns = Turns(
        session,
        (c for c in session.contenders.values() if c.phase == PodGroupPhase.PENDING),
        others,
    )
    while (contender := turns.pop()) is not None:
        if contender.job.min_resources:
            refusal = session.panel.enqueue_refusal(contender)
            if refusal is not None:
                explanation = not_admitted(session, contender, refusal)
                decisions.explanations[contender.key] = explanation
                if session.queue(contender).strict_order:
                    for left in turns.leave(contender):
                        decisions.explanations[left.key] = waits_behind(left, contender)
                continue
        session.panel.enqueued(contender)
        contender.phase = PodGroupPhase.INQUEUE
        decisions.admitted.append(contender)
