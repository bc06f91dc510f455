"""Choose nodes for the pods of one job: all of a class at once where that is the same.

Where it matters who stands where already (ports, affinity between pods, spreading), every pod
changes the answer for the next, so these are placed one at a time, each over all nodes at once.
Everything else goes through `placing`, a whole class in a few array operations.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.neighbours import Domains, Neighbourhood, Neighbours
from stromboli.scheduling.outlook import Outlook
from stromboli.scheduling.plugins.api import NodeState, Verdict
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.resources import PODS, BoolPerNode, FloatPerNode, IntVector
from stromboli.scheduling.trial import Placement

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

__all__ = ["Choosing"]


class Choosing:
    """One cycle's choices of nodes."""

    def __init__(self, session: "Session", neighbourhood: Neighbourhood, domains: Domains) -> None:
        self._session = session
        self.neighbours = Neighbours(neighbourhood, session.nodes, domains)
        self._outlooks: dict[tuple[TaskClass, str], Outlook] = {}
        panel = session.panel
        self._by_queue = bool(panel.queue_filters or panel.queue_preferences)
        self._within: IntVector | None = None
        """The only nodes that count at the moment; None: all do."""

    def forget(self) -> None:
        """What later room is worth has changed."""
        self._outlooks.clear()

    @contextmanager
    def within(self, slots: IntVector | None) -> Generator[None]:
        """Choose only among these nodes for a while; None changes nothing."""
        before = self._within
        if slots is not None:
            self._within = slots
        try:
            yield
        finally:
            self._within = before

    # What nodes are worth.

    def verdicts(self, contender: Contender, kind: TaskClass) -> list[Verdict]:
        """What each filter says of each node, whoever stands there."""
        session = self._session
        nodes, panel = session.nodes, session.panel
        found = [verdict for plugin in panel.filters for verdict in plugin.feasible(kind, nodes)]
        if panel.queue_filters:
            queue = session.queue(contender)
            for plugin in panel.queue_filters:
                found += plugin.feasible_in(queue, kind, nodes)
        if panel.last_filters:
            left = np.ones(len(nodes), dtype=np.bool_)
            for verdict in found:
                left &= verdict.passes
            for plugin in panel.last_filters:
                verdict = plugin.last_verdict(contender, kind, nodes, left)
                if verdict is not None:
                    found.append(verdict)
                    left &= verdict.passes
        return found

    def company(self, task: Task) -> list[Verdict]:
        """What is said of nodes because of those who stand there."""
        return [
            verdict
            for plugin in self._session.panel.company
            for verdict in plugin.tolerable(task, self.neighbours)
        ]

    def preferences(
        self, contender: Contender, kind: TaskClass, feasible: BoolPerNode
    ) -> FloatPerNode | None:
        session = self._session
        nodes, panel = session.nodes, session.panel
        parts = [plugin.preferences(kind, nodes, feasible) for plugin in panel.preferences]
        if panel.queue_preferences:
            queue = session.queue(contender)
            parts += [
                plugin.preferences_in(queue, kind, nodes) for plugin in panel.queue_preferences
            ]
        return _sum([part for part in parts if part is not None])

    def score(self, state: NodeState) -> FloatPerNode:
        total = _sum([plugin.score(state) for plugin in self._session.panel.scores])
        return np.zeros(len(state.allocatable(PODS))) if total is None else total

    def outlook(self, contender: Contender, kind: TaskClass) -> Outlook:
        """What the nodes can do for this class now."""
        key = (kind, contender.queue if self._by_queue else "")
        outlook = self._outlooks.get(key)
        if outlook is None:
            outlook = self._outlooks[key] = Outlook(self._session, self, contender, kind)
        return outlook

    # Choosing.

    def place(
        self,
        contender: Contender,
        tasks: Sequence[Task],
        *,
        pipelined: bool,
        where_free: bool = False,
    ) -> int:
        """Place tasks of one class and role; the first ones get a place, returns how many.

        `where_free`: although they are to wait, only where nobody has to go for them.
        """
        later = pipelined and not where_free
        if self.neighbours.concern_any(tasks) or self._counts(contender):
            return self._place_one_by_one(contender, tasks, pipelined=pipelined, later=later)
        outlook = self.outlook(contender, tasks[0].kind)
        closeness = self._closeness(contender, tasks[0])
        if self._within is not None or closeness is not None or where_free:
            slots = outlook.choose_among(len(tasks), self._within, closeness, pipelined=later)
            if len(slots):
                self._apply(contender, outlook, tasks[: len(slots)], slots, pipelined=pipelined)
            return len(slots)
        slots = outlook.choose(len(tasks), pipelined=pipelined)
        if len(slots):
            self._apply(contender, outlook, tasks[: len(slots)], slots, pipelined=pipelined)
            if not pipelined:
                outlook.went_as_planned()
        return len(slots)

    def place_at(self, contender: Contender, task: Task, slot: int, *, later: bool = False) -> bool:
        """Place this pod on this node, now or when room is left there; or `later` at any rate."""
        outlook = self.outlook(contender, task.kind)
        if not outlook.later[slot] and not outlook.now[slot]:
            return False
        if self._within is not None and slot not in self._within:
            return False
        if self._matters(contender, task) and not self._tolerable(task)[slot]:
            return False
        slots = np.array([slot], dtype=np.int64)
        pipelined = later or not outlook.now[slot]
        self._apply(contender, outlook, [task], slots, pipelined=pipelined)
        return True

    def admits(self, contender: Contender, task: Task) -> BoolPerNode:
        """Nodes that nothing but room can keep this pod from, as the trial stands."""
        feasible = self.outlook(contender, task.kind).feasible
        return feasible & self._tolerable(task) if self._matters(contender, task) else feasible

    def _matters(self, contender: Contender, task: Task) -> bool:
        """Whether what was placed so far can keep the pod from a node."""
        return self.neighbours.concerns(task) or self._counts(contender)

    def _counts(self, contender: Contender) -> bool:
        asked = self._session.panel.counting
        return bool(asked) and any(plugin.counts(contender) for plugin in asked)

    def _place_one_by_one(
        self, contender: Contender, tasks: Sequence[Task], *, pipelined: bool, later: bool
    ) -> int:
        for number, task in enumerate(tasks):
            outlook = self.outlook(contender, task.kind)
            room = (outlook.later if later else outlook.now) > 0
            if self._within is not None:
                room &= self._is_within()
            if not room.any():
                return number
            if self._matters(contender, task):
                room &= self._tolerable(task)
                if not room.any():
                    return number
                score = outlook.first + self._sociability(task, room)
            else:
                score = outlook.first
            closeness = self._closeness(contender, task)
            if closeness is not None:
                score = score + closeness
            slot = int(np.argmax(np.where(room, score, -np.inf)))
            slots = np.array([slot], dtype=np.int64)
            self._apply(contender, outlook, [task], slots, pipelined=pipelined)
        return len(tasks)

    def _is_within(self) -> BoolPerNode:
        found = np.zeros(len(self._session.nodes), dtype=np.bool_)
        found[self._within] = True
        return found

    def _closeness(self, contender: Contender, task: Task) -> FloatPerNode | None:
        asked = self._session.panel.closeness
        if not asked:
            return None
        parts = [plugin.closeness(contender, task) for plugin in asked]
        return _sum([part for part in parts if part is not None])

    def _tolerable(self, task: Task) -> BoolPerNode:
        passes = np.ones(len(self._session.nodes), dtype=np.bool_)
        for verdict in self.company(task):
            passes &= verdict.passes
        return passes

    def _sociability(self, task: Task, feasible: BoolPerNode) -> FloatPerNode:
        parts = [
            plugin.sociability(task, self.neighbours, feasible)
            for plugin in self._session.panel.company_scores
        ]
        total = _sum([part for part in parts if part is not None])
        return np.zeros(len(feasible)) if total is None else total

    def _apply(
        self,
        contender: Contender,
        outlook: Outlook,
        tasks: Sequence[Task],
        slots: IntVector,
        *,
        pipelined: bool,
    ) -> None:
        self._session.trial.apply(
            Placement(contender, outlook.kind, outlook.vector, tuple(tasks), slots, pipelined)
        )


def _sum(parts: list[FloatPerNode]) -> FloatPerNode | None:
    return sum(parts[1:], start=parts[0]) if parts else None
