"""Batch placement against the plain way of doing it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stromboli.scheduling import placing
from stromboli.scheduling.placing import best, capacities, place
from stromboli.testkit.effort import examples

Floats = NDArray[np.float64]


def one_by_one(count: int, capacity: list[int], scores: list[list[float]]) -> list[int]:
    """The best node with room, the first among equals; again and again."""
    placed = [0] * len(capacity)
    chosen: list[int] = []
    for _ in range(count):
        open_nodes = [n for n in range(len(capacity)) if placed[n] < capacity[n]]
        if not open_nodes:
            break
        node = max(open_nodes, key=lambda n: (scores[n][placed[n]], -n))
        placed[node] += 1
        chosen.append(node)
    return chosen


DEPTH = 6
node_scores = st.lists(st.integers(0, 4).map(float), min_size=DEPTH, max_size=DEPTH)


@given(
    st.lists(st.tuples(st.integers(0, DEPTH), node_scores), min_size=1, max_size=6),
    st.integers(0, 30),
    st.sampled_from([1, 4, 1 << 20]),
)
@settings(max_examples=examples(200), deadline=None)
def test_any_scores_are_placed_as_one_by_one_would(
    nodes: list[tuple[int, list[float]]], count: int, most_entries: int
):
    """Rising, falling and mixed scores, with many ties, also when done in portions."""
    capacity = [room for room, _ in nodes]
    scores = [row for _, row in nodes]
    table = np.array(scores)

    def score_after(slots: NDArray[np.int64], placed: NDArray[np.int64]) -> Floats:
        # Positions beyond a node's room are written down, too, but never chosen.
        return table[slots, np.minimum(placed, DEPTH - 1)]

    before = placing._MOST_ENTRIES, placing._MOST_SQUARE
    placing._MOST_ENTRIES, placing._MOST_SQUARE = most_entries, min(2, most_entries)  # type: ignore[misc]
    try:
        found = place(count, np.array(capacity), score_after)
    finally:
        placing._MOST_ENTRIES, placing._MOST_SQUARE = before  # type: ignore[misc]

    assert found.tolist() == one_by_one(count, capacity, scores)


@given(st.lists(st.integers(0, 5).map(float), min_size=1, max_size=20), st.integers(1, 25))
def test_the_best_are_the_largest_and_the_first_among_equals(values: list[float], count: int):
    expected = sorted(sorted(range(len(values)), key=lambda at: (-values[at], at))[:count])

    assert best(np.array(values), count).tolist() == expected


def test_room_is_what_every_resource_allows():
    room = np.array([[10, 10, -5], [7, 100, 50]])
    request = np.array([3, 2])

    feasible = np.array([True, True, True])
    assert capacities(room, request, feasible).tolist() == [3, 3, 0]
    assert capacities(room, request, ~feasible).tolist() == [0, 0, 0]
