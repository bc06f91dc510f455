"""Let jobs take room from others of their own queue, and then pods from others of their job.

Nothing of a job is taken unless its whole minimum can wait for room that comes free: what was
tried is taken back otherwise. Which pods may give way is for the plugins; a pod that asks for no
room gives way only to one that asks for none either, and the other way round is not checked. Nor
does a job give way to one that has its turn later: its next pod would take the room back at once,
and so on for ever, where one plugin orders jobs and another, of a later tier, names victims.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from stromboli.scheduling.actions.lost_causes import LostCauses
from stromboli.scheduling.actions.making_room import (
    Room,
    conclude,
    is_for_allocate,
    starving,
    starving_since,
    waits_for_its_node,
)
from stromboli.scheduling.actions.picking import Limits, pick_gently
from stromboli.scheduling.actions.sparing import Sparing, one_by_one, settle
from stromboli.scheduling.actions.tenancy import Tenancy, in_victim_order
from stromboli.scheduling.actions.turns import Turn, Turns
from stromboli.scheduling.actions.willing import Willing
from stromboli.scheduling.decisions import Action, Decisions
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.session import Session

__all__ = ["build"]

NAME: Final = "preempt"


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")
    topology_aware: bool = msgspec.field(default=False, name="enableTopologyAwarePreemption")
    workers: int = msgspec.field(default=16, name="topologyAwarePreemptWorkerNum")
    """Accepted; there is nothing to share out among workers."""
    least_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = msgspec.field(
        default=10, name="minCandidateNodesPercentage"
    )
    least: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(
        default=1, name="minCandidateNodesAbsolute"
    )
    most: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(
        default=100, name="maxCandidateNodesAbsolute"
    )


def build(arguments: Mapping[str, Any]) -> Action:
    args = read_arguments(NAME, Args, arguments)
    limits = Limits(args.least_percent, args.least, args.most) if args.topology_aware else None

    def run(session: Session, decisions: Decisions) -> None:
        session.freed.keep()
        candidates = [each for each in starving(session) if not each.job.is_tied_to_network]
        if candidates:
            session.expect_releases()
            _Preempting(session, decisions, Tenancy(session), limits, LostCauses(session)).run(
                candidates
            )
            settle(session, decisions)

    return run


@dataclass(slots=True)
class _Preempting:
    session: Session
    decisions: Decisions
    tenancy: Tenancy
    limits: Limits | None
    lost: LostCauses

    def run(self, candidates: list[Contender]) -> None:
        by_queue: dict[str, list[Contender]] = {}
        for contender in candidates:
            by_queue.setdefault(contender.queue, []).append(contender)
        for queue in sorted(by_queue, key=self.session.queue_order_of):
            turns = Turns(self.session, by_queue[queue], self._others)
            while (contender := turns.pop()) is not None:
                if self._between_jobs(contender) and self._wants_more(contender):
                    turns.push(contender)
            for contender in sorted(by_queue[queue], key=self.session.job_order):
                self._within_job(contender)

    def _others(self, turn: Turn) -> list[Contender]:
        return starving_since(self.session, turn, turn.contender.queue)

    def _wants_more(self, contender: Contender) -> bool:
        return bool(_tasks_of(contender)) and self.session.panel.is_starving(contender)

    def _between_jobs(self, contender: Contender) -> bool:
        """Whether the job got something, and may get more."""
        session = self.session
        mark = session.trial.checkpoint()
        tasks, small = _tasks_of(contender), contender.best_effort
        contender.best_effort = []  # of these too only those count that find a place
        left, assigned = self._for_each(contender, tasks)
        if not self._is_worth_it(contender, mark):
            session.trial.rollback(mark)
            contender.best_effort = small
            return False
        conclude(session, self.decisions, contender, session.trial.commit(mark), left)
        return assigned

    def _is_worth_it(self, contender: Contender, mark: int) -> bool:
        """Whether its minimum can wait for the room, and somebody has to leave it."""
        session = self.session
        if not session.trial.placements(mark) or not session.panel.may_wait(contender):
            return False
        victims = session.trial.evictions(mark)
        Sparing(session, contender, mark).run(one_by_one(session, victims, contender))
        return not is_for_allocate(session, NAME, mark)

    def _within_job(self, contender: Contender) -> None:
        """Pods of the job that matter more take the place of those that matter less."""
        session = self.session
        if not contender.job.allocated:
            return  # none of its pods has a place to give up
        while self._wants_more(contender):
            tasks = _tasks_of(contender)
            mark = session.trial.checkpoint()
            if not self._preempt(contender, tasks[0], _lesser_of_its_job(tasks[0])):
                return
            small, contender.best_effort = contender.best_effort, []
            is_complete = session.panel.may_wait(contender)
            contender.best_effort = small
            if not session.trial.evictions(mark) or not is_complete:
                # Free room is for the gang as a whole, which could not use it; and one that is not
                # complete in the end has nothing of it that other pods of it stand there.
                session.trial.rollback(mark)
                return
            conclude(session, self.decisions, contender, session.trial.commit(mark), tasks[1:])

    def _for_each(self, contender: Contender, tasks: list[Task]) -> tuple[list[Task], bool]:
        """The pods that got no place, and whether the last one tried did."""
        eligible = self._of_other_jobs(contender)
        left: list[Task] = []
        failed: dict[TaskClass, None] = {}
        assigned = False
        for number, task in enumerate(tasks):
            if not self.session.panel.is_starving(contender):
                return left + tasks[number:], assigned
            if task.kind in failed:
                left.append(task)
                continue
            assigned = not self.lost.holds(contender, task)
            if assigned:
                assigned = self._preempt(contender, task, eligible)
                if not assigned:
                    self.lost.note(contender, task)
            if not assigned:
                failed[task.kind] = None
                left.append(task)
        return left, assigned

    def _preempt(self, contender: Contender, task: Task, eligible: Callable[[Task], bool]) -> bool:
        session = self.session
        if not task.may_preempt or waits_for_its_node(session, task):
            return False
        if session.hopeless(contender, task.kind) is not None:
            return False
        claim = Claim(contender, (task,))
        outlook = session.choosing.outlook(contender, task.kind)
        slots = np.flatnonzero(outlook.feasible)
        slots = self.tenancy.promising(slots, outlook.vector, [contender.queue])
        # The best node first; the first by name among equals.
        slots = slots[np.argsort(-outlook.first[slots], kind="stable")]
        slots = self.tenancy.free_first(slots, outlook.vector)
        only_small = task.kind.is_best_effort

        def victims(slot: int) -> list[Task]:
            found = self.tenancy.at(slot, eligible)
            if only_small:
                found = [victim for victim in found if victim.kind.is_best_effort]
            ordered = in_victim_order(session, found, contender.queue)
            return session.panel.preemptable(claim, ordered) if ordered else []

        judges = session.panel.preempt_judges()
        willing = Willing(session, self.tenancy, claim, judges, eligible)
        order = willing.narrowed(slots, outlook.vector)
        if self.limits is not None:
            return pick_gently(
                session, self.tenancy, claim, order, victims=victims, limits=self.limits
            )
        return any(
            Room(session, self.tenancy, claim, slot, NAME).make(lambda slot=slot: victims(slot))
            for slot in order
        )

    def _of_other_jobs(self, contender: Contender) -> Callable[[Task], bool]:
        session, key, queue = self.session, contender.key, contender.queue
        turn = session.job_preference(contender)

        def gives_way(task: Task) -> bool:
            other = session.contender(task.job)
            return (
                task.job != key
                and other.queue == queue
                and not session.job_preference(other) < turn
            )

        return gives_way


def _tasks_of(contender: Contender) -> list[Task]:
    return [*contender.waiting, *contender.best_effort]


def _lesser_of_its_job(task: Task) -> Callable[[Task], bool]:
    """Pods of equal priority would take each other's place for ever."""
    return lambda other: other.job == task.job and other.priority < task.priority
