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
    depth = int(min(count, capacity[near].max()))
    if len(near) * depth > _MOST_ENTRIES:
        count = min(count, max(_MOST_SQUARE, _MOST_ENTRIES // depth))
        near = slots[best(first, count)]
        depth = int(min(count, capacity[near].max()))
    slots = near
    positions = np.arange(depth, dtype=np.int64)
    every_slot = np.repeat(slots, depth)
    every_position = np.tile(positions, len(slots))
    scores = score_after(every_slot, placed[every_slot] + every_position)
    due = np.minimum.accumulate(scores.reshape(len(slots), depth), axis=1)
    due[positions[None, :] >= capacity[slots, None]] = -np.inf
    picks = best(due.reshape(-1), count)
    flat = due.reshape(-1)[picks]
    return every_slot[picks[np.argsort(-flat, kind="stable")]]


def best(values: FloatPerNode, count: int) -> IntVector:
    """Positions of the `count` largest values, the first among equals, in ascending order."""
    if count >= len(values):
        return np.arange(len(values), dtype=np.int64)
    threshold = np.partition(values, len(values) - count)[len(values) - count]
    above = values > threshold
    equal = np.flatnonzero(values == threshold)[: count - int(above.sum())]
    above[equal] = True
    return np.flatnonzero(above)
