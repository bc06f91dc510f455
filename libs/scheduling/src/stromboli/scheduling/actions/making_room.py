"""Make room for one pod on one node: who must go, and not one more than that.

Victims go one after the other until the pod fits; then those who turn out not to have been in
the way are spared again, the most important first. The pod never binds at once: it waits where
the room comes free.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.actions.tenancy import Tenancy
from stromboli.scheduling.actions.turns import Turn, behind_others
from stromboli.scheduling.decisions import Claimed, Decisions
from stromboli.scheduling.explain import Code, waits_for_release, waits_for_victims
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim
from stromboli.scheduling.pods import Task, TaskStatus
from stromboli.scheduling.resources import tallied
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Eviction, Kept, Placement

__all__ = [
    "Room",
    "conclude",
    "explain",
    "hold_on",
    "is_for_allocate",
    "starving",
    "starving_since",
    "waits_for_its_node",
]


@dataclass(frozen=True, slots=True)
class Room:
    """One attempt to place one pod on one node at the cost of others."""

    session: Session
    tenancy: Tenancy
    claim: Claim
    slot: int
    action: str

    def fits(self) -> bool:
        contender, task = self.claim.contender, self.claim.task
        choosing = self.session.choosing
        request = self.tenancy.vector(task.kind)
        return (
            bool((self.session.trial.future[: len(request), self.slot] >= request).all())
            and self.session.allowed(contender, task.kind, 1) > 0
            and (
                not choosing.neighbours.concerns(task)
                or bool(choosing.admits(contender, task)[self.slot])
            )
        )

    def make(self, choose: Callable[[], Sequence[Task]]) -> bool:
        """Whether the pod waits for this node now; if not, nothing has changed.

        The node is one that the pod's constraints allow.
        """
        mark = self.session.trial.checkpoint()
        if not self.fits():
            victims = choose()
            if not self._enough(victims) or not self._evict(victims):
                self.session.trial.rollback(mark)
                return False
        self.place()
        return True

    def place(self) -> None:
        """Let the pod wait for this node."""
        kind = self.claim.task.kind
        self.session.trial.apply(
            Placement(
                contender=self.claim.contender,
                kind=kind,
                request=self.tenancy.vector(kind),
                tasks=self.claim.tasks,
                slots=np.array([self.slot], dtype=np.int64),
                pipelined=True,
            )
        )

    def _enough(self, victims: Iterable[Task]) -> bool:
        """Whether there would be room if all of them went."""
        request = self.tenancy.vector(self.claim.task.kind)
        room = self.session.trial.future[: len(request), self.slot].copy()
        for victim in victims:
            vector = self.tenancy.vector(victim.kind)
            room[: len(vector)] += vector[: len(room)]
        rows = np.flatnonzero(request)
        return bool((room[rows] >= request[rows]).all())

    def _evict(self, victims: Sequence[Task]) -> bool:
        gone: list[Eviction] = []
        for victim in victims:
            if not self.session.panel.may_go(victim):
                return False
            gone.append(
                self.session.evict(victim, claimant=self.claim.contender, action=self.action)
            )
            if self.fits():
                break
        else:
            return False
        for eviction in reversed(gone[:-1]):
            self.session.trial.restore(eviction)
            if not self.fits():
                self.session.trial.evict(eviction)
        return True


def starving(session: Session) -> list[Contender]:
    """Jobs that may ask others to make room, among those that are looked at."""
    found = _starving(session, session.contenders.values())
    held_up = behind_others(session) if found else {}
    return [contender for contender in found if contender.key not in held_up]


def starving_since(session: Session, turn: Turn, queue: str | None) -> list[Contender]:
    """Such jobs of the queue that are looked at because this turn has changed something."""
    changed = session.trial.checkpoint() > turn.mark and turn.contender.key not in session.first
    if session.reserve is None or not changed:
        return []
    return _starving(session, session.reserve.since(turn.order[1:], queue))


def _starving(session: Session, contenders: Iterable[Contender]) -> list[Contender]:
    return [
        contender
        for contender in contenders
        if contender.phase != PodGroupPhase.PENDING
        and contender.key not in session.deferred
        and (contender.waiting or contender.best_effort)
        and session.panel.invalid(contender) is None
        and session.panel.is_starving(contender)
    ]


def waits_for_its_node(session: Session, task: Task) -> bool:
    """Whether others are ending already on the node that was named for it."""
    node = session.nominated.get(task.uid)
    return node is not None and any(
        tenant.status is TaskStatus.RELEASING and tenant.priority < task.priority
        for tenant in session.tenants(node)
    )


def is_for_allocate(session: Session, action: str, mark: int) -> bool:
    """Whether there is room now, and those that can bind at once have their turn later.

    Room that only comes free is not left to them: they give it to whoever has the first turn.
    Pods that ask for a place alone may also have theirs in the next cycle: `allocate` counts on
    them.
    """
    if session.trial.evictions(mark):
        return False
    later = {*session.actions[session.actions.index(action) :], "backfill"}
    kinds = {placement.kind for placement in session.trial.placements(mark)}
    binding = {"backfill" if kind.is_best_effort else "allocate" for kind in kinds}
    return binding <= later.intersection(session.actions) and _has_room_now(session, mark)


def _has_room_now(session: Session, mark: int) -> bool:
    idle = session.trial.idle.copy()
    for placement in session.trial.placements(mark):
        request = placement.request
        slots, times = tallied(placement.slots)
        idle[: len(request), slots] -= request[:, None] * times
        if (idle[: len(request), slots][request > 0] < 0).any():
            return False
    return True


def conclude(
    session: Session, decisions: Decisions, contender: Contender, kept: Kept, left: list[Task]
) -> None:
    """Note what was decided for a job that others make room for."""
    decisions.holding[contender.key] = None
    best_effort = {task.uid for task in left if task.kind.is_best_effort}
    contender.keep([task for task in left if task.uid not in best_effort])
    contender.best_effort = [task for task in left if task.uid in best_effort]
    if kept.evictions:
        decisions.claims.append(Claimed(contender, kept.evictions, kept.pipelined))
    else:
        _tell_of_room(session, decisions, contender, kept.pipelined)


def hold_on(session: Session, decisions: Decisions) -> None:
    """Who holds room that others left, and had no turn, waits on."""
    for key, placements in session.freed.still_held.items():
        decisions.holding[key] = None
        why = waits_for_release(session, session.contenders[key], placements)
        decisions.explanations.setdefault(key, why)


def explain(session: Session, decisions: Decisions) -> None:
    """Tell jobs who makes room for them, once that is sure."""
    victims: dict[Contender, list[Task]] = {}
    waiting: dict[Contender, list[Placement]] = {}
    for claim in decisions.claims:
        if claim.contender is not None:
            tasks = [eviction.task for eviction in claim.evictions]
            victims.setdefault(claim.contender, []).extend(tasks)
            waiting.setdefault(claim.contender, []).extend(claim.pipelined)
    for contender, tasks in victims.items():
        if tasks:
            decisions.explanations[contender.key] = waits_for_victims(contender, tasks)
        else:
            _tell_of_room(session, decisions, contender, waiting[contender])


def _tell_of_room(
    session: Session, decisions: Decisions, contender: Contender, pipelined: list[Placement]
) -> None:
    """Where nobody is ending, why `allocate` did not bind it is the better reason."""
    found = waits_for_release(session, contender, pipelined)
    if found.code is Code.PENDING_EVALUATION:
        decisions.explanations.setdefault(contender.key, found)
    else:
        decisions.explanations[contender.key] = found
