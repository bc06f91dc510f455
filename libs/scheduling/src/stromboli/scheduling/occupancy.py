"""Who takes room where: every pod on a node, and every pod that was promised one.

One entry per pod uid, whether it rests on a fact or on a promise of the ledger; a fact about a
pod replaces the promise without a moment in which the room looks free. Entries outlive their
node: when a node of that name comes (back), what stands on it is counted again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stromboli.scheduling.nodes import NodeFacts, NodeTable
from stromboli.scheduling.pods import Task, TaskStatus
from stromboli.scheduling.resources import Amounts, IntVector
from stromboli.scheduling.trial import Placement

__all__ = ["Occupancy"]


@dataclass(slots=True)
class Occupancy:
    """Keeps the node table's sums equal to the sum of its entries."""

    table: NodeTable
    _places: dict[str, Task] = field(default_factory=dict[str, Task])
    """By uid: the pod as it was when it was counted."""
    _on_node: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])

    def on_node(self, name: str) -> Iterable[str]:
        """Uids of the pods that take room there."""
        return self._on_node.get(name, ())

    def occupy(self, task: Task) -> bool:
        """Whether this left more room somewhere than there was before."""
        before = self._places.get(task.uid)
        if before is not None:
            if _take_the_same(before, task):
                return False
            self._forget(before)
        self._places[task.uid] = task
        self._on_node.setdefault(task.node, {})[task.uid] = None
        self._count(task, 1)
        return before is not None

    def occupy_many(
        self, placements: Sequence[Placement], all_bound: Sequence[Sequence[Task]]
    ) -> None:
        """Promises for pods that had no place so far, in the order of the placements."""
        by_node = self._on_node
        by_request: dict[Amounts, list[IntVector]] = {}
        for placement, bound in zip(placements, all_bound, strict=True):
            self._places.update({task.uid: task for task in bound})
            for task in bound:
                on_node = by_node.get(task.node)
                if on_node is None:
                    by_node[task.node] = {task.uid: None}
                else:
                    on_node[task.uid] = None
            by_request.setdefault(placement.kind.request, []).append(placement.slots)
        for request, slots in by_request.items():
            together = slots[0] if len(slots) == 1 else np.concatenate(slots)
            self.table.take_many(together, self.table.resources.vector(request))

    def vacate(self, uid: str) -> bool:
        """Whether it had a place."""
        place = self._places.get(uid)
        if place is None:
            return False
        self._forget(place)
        return True

    def node_came(self, facts: NodeFacts, allocatable: Amounts) -> None:
        """Put the node in the table; on one that is new, count what stands there already."""
        is_new = facts.name not in self.table
        self.table.put(facts, allocatable)
        if is_new:
            for uid in self._on_node.get(facts.name, ()):
                self._count(self._places[uid], 1)

    def _count(self, task: Task, sign: int) -> None:
        ending = task.status is TaskStatus.RELEASING
        self.table.take(task.node, task.kind.request, ending=ending, sign=sign)

    def _forget(self, task: Task) -> None:
        del self._places[task.uid]
        on_node = self._on_node[task.node]
        del on_node[task.uid]
        if not on_node:
            del self._on_node[task.node]
        self._count(task, -1)


def _take_the_same(one: Task, other: Task) -> bool:
    return (
        one.node == other.node
        and one.kind.request == other.kind.request
        and (one.status is TaskStatus.RELEASING) == (other.status is TaskStatus.RELEASING)
    )
