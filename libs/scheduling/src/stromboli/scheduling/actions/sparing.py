"""Give those victims their places back who turn out not to have been in the way.

Pods of a job find their places one after the other, so a later victim may have made an earlier
one needless; a pod that somebody had to go for may also fit where room was left over elsewhere.
Whoever matters most is spared first. Nobody is spared at the cost of a limit: some go because
their queue has too much, not because their node has too little.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stromboli.scheduling.actions.making_room import explain
from stromboli.scheduling.actions.tenancy import in_victim_order
from stromboli.scheduling.decisions import Claimed, Decisions
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import JobKey, TaskClass
from stromboli.scheduling.resources import IntVector
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Eviction, Placement

__all__ = ["Sparing", "one_by_one", "settle"]

_TOGETHER: Final = ("gangpreempt", "gangreclaim")
"""Actions whose victims of one job go together, so all of these are spared or none."""


def one_by_one(
    session: Session, evictions: Sequence[Eviction], claimant: Contender
) -> list[list[Eviction]]:
    """Each for itself, who matters most first."""
    by_uid = {eviction.task.uid: eviction for eviction in evictions}
    tasks = [eviction.task for eviction in evictions]
    ordered = in_victim_order(session, tasks, claimant.queue) if len(tasks) > 1 else tasks
    return [[by_uid[task.uid]] for task in reversed(ordered)]


@dataclass(slots=True)
class Sparing:
    """For one job, whose pods have all found a place since the mark."""

    session: Session
    claimant: Contender
    mark: int
    within: IntVector | None = None
    """The only nodes for its pods; None: all."""
    may_move: bool = True
    """Whether its pods may go elsewhere than where they found a place."""
    _kinds: dict[int, dict[TaskClass, None]] | None = None
    """By node: what its pods there are; None when some have moved."""

    def run(self, groups: Iterable[Sequence[Eviction]]) -> None:
        """Spare as many of these as can be, each of them as a whole or not at all."""
        for group in groups:
            self._spare(group)

    def _spare(self, group: Sequence[Eviction]) -> None:
        trial = self.session.trial
        fits = _has_room_for(self.session, group)
        if not fits and not (self.may_move and self._could_move(group)):
            return
        for eviction in group:
            trial.restore(eviction)
        moved: list[Placement] = []
        mark = trial.checkpoint()
        if (
            is_within_limits(self.session, trial.placements(self.mark))
            and (fits or self._moves(group, moved))
            and self._are_tolerable(trial.placements(self.mark))
        ):
            if moved:
                self._kinds = None
            return
        trial.rollback(mark - len(moved))
        for placement in moved:
            trial.apply(placement)
        for eviction in group:
            trial.evict(eviction)

    # Other places.

    def _could_move(self, group: Sequence[Eviction]) -> bool:
        """Whether there is room left for any of those who stand where these stood."""
        slots = {eviction.slot for eviction in group}
        at = self._kinds_at()
        kinds = {kind: None for slot in sorted(slots) for kind in at.get(slot, ())}
        return any(self._is_room_left(kind, slots) for kind in kinds)

    def _kinds_at(self) -> dict[int, dict[TaskClass, None]]:
        if self._kinds is None:
            self._kinds = {}
            for placement in self.session.trial.placements(self.mark):
                for slot in placement.slots.tolist():
                    self._kinds.setdefault(slot, {})[placement.kind] = None
        return self._kinds

    def _is_room_left(self, kind: TaskClass, slots: set[int]) -> bool:
        later = self.session.choosing.outlook(self.claimant, kind).later
        left = np.flatnonzero(later) if self.within is None else self.within[later[self.within] > 0]
        # Who stood on one node alone leaves no room there if they stay.
        return bool(len(left)) and (len(slots) > 1 or not slots.issuperset(left.tolist()))

    def _moves(self, group: Sequence[Eviction], moved: list[Placement]) -> bool:
        """Whether all find another place; `moved` is where those stood that had to."""
        trial = self.session.trial
        for slot in dict.fromkeys(eviction.slot for eviction in group):
            for placement in reversed(trial.placements(self.mark)):
                if (trial.future[:, slot] >= 0).all():
                    break
                if slot in placement.slots:
                    trial.withdraw(placement)
                    moved.append(placement)
            if (trial.future[:, slot] < 0).any():
                return False
        with self.session.choosing.within(self.within):
            return all(
                self.session.choosing.place(self.claimant, placement.tasks, pipelined=True)
                == len(placement.tasks)
                for placement in moved
            )

    def _are_tolerable(self, placements: Sequence[Placement]) -> bool:
        """Whether those who heed their neighbours still may stand where they do."""
        choosing, trial = self.session.choosing, self.session.trial
        for placement in placements:
            if choosing.neighbours.concern_any(placement.tasks):
                with trial.without(placement):
                    for task, slot in zip(placement.tasks, placement.slots.tolist(), strict=True):
                        if not choosing.admits(self.claimant, task)[slot]:
                            return False
        return True


def settle(session: Session, decisions: Decisions) -> None:
    """When an action has made room for all it could: who goes for good, and for whom."""
    _spare_across_jobs(session, decisions)
    explain(session, decisions)


def _spare_across_jobs(session: Session, decisions: Decisions) -> None:
    """Victims of one job may have made those of another needless."""
    claims = [claim for claim in decisions.claims if claim.evictions and claim.contender]
    placements = session.trial.placements()
    heeds = session.choosing.neighbours.concern_any
    if len(claims) < 2 or any(heeds(placed.tasks) for placed in placements):
        return
    for claim, group in _by_importance(session, claims):
        if not _has_room_for(session, group):
            continue
        for eviction in group:
            session.trial.restore(eviction, final=True)
        if is_within_limits(session, placements):
            for eviction in group:
                claim.evictions.remove(eviction)
        else:
            for eviction in group:
                session.trial.evict(eviction, final=True)


def _by_importance(
    session: Session, claims: Sequence[Claimed]
) -> list[tuple[Claimed, list[Eviction]]]:
    """Who can be spared together, with the claim they go for; who matters most first."""
    groups: dict[tuple[int, JobKey | str], list[Eviction]] = {}
    for number, claim in enumerate(claims):
        for eviction in claim.evictions:
            task = eviction.task
            key = task.job if eviction.action in _TOGETHER else task.uid
            groups.setdefault((number, key), []).append(eviction)
    by_uid = {group[0].task.uid: (claims[at], group) for (at, _), group in groups.items()}
    first = [group[0].task for _, group in by_uid.values()]
    return [by_uid[task.uid] for task in reversed(in_victim_order(session, first, ""))]


def is_within_limits(session: Session, placements: Sequence[Placement]) -> bool:
    """Whether the queues may have what was placed, victims that were spared included."""
    if not session.panel.allocatable:
        return True
    last = {(placed.contender.key, placed.kind): placed for placed in placements}
    for placed in last.values():
        number = len(placed.tasks)
        with session.trial.without(placed):
            if session.allowed(placed.contender, placed.kind, number) < number:
                return False
    return True


def _has_room_for(session: Session, group: Sequence[Eviction]) -> bool:
    """Whether nobody came in the place of these."""
    future = session.trial.future
    if len(group) == 1:
        request, slot = group[0].request, group[0].slot
        return bool((future[: len(request), slot] >= request).all())
    taken = np.zeros_like(future)
    for eviction in group:
        taken[: len(eviction.request), eviction.slot] += eviction.request
    slots = np.unique([eviction.slot for eviction in group])
    return bool((future[:, slots] >= taken[:, slots]).all())
