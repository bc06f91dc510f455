"""Placements and evictions on trial: they count at once, and are kept or taken back as a whole.

A gang is tried on a copy of what is free. `checkpoint` and `rollback` bracket the trial;
`commit` hands out what is to be bound and who is to go. What was only pipelined (it waits for
pods that are ending) stays in the trial: it holds its room until the cycle ends, and is decided
anew in the next one. Room that an eviction leaves is room later, never now.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
import numpy as np

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import (
    PlacementListener,
)
from stromboli.scheduling.plugins.promises import (
    ConvoyListener,
)
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.resources import IntMatrix, IntVector, tallied

__all__ = ["Eviction", "Kept", "Placement", "Trial"]


class Placement(msgspec.Struct, frozen=True, eq=False):
    """Pods of one class and role of one job, and the slot of each."""

    contender: Contender
    kind: TaskClass
    request: IntVector
    tasks: tuple[Task, ...]
    slots: IntVector
    pipelined: bool


class Eviction(msgspec.Struct, frozen=True, eq=False):
    """A pod that must give up its place, for whom, and by which action."""

    contender: Contender
    """The victim's job."""
    task: Task
    request: IntVector
    slot: int
    claimant: Contender | None
    action: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What a commit decided."""

    placements: list[Placement]
    evictions: list[Eviction]
    pipelined: list[Placement]
    """Placements that still wait; they stay in the trial."""


@dataclass(slots=True)
class Trial:
    """What one cycle has placed and evicted so far."""

    idle: IntMatrix
    """What is free now."""
    future: IntMatrix
    """What is free when everything that is ending has ended, less what waits for that."""
    listeners: Sequence[PlacementListener] = ()
    touched: list[IntVector] = field(default_factory=list[IntVector])
    """Slots, in the order in which something was placed on them or taken back."""
    evicted: dict[str, Eviction] = field(default_factory=dict[str, Eviction])
    """By uid: everybody who was told to go in this cycle, whether that is final or not."""
    _log: list[Placement | Eviction] = field(default_factory=list[Placement | Eviction])

    def checkpoint(self) -> int:
        return len(self._log)

    def apply(self, placement: Placement) -> None:
        self._count(placement, 1)
        self._log.append(placement)

    def keep_all(self, placements: Sequence[Placement], slots: IntVector) -> None:
        """As `apply` and `commit` of each, of jobs of one queue that are given pods of one class.

        `slots` are those of all the placements together.
        """
        where, times = tallied(slots)
        taken = placements[0].request[:, None] * times
        self._take(where, where, taken, pipelined=False)
        for placement in placements:
            placement.contender.note_placed(placement.tasks, pipelined=False, sign=1)
        for listener in self.listeners:
            if isinstance(listener, ConvoyListener):
                listener.placed_together(placements)
            else:
                for placement in placements:
                    listener.placed(placement)

    def evict(self, eviction: Eviction, *, final: bool = False) -> None:
        """`final`: it counts as committed, so nothing takes it back but `restore`."""
        self._free(eviction, 1)
        if not final:
            self._log.append(eviction)

    def restore(self, eviction: Eviction, *, final: bool = False) -> None:
        """The victim is spared, without undoing what came after it."""
        if not final:
            self._log.remove(eviction)
        self._free(eviction, -1)

    def withdraw(self, placement: Placement) -> None:
        """It was not made, without undoing what came after it."""
        self._log.remove(placement)
        self._count(placement, -1)

    @contextmanager
    def without(self, placement: Placement) -> Generator[None]:
        """As if this one placement had not been made, for a moment."""
        self._count(placement, -1)
        try:
            yield
        finally:
            self._count(placement, 1)

    def rollback(self, mark: int) -> None:
        """As if nothing had happened since the checkpoint."""
        while len(self._log) > mark:
            match self._log.pop():
                case Placement() as placement:
                    self._count(placement, -1)
                case Eviction() as eviction:
                    self._free(eviction, -1)

    def commit(self, mark: int) -> Kept:
        """From here on only the cluster itself can take it back."""
        kept = Kept([], self.evictions(mark), [])
        for entry in self._log[mark:]:
            if isinstance(entry, Placement):
                (kept.pipelined if entry.pipelined else kept.placements).append(entry)
        self._log[mark:] = kept.pipelined
        return kept

    def evictions(self, mark: int = 0) -> list[Eviction]:
        """Those since the checkpoint that are not committed."""
        return [entry for entry in self._log[mark:] if isinstance(entry, Eviction)]

    def placements(self, mark: int = 0) -> list[Placement]:
        """Those since the checkpoint that are not committed, or wait for room."""
        return [entry for entry in self._log[mark:] if isinstance(entry, Placement)]

    def _count(self, placement: Placement, sign: int) -> None:
        pipelined = placement.pipelined
        if len(placement.slots) == 1:
            taken = sign * placement.request
            self._take(placement.slots, placement.slots[0], taken, pipelined=pipelined)
        else:
            slots, times = tallied(placement.slots)
            taken = sign * placement.request[:, None] * times
            self._take(slots, slots, taken, pipelined=pipelined)
        placement.contender.note_placed(placement.tasks, pipelined=placement.pipelined, sign=sign)
        for listener in self.listeners:
            (listener.placed if sign > 0 else listener.withdrawn)(placement)

    def _take(
        self, slots: IntVector, where: IntVector | int, taken: IntMatrix, *, pipelined: bool
    ) -> None:
        self.touched.append(slots)
        self.future[:, where] -= taken
        if not pipelined:
            self.idle[:, where] -= taken

    def _free(self, eviction: Eviction, sign: int) -> None:
        self.touched.append(np.array([eviction.slot], dtype=np.int64))
        self.future[: len(eviction.request), eviction.slot] += sign * eviction.request
        eviction.contender.note_evicted(eviction.task, sign=sign)
        if sign > 0:
            self.evicted[eviction.task.uid] = eviction
        else:
            del self.evicted[eviction.task.uid]
        for listener in self.listeners:
            (listener.evicted if sign > 0 else listener.restored)(eviction)
