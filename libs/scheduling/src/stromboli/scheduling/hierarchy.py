"""The tree of queues: who is above whom, and whose place in it can't be made out.

A queue without a parent stands under the root, which exists even if no object says so. A parent
that does not exist, or a circle, is the problem of that queue and of those below it; all others
keep their places. Jobs belong in leaves: a queue with children takes none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stromboli.api.wellknown import ROOT_QUEUE
from stromboli.scheduling.queues import QueueInfo

__all__ = ["Position", "QueueTree"]


@dataclass(frozen=True, slots=True)
class Position:
    """A queue's place in the tree."""

    name: str
    ancestors: tuple[str, ...] = ()
    """From the root down, without itself; empty for the root, and for one that has a problem."""
    children: tuple[str, ...] = ()
    problem: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        """From the root down to itself."""
        return (*self.ancestors, self.name)

    @property
    def parent(self) -> str:
        return self.ancestors[-1] if self.ancestors else ""

    def above(self, level: int) -> str:
        """The ancestor so many steps up, 1 being the parent; empty where the root is, or none."""
        if not 0 < level < len(self.ancestors):
            return ""
        return self.ancestors[-level]


class QueueTree:
    """Built anew when a queue comes, goes, or changes its parent."""

    def __init__(self, queues: Mapping[str, QueueInfo]) -> None:
        self.root = queues.get(ROOT_QUEUE) or QueueInfo(ROOT_QUEUE)
        self._parents = {
            name: queue.parent or ROOT_QUEUE for name, queue in queues.items() if name != ROOT_QUEUE
        }
        self._problems = {name: queue.problem for name, queue in queues.items() if queue.problem}
        self._positions: dict[str, Position] = {ROOT_QUEUE: Position(ROOT_QUEUE)}
        children: dict[str, list[str]] = {}
        for name in sorted(self._parents):
            position = self._find(name)
            if not position.problem:
                children.setdefault(position.parent, []).append(name)
        for name, below in children.items():
            position = self._positions[name]
            self._positions[name] = Position(name, position.ancestors, tuple(below))

    @staticmethod
    def shape(queues: Mapping[str, QueueInfo]) -> tuple[tuple[str, str, str], ...]:
        """Equal as long as the tree is."""
        return tuple((name, queue.parent, queue.problem) for name, queue in sorted(queues.items()))

    def __contains__(self, name: str) -> bool:
        return name in self._positions

    def position(self, name: str) -> Position:
        return self._positions.get(name) or Position(name, problem=f"queue {name!r} does not exist")

    def path(self, name: str) -> tuple[str, ...]:
        """From the root down to itself; of a queue without a place, itself."""
        return self.position(name).path

    @property
    def positions(self) -> list[Position]:
        """Of every queue that has a place, parents first."""
        placed = [position for position in self._positions.values() if not position.problem]
        placed.sort(key=lambda position: (len(position.ancestors), position.name))
        return placed

    def jobs_barred(self, name: str) -> str:
        """Why the queue takes no jobs; empty if it does."""
        position = self.position(name)
        if position.problem:
            return position.problem
        if position.children:
            shown = ", ".join(position.children[:3]) + (", …" if len(position.children) > 3 else "")
            return f"queue {name!r} has queues below it ({shown}); jobs belong in one of those"
        return ""

    def common(self, one: str, other: str) -> int:
        """How many steps from the root their paths share."""
        steps = 0
        for left, right in zip(self.path(one), self.path(other), strict=False):
            if left != right:
                break
            steps += 1
        return steps

    def _find(self, name: str) -> Position:
        """Walks up until a queue whose place is known, then back down."""
        walk: list[str] = []
        here, problem = name, ""
        while not problem and here not in self._positions:
            if here in walk:
                circle = " under ".join([*walk[walk.index(here) :], here])
                problem = f"queues stand in a circle: {circle}"
            elif here not in self._parents:
                problem = f"queue {walk[-1]!r} names a parent {here!r} that does not exist"
            elif here in self._problems:
                problem = self._problems[here]
                walk.append(here)
            else:
                walk.append(here)
                here = self._parents[here]
        if not problem:
            problem = self._positions[here].problem
        for step in reversed(walk):
            if problem:
                self._positions[step] = Position(step, problem=problem)
            else:
                self._positions[step] = Position(step, self._positions[self._parents[step]].path)
        return self._positions[name]
