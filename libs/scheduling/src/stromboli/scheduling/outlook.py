"""What every node can do for one class of pods: whether, how many, and how well.

Computed once per class and cycle, and then only for the nodes on which something was placed
meanwhile. That a node's score depends on that node alone is what makes this possible. Choices are
made ahead: the next pods of the class will most likely come next, and as long as nothing else was
placed or taken back in between, where they go is known already.
"""

from typing import TYPE_CHECKING, Final

import numpy as np

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.placing import ScoreAfter, capacities, place
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.resources import (
    Amounts,
    BoolPerNode,
    FloatPerNode,
    IntMatrix,
    IntVector,
    tallied,
)

if TYPE_CHECKING:
    from stromboli.scheduling.choosing import Choosing
    from stromboli.scheduling.session import Session

__all__ = ["Outlook"]

_MOST_AHEAD: Final = 2048


class Outlook:
    """The nodes as one class sees them."""

    def __init__(
        self, session: "Session", choosing: "Choosing", contender: Contender, kind: TaskClass
    ) -> None:
        self.kind = kind
        self.vector = session.nodes.resources.vector(kind.request)
        self.feasible: BoolPerNode = np.ones(len(session.nodes), dtype=np.bool_)
        for verdict in choosing.verdicts(contender, kind):
            self.feasible &= verdict.passes
        self._session = session
        self._choosing = choosing
        self._liking = choosing.preferences(contender, kind, self.feasible)
        everywhere = np.arange(len(session.nodes), dtype=np.int64)
        self._now = np.zeros(len(everywhere), dtype=np.int64)
        self._later = self._now.copy() if session.waits_possible else self._now
        self._first = np.zeros(len(everywhere))
        self._seen = len(session.trial.touched)
        self._plan = np.zeros(0, dtype=np.int64)
        self._used = 0
        self._undisturbed = -1
        """How long `touched` was after the last pod of the plan was placed."""
        self._compute(everywhere)

    # How the nodes are now.

    @property
    def now(self) -> IntVector:
        """How many fit into what is free, without touching what others wait for."""
        self._refresh()
        return self._now

    @property
    def later(self) -> IntVector:
        """How many fit when everything that is ending has ended."""
        self._refresh()
        return self._later

    @property
    def first(self) -> FloatPerNode:
        """The score of placing one more."""
        self._refresh()
        return self._first

    def score(self, slots: IntVector, extra: IntVector) -> FloatPerNode:
        """Of placing one more where `extra` more stand already."""
        imagined = _Imagined(self._session, self.kind, self.vector, slots, extra)
        score = self._choosing.score(imagined)
        return score if self._liking is None else score + self._liking[slots]

    def _refresh(self) -> None:
        touched = self._session.trial.touched
        if self._seen < len(touched):
            new = touched[self._seen :]
            self._compute(new[0] if len(new) == 1 else tallied(np.concatenate(new))[0])
            self._seen = len(touched)

    def _compute(self, slots: IntVector) -> None:
        trial, feasible = self._session.trial, self.feasible[slots]
        self._now[slots] = self._room(trial.idle[:, slots], feasible)
        if self._session.waits_possible:
            later = self._room(trial.future[:, slots], feasible)
            self._later[slots] = later
            self._now[slots] = np.minimum(self._now[slots], later)
        self._first[slots] = self.score(slots, np.zeros(len(slots), dtype=np.int64))

    def _room(self, free: IntMatrix, feasible: BoolPerNode) -> IntVector:
        room = capacities(free, self.vector, feasible)
        for plugin in self._session.panel.room_limits:
            most = plugin.room_for(self.kind, self._session.nodes.resources, free)
            if most is not None:
                room = np.minimum(room, most)
        return room

    # Choices.

    def choose(self, count: int, *, pipelined: bool) -> IntVector:
        """Where the next `count` pods go; fewer if there is no more room."""
        if pipelined:
            return place(count, self.later, self.score, self.first)
        is_as_planned = self._undisturbed == len(self._session.trial.touched)
        if not is_as_planned or self._used + count > len(self._plan):
            ahead = 2 * len(self._plan) if is_as_planned else 0
            ahead = max(count, min(ahead, _MOST_AHEAD))
            self._plan = place(ahead, self.now, self.score, self.first)
            self._used = 0
        chosen = self._plan[self._used : self._used + count]
        self._used += len(chosen)
        return chosen

    def choose_among(
        self,
        count: int,
        slots: IntVector | None,
        closeness: FloatPerNode | None,
        *,
        pipelined: bool,
    ) -> IntVector:
        """As `choose`, on some of the nodes, or with one more thing to like about each."""
        room, first = (self.later if pipelined else self.now), self.first
        score: ScoreAfter = self.score
        if closeness is not None:
            first = first + closeness
            score = lambda where, extra: self.score(where, extra) + closeness[where]  # noqa: E731
        if slots is None:
            return place(count, room, score, first)
        chosen = place(
            count, room[slots], lambda where, extra: score(slots[where], extra), first[slots]
        )
        return slots[chosen]

    def went_as_planned(self) -> None:
        """What was chosen last has been placed, and nothing else."""
        self._undisturbed = len(self._session.trial.touched)


class _Imagined:
    """Some nodes with some more pods of one class on them; several plugins ask the same of it."""

    __slots__ = ("_extra", "_offered", "_session", "_used", "_vector", "kind", "request", "slots")

    def __init__(
        self,
        session: "Session",
        kind: TaskClass,
        vector: IntVector,
        slots: IntVector,
        extra: IntVector,
    ) -> None:
        self.kind = kind
        self.request: Amounts = kind.request
        self._session = session
        self._vector = vector
        self.slots = slots
        self._extra = extra
        self._offered: dict[str, IntVector] = {}
        self._used: dict[str, IntVector] = {}

    def allocatable(self, resource: str) -> IntVector:
        found = self._offered.get(resource)
        if found is None:
            row = self._session.nodes.resources.row(resource)
            if row < len(self._session.allocatable):
                found = self._session.allocatable[row, self.slots]
            else:  # nobody has spoken of it before
                found = np.zeros(len(self.slots), dtype=np.int64)
            self._offered[resource] = found
        return found

    def used(self, resource: str) -> IntVector:
        found = self._used.get(resource)
        if found is None:
            found = self.allocatable(resource)
            row = self._session.nodes.resources.row(resource)
            if row < len(self._vector):
                found = found - self._session.trial.idle[row, self.slots]
                if self._vector[row]:
                    found = found + self._vector[row] * self._extra
            self._used[resource] = found
        return found
