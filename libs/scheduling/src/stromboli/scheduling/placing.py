"""Place many identical pods at once, exactly as placing them one after the other would.

One after the other means: take the node with the best score that has room, the first by name
among equals; count the pod there; repeat. The score of a node depends on that node alone, so
its scores after 0, 1, 2… more pods are a sequence that can be written down in advance, and the
choice is a merge of such sequences. Where a score rises after a pod was placed (packing), the
node is chosen again at once; so an entry is due when the lowest entry before it in its sequence
is due. Sorted by (that running minimum, node, position) the entries *are* the choices.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from stromboli.scheduling.resources import (
    BoolPerNode,
    FloatPerNode,
    IntMatrix,
    IntVector,
)

__all__ = ["ScoreAfter", "best", "capacities", "place"]

ScoreAfter = Callable[[IntVector, IntVector], FloatPerNode]
"""(slots, already placed there) -> the score of placing one more there."""

_MOST_ENTRIES: Final = 1 << 20
"""Sequences are written down in portions of this many entries."""
_MOST_SQUARE: Final = 1 << 10
_FIRST_DEPTH: Final = 2


def capacities(room: IntMatrix, request: IntVector, feasible: BoolPerNode) -> IntVector:
    """How many such pods each node has room for."""
    rows = np.flatnonzero(request)
    if not len(rows):
        return np.where(feasible, np.iinfo(np.int64).max, 0)
    fits = np.floor_divide(room[rows], request[rows, None]).min(axis=0)
    return np.where(feasible, np.maximum(fits, 0), 0)


def place(
    count: int, capacity: IntVector, score_after: ScoreAfter, first: FloatPerNode | None = None
) -> IntVector:
    """Slots for up to `count` pods, in the order in which they are chosen.

    `first` are the scores of a first pod where they are known already; what they say of nodes
    without room does not matter.
    """
    if count == 1 and first is not None:
        slot = int(np.argmax(np.where(capacity > 0, first, -np.inf))) if len(first) else 0
        found = len(first) > 0 and capacity[slot] > 0
        return np.array([slot] if found else [], dtype=np.int64)
    count = min(count, int(np.minimum(capacity, count).sum()))
    placed = np.zeros_like(capacity)
    chosen: list[IntVector] = []
    while count > 0:
        portion = _portion(count, capacity - placed, placed, score_after, first)
        first = None
        chosen.append(portion)
        placed += np.bincount(portion, minlength=len(capacity))
        count -= len(portion)
    return np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)


def _portion(
    count: int,
    capacity: IntVector,
    placed: IntVector,
    score_after: ScoreAfter,
    known: FloatPerNode | None,
) -> IntVector:
    slots = np.flatnonzero(capacity)
    first = score_after(slots, placed[slots]) if known is None else known[slots]
    # No node that is not among the first `count` now can be chosen before these are used up.
    near = slots[best(first, count)]
    deepest = int(min(count, capacity[near].max()))
    if len(near) * deepest > _MOST_ENTRIES:
        count = min(count, max(_MOST_SQUARE, _MOST_ENTRIES // deepest))
        near = slots[best(first, count)]
        deepest = int(min(count, capacity[near].max()))
    sequences = _Sequences(near, np.minimum(capacity[near], deepest), placed[near], score_after)
    picks, due = sequences.best(count)
    return near[picks[np.argsort(-due, kind="stable")]]


class _Sequences:
    """When each further pod on each of some nodes is due, written down as far as needed."""

    def __init__(
        self, slots: IntVector, limit: IntVector, placed: IntVector, score_after: ScoreAfter
    ) -> None:
        self._slots = slots
        self._limit = limit
        self._placed = placed
        self._score_after = score_after
        self._deepest = int(limit.max())
        self._due = np.full((len(slots), self._deepest), -np.inf)
        self._written = np.zeros(len(slots), dtype=np.int64)

    def best(self, count: int) -> tuple[IntVector, FloatPerNode]:
        """The rows of the `count` entries that are due first, and when they are."""
        depth = min(_FIRST_DEPTH, self._deepest)
        rows = np.arange(len(self._slots), dtype=np.int64)
        while True:
            self._write_down(rows, depth)
            entries = self._due[:, :depth].reshape(-1)
            picks = best(entries, count)
            of_rows = picks // depth
            # A sequence that was used up to its last written entry may go on to be the best.
            used_up = of_rows[picks % depth == self._written[of_rows] - 1]
            rows = used_up[self._written[used_up] < self._limit[used_up]]
            if not len(rows):
                return of_rows, entries[picks]
            depth = min(2 * depth, self._deepest)

    def _write_down(self, rows: IntVector, depth: int) -> None:
        """Continue these sequences up to a depth; all of them have come equally far."""
        begin = int(self._written[rows[0]])
        positions = np.arange(begin, depth, dtype=np.int64)
        shape = (len(rows), len(positions))
        every_slot = np.repeat(self._slots[rows], len(positions))
        already = np.repeat(self._placed[rows], len(positions)) + np.tile(positions, len(rows))
        scores = self._score_after(every_slot, already).reshape(shape)
        if begin:
            scores[:, 0] = np.minimum(scores[:, 0], self._due[rows, begin - 1])
        scores = np.minimum.accumulate(scores, axis=1)
        scores[positions[None, :] >= self._limit[rows, None]] = -np.inf
        self._due[rows, begin:depth] = scores
        self._written[rows] = depth


def best(values: FloatPerNode, count: int) -> IntVector:
    """Positions of the `count` largest values, the first among equals, in ascending order."""
    if count >= len(values):
        return np.arange(len(values), dtype=np.int64)
    threshold = np.partition(values, len(values) - count)[len(values) - count]
    above = values > threshold
    equal = np.flatnonzero(values == threshold)[: count - int(above.sum())]
    above[equal] = True
    return np.flatnonzero(above)
