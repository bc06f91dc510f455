"""Placements on trial: they count at once, and are taken back or kept as a whole.

A gang is tried on a copy of what is free. `checkpoint` and `rollback` bracket the trial;
`commit` hands out what is to be bound. What was only pipelined (it waits for pods that are
ending) is never handed out: it holds its room until the cycle ends, and is decided anew in the
next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import PlacementListener
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.resources import IntMatrix, IntVector

__all__ = ["Placement", "Trial"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Pods of one class and role of one job, and the slot of each."""

    contender: Contender
    kind: TaskClass
    request: IntVector
    tasks: tuple[Task, ...]
    slots: IntVector
    pipelined: bool


@dataclass(slots=True)
class Trial:
    """What one cycle has placed so far."""

    idle: IntMatrix
    """What is free now."""
    future: IntMatrix
    """What is free when everything that is ending has ended, less what waits for that."""
    listeners: Sequence[PlacementListener] = ()
    touched: list[IntVector] = field(default_factory=list[IntVector])
    """Slots, in the order in which something was placed on them or taken back."""
    _log: list[Placement] = field(default_factory=list[Placement])

    def checkpoint(self) -> int:
        return len(self._log)

    def apply(self, placement: Placement) -> None:
        self._count(placement, 1)
        self._log.append(placement)

    def rollback(self, mark: int) -> None:
        """As if nothing had been placed since the checkpoint."""
        while len(self._log) > mark:
            self._count(self._log.pop(), -1)

    def commit(self, mark: int) -> list[Placement]:
        """What to bind; from here on only the cluster itself can take it back."""
        kept = [placement for placement in self._log[mark:] if not placement.pipelined]
        self._log[mark:] = [placement for placement in self._log[mark:] if placement.pipelined]
        return kept

    def _count(self, placement: Placement, sign: int) -> None:
        slots, times = _counted(placement.slots)
        self.touched.append(slots)
        taken = sign * placement.request[:, None] * times[None, :]
        self.future[:, slots] -= taken
        if not placement.pipelined:
            self.idle[:, slots] -= taken
        contender = placement.contender
        by_role = contender.pipelined if placement.pipelined else contender.placed
        role, number = placement.tasks[0].role, len(placement.tasks)
        by_role[role] = by_role.get(role, 0) + sign * number
        for listener in self.listeners:
            tell = listener.placed if sign > 0 else listener.withdrawn
            tell(contender, placement.kind.request, number)


def _counted(slots: IntVector) -> tuple[IntVector, IntVector]:
    if len(slots) == 1:
        return slots, np.ones(1, dtype=np.int64)
    return np.unique(slots, return_counts=True)
