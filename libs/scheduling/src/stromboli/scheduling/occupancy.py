"""Who takes room where: every pod on a node, and every pod that was promised one.

One entry per pod uid, whether it rests on a fact or on a promise of the ledger; a fact about a
pod replaces the promise without a moment in which the room looks free. Entries outlive their
node: when a node of that name comes (back), what stands on it is counted again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from stromboli.scheduling.nodes import NodeFacts, NodeTable
from stromboli.scheduling.pods import Task
from stromboli.scheduling.resources import Amounts, IntVector

__all__ = ["Occupancy", "Place"]


class Place(msgspec.Struct, frozen=True, gc=False):
    """The room one pod takes."""

    node: str
    request: Amounts
    ending: bool = False


@dataclass(slots=True)
class Occupancy:
    """Keeps the node table's sums equal to the sum of its entries."""

    table: NodeTable
    _places: dict[str, Place] = field(default_factory=dict[str, Place])
    _on_node: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])

    def place_of(self, uid: str) -> Place | None:
        return self._places.get(uid)

    def on_node(self, name: str) -> Iterable[str]:
        """Uids of the pods that take room there."""
        return self._on_node.get(name, ())

    def occupy(self, uid: str, place: Place) -> bool:
        """Whether this left more room somewhere than there was before."""
        before = self._places.get(uid)
        if before == place:
            return False
        if before is not None:
            self._forget(uid, before)
        self._remember(uid, place)
        self.table.take(place.node, place.request, ending=place.ending)
        return before is not None

    def occupy_many(self, tasks: Sequence[Task], slots: IntVector) -> None:
        """Promises for pods of one class, which had no place so far."""
        request = tasks[0].kind.request
        places, by_node = self._places, self._on_node
        for task in tasks:
            uid, node = task.uid, task.node
            places[uid] = Place(node, request)
            on_node = by_node.get(node)
            if on_node is None:
                by_node[node] = {uid: None}
            else:
                on_node[uid] = None
        self.table.take_many(slots, self.table.resources.vector(request))

    def vacate(self, uid: str) -> bool:
        """Whether it had a place."""
        place = self._places.get(uid)
        if place is None:
            return False
        self._forget(uid, place)
        return True

    def node_came(self, facts: NodeFacts, allocatable: Amounts) -> None:
        """Put the node in the table; on one that is new, count what stands there already."""
        is_new = facts.name not in self.table
        self.table.put(facts, allocatable)
        if is_new:
            for uid in self._on_node.get(facts.name, ()):
                place = self._places[uid]
                self.table.take(place.node, place.request, ending=place.ending)

    def _remember(self, uid: str, place: Place) -> None:
        self._places[uid] = place
        self._on_node.setdefault(place.node, {})[uid] = None

    def _forget(self, uid: str, place: Place) -> None:
        del self._places[uid]
        on_node = self._on_node[place.node]
        del on_node[uid]
        if not on_node:
            del self._on_node[place.node]
        self.table.take(place.node, place.request, ending=place.ending, sign=-1)
