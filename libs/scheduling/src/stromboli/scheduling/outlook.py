"""What every node can do for one class of pods: whether, how many, and how well.

Computed once per class and cycle, and then only for the nodes on which something was placed
meanwhile. That a node's score depends on that node alone is what makes this possible.
"""

from typing import TYPE_CHECKING

import numpy as np

from stromboli.scheduling.placing import capacities
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.resources import Amounts, BoolPerNode, FloatPerNode, IntVector

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

__all__ = ["Outlook"]


class Outlook:
    """The nodes as one class sees them."""

    def __init__(self, session: "Session", kind: TaskClass) -> None:
        self.kind = kind
        self.vector = session.nodes.resources.vector(kind.request)
        self.feasible: BoolPerNode = np.ones(len(session.nodes), dtype=np.bool_)
        for verdict in session.verdicts(kind):
            self.feasible &= verdict.passes
        self._session = session
        everywhere = np.arange(len(session.nodes), dtype=np.int64)
        self.now = np.zeros(len(everywhere), dtype=np.int64)
        """How many fit into what is free, without touching what others wait for."""
        self.later = self.now
        """How many fit when everything that is ending has ended."""
        if session.waits_possible:
            self.later = self.now.copy()
        self.first = np.zeros(len(everywhere))
        """The score of placing one more."""
        self._seen = len(session.trial.touched)
        self._compute(everywhere)

    def refresh(self) -> None:
        touched = self._session.trial.touched
        if self._seen < len(touched):
            slots = touched[self._seen] if self._seen + 1 == len(touched) else None
            self._compute(np.concatenate(touched[self._seen :]) if slots is None else slots)
            self._seen = len(touched)

    def score(self, slots: IntVector, extra: IntVector) -> FloatPerNode:
        """Of placing one more where `extra` more stand already."""
        return self._session.score(_Imagined(self._session, self.kind, self.vector, slots, extra))

    def _compute(self, slots: IntVector) -> None:
        trial, feasible = self._session.trial, self.feasible[slots]
        self.now[slots] = capacities(trial.idle[:, slots], self.vector, feasible)
        if self._session.waits_possible:
            later = capacities(trial.future[:, slots], self.vector, feasible)
            self.later[slots] = later
            self.now[slots] = np.minimum(self.now[slots], later)
        self.first[slots] = self.score(slots, np.zeros(len(slots), dtype=np.int64))


class _Imagined:
    """Some nodes with some more pods of one class on them."""

    __slots__ = ("_extra", "_session", "_slots", "_vector", "request")

    def __init__(
        self,
        session: "Session",
        kind: TaskClass,
        vector: IntVector,
        slots: IntVector,
        extra: IntVector,
    ) -> None:
        self.request: Amounts = kind.request
        self._session = session
        self._vector = vector
        self._slots = slots
        self._extra = extra

    def allocatable(self, resource: str) -> IntVector:
        row = self._session.nodes.resources.row(resource)
        if row >= len(self._session.allocatable):  # nobody has spoken of it before
            return np.zeros(len(self._slots), dtype=np.int64)
        return self._session.allocatable[row, self._slots]

    def used(self, resource: str) -> IntVector:
        offered = self.allocatable(resource)
        row = self._session.nodes.resources.row(resource)
        if row >= len(self._vector):
            return offered
        return (
            offered - self._session.trial.idle[row, self._slots] + self._vector[row] * self._extra
        )
