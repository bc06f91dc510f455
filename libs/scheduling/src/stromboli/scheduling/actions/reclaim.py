"""Let queues that have less than their share take room back from those that have more.

As in preempt, nothing of a job is taken unless its whole minimum can wait for the room. Nodes
are not scored: the first by name where it can be done is taken, as in Volcano. A job that must
stand close together is left to `gangreclaim`: taking node by node would be in vain.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stromboli.scheduling.actions.allocate import Args
from stromboli.scheduling.actions.domains import heeds_network
from stromboli.scheduling.actions.lost_causes import LostCauses
from stromboli.scheduling.actions.making_room import (
    Room,
    conclude,
    is_for_allocate,
    starving,
    starving_since,
)
from stromboli.scheduling.actions.sparing import Sparing, one_by_one, settle
from stromboli.scheduling.actions.tenancy import Tenancy, in_victim_order
from stromboli.scheduling.actions.turns import Turns
from stromboli.scheduling.actions.willing import Willing
from stromboli.scheduling.decisions import Action, Decisions
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey, Task, TaskClass, TaskStatus
from stromboli.scheduling.resources import IntVector
from stromboli.scheduling.session import Session

__all__ = ["build", "others_reclaimable"]

NAME: Final = "reclaim"


def build(arguments: Mapping[str, Any]) -> Action:
    read_arguments(NAME, Args, arguments)

    def run(session: Session, decisions: Decisions) -> None:
        session.freed.keep()
        candidates = [each for each in starving(session) if not heeds_network(session, each)]
        if candidates:
            session.expect_releases()
            _Reclaiming(session, decisions, Tenancy(session), LostCauses(session)).run(candidates)
            settle(session, decisions)

    return run


def others_reclaimable(session: Session, own: str) -> list[str]:
    """Queues that something may be taken back from."""
    return [name for name, queue in session.queues.items() if name != own and queue.reclaimable]


@dataclass(slots=True)
class _Reclaiming:
    session: Session
    decisions: Decisions
    tenancy: Tenancy
    lost: LostCauses
    feasible: dict[tuple[JobKey, TaskClass], IntVector] = field(
        default_factory=dict[tuple[JobKey, TaskClass], IntVector]
    )

    def run(self, candidates: list[Contender]) -> None:
        turns = Turns(
            self.session, candidates, lambda turn: starving_since(self.session, turn, turn.queue)
        )
        while (contender := turns.pop()) is not None:
            if self.session.panel.overused(self.session.queue(contender)):
                turns.leave(contender)
            else:
                self._for_job(contender)

    def _for_job(self, contender: Contender) -> None:
        session = self.session
        mark = session.trial.checkpoint()
        left: list[Task] = []
        failed: dict[TaskClass, None] = {}
        queues = others_reclaimable(session, contender.queue)
        small, contender.best_effort = contender.best_effort, []
        # Of those that ask for a place alone, too, only those count that find one.
        for task in [*contender.waiting, *small]:
            done = not session.panel.is_starving(contender) or task.kind in failed
            in_vain = done or self.lost.holds(contender, task)
            if in_vain or not self._reclaim(contender, task, queues):
                left.append(task)
                if not done:
                    failed[task.kind] = None
                if not in_vain:
                    self.lost.note(contender, task)
        if self._is_worth_it(contender, mark):
            conclude(session, self.decisions, contender, session.trial.commit(mark), left)
        else:
            session.trial.rollback(mark)
            contender.best_effort = small

    def _is_worth_it(self, contender: Contender, mark: int) -> bool:
        """Whether its minimum can wait for the room, and somebody has to leave it."""
        session = self.session
        if not session.trial.placements(mark) or not session.panel.may_wait(contender):
            return False
        victims = session.trial.evictions(mark)
        Sparing(session, contender, mark).run(one_by_one(session, victims, contender))
        return not is_for_allocate(session, NAME, mark)

    def _reclaim(self, contender: Contender, task: Task, queues: list[str]) -> bool:
        session = self.session
        claim = Claim(contender, (task,))
        if (
            not task.may_preempt
            or not session.panel.preemptive(session.queue(contender), claim)
            or session.hopeless(contender, task.kind) is not None
        ):
            return False
        request = self.tenancy.vector(task.kind)
        slots = self.tenancy.promising(self._feasible(contender, task.kind), request, queues)
        slots = self.tenancy.free_first(slots, request)
        eligible = self._eligible(queues)

        judges = session.panel.reclaim_judges()
        willing = Willing(session, self.tenancy, claim, judges, eligible)

        def victims(slot: int) -> list[Task]:
            ordered = in_victim_order(session, self.tenancy.at(slot, eligible), contender.queue)
            return session.panel.reclaimable(claim, ordered) if ordered else []

        return any(
            Room(session, self.tenancy, claim, slot, NAME).make(lambda slot=slot: victims(slot))
            for slot in willing.narrowed(slots, request)
        )

    def _feasible(self, contender: Contender, kind: TaskClass) -> IntVector:
        """Nodes that its constraints allow; that does not change while others make room."""
        found = self.feasible.get((contender.key, kind))
        if found is None:
            found = np.flatnonzero(self.session.choosing.outlook(contender, kind).feasible)
            self.feasible[contender.key, kind] = found
        return found

    def _eligible(self, queues: list[str]) -> Callable[[Task], bool]:
        session, wanted = self.session, frozenset(queues)
        return lambda task: (
            task.status is TaskStatus.RUNNING and session.contender(task.job).queue in wanted
        )
