"""Give jobs that are alike and follow each other their turns together: nobody can come between.

Ten thousand jobs of one pod are ten thousand turns, and most of what a turn costs does not depend
on what it is about. Here the nodes for many jobs are chosen at once. Each job gets what its own
turn would have given it: only jobs that are complete with what they find take part, in the
order of their turns, and those that would not be are left to a turn of their own.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from stromboli.scheduling.actions.turns import Turns
from stromboli.scheduling.decisions import Commit, Decisions
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Placement

__all__ = ["Convoys"]

_MOST_PODS: Final = 2048
"""Of one convoy."""


class _Shape(NamedTuple):
    """What jobs of a convoy have in common."""

    queue: str
    kind: TaskClass
    role: str
    pods: int


@dataclass(frozen=True, slots=True)
class Convoys:
    """Those of one cycle."""

    session: Session
    turns: Turns
    decisions: Decisions
    are_possible: bool

    @classmethod
    def of(cls, session: Session, turns: Turns, decisions: Decisions) -> "Convoys":
        panel = session.panel
        are_possible = (
            panel.takes_convoys
            and not session.neighbourhood.is_active
            and not session.nominated
            and (session.reserve is None or session.reserve.is_empty)
        )
        return cls(session, turns, decisions, are_possible)

    def take_turns(self, first: Contender) -> bool:
        """Whether this job, and others after it, have been given their places."""
        shape = self._shape(first) if self.are_possible else None
        if shape is None or self.session.hopeless(first, shape.kind) is not None:
            return False
        most = _MOST_PODS // shape.pods
        convoy = self.turns.followers(first, lambda other: self._shape(other) == shape, most - 1)
        if not convoy:
            return False
        convoy.insert(0, first)
        placed = self._place(shape, convoy)
        for left in convoy[max(placed, 1) :]:
            self.turns.push(left)
        return placed > 0

    def _shape(self, contender: Contender) -> _Shape | None:
        """None: it would not be done after one turn, or it matters who it is."""
        waiting, job = contender.waiting, contender.job
        if (
            not waiting
            or contender.best_effort
            or contender.at_gate
            or contender.kept
            or job.grouping is not None
            or contender.placed
            or contender.pipelined
            or contender.key in self.session.deferred
            or contender.key in self.session.first
        ):
            return None
        kind, role = waiting[0].kind, waiting[0].role
        if kind.social is not None or kind.claims:
            return None
        if contender.until_ready(role) != len(waiting):
            return None
        if len(waiting) > 1 and not all(t.kind is kind and t.role == role for t in waiting):
            return None
        return _Shape(contender.queue, kind, role, len(waiting))

    def _place(self, shape: _Shape, convoy: list[Contender]) -> int:
        """How many of them, from the first on, have got their places."""
        session, pods = self.session, shape.pods
        queue = session.queues[shape.queue]
        jobs = min(len(convoy), session.panel.turns_left(queue, shape.kind.request, pods))
        jobs = session.allowed(convoy[0], shape.kind, jobs * pods) // pods
        if not jobs:
            return 0
        outlook = session.choosing.outlook(convoy[0], shape.kind)
        slots = outlook.choose(jobs * pods, pipelined=False)
        jobs = len(slots) // pods
        placements = [
            Placement(
                contender,
                shape.kind,
                outlook.vector,
                tuple(contender.waiting),
                slots[number * pods : (number + 1) * pods],
                pipelined=False,
            )
            for number, contender in enumerate(convoy[:jobs])
        ]
        if not placements:
            return 0
        session.trial.keep_all(placements, slots[: jobs * pods])
        if len(slots) == jobs * pods:
            outlook.went_as_planned()
        for placement in placements:
            placement.contender.keep([])
            self.decisions.commits.append(Commit(placement.contender, [placement]))
        return jobs
