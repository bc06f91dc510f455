"""What cycles did and how long their parts took, for whoever shows figures.

The core has no clock. Whoever runs it may hang a stopwatch in here; without one nothing is noted.
What was noted is handed over and forgotten, so it does not grow.
"""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

__all__ = ["ACTION", "CYCLE", "ERROR", "OPENING", "SCHEDULED", "UNSCHEDULABLE", "Notes", "Tally"]

CYCLE: Final = "cycle"
OPENING: Final = "opening"
ACTION: Final = "action"
"""What takes time; the label of an action is its name, that of a plugin ends in the moment."""

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"


@dataclass(slots=True)
class Notes:
    """Since the last time that they were taken."""

    spans_s: list[tuple[str, str, float]] = field(default_factory=list[tuple[str, str, float]])
    """What took how long, with its label."""
    plugins_s: list[tuple[str, str, float]] = field(default_factory=list[tuple[str, str, float]])
    """Which plugin took how long, at which moment of a cycle."""
    waits_s: list[float] = field(default_factory=list[float])
    """How old jobs were when pods of theirs were bound together."""
    attempts: Counter[str] = field(default_factory=Counter[str])
    """Jobs that were looked at, by how it ended."""
    evictions: Counter[str] = field(default_factory=Counter[str])
    """Rounds of evictions that were decided together, by action."""
    victims: int = 0
    """How many pods the last of them told to go."""


@dataclass(slots=True)
class Tally:
    """Notes nothing until it has a stopwatch."""

    stopwatch: Callable[[], float] | None = None
    notes: Notes = field(default_factory=Notes)

    @property
    def is_on(self) -> bool:
        return self.stopwatch is not None

    def take(self) -> Notes:
        notes, self.notes = self.notes, Notes()
        return notes

    @contextmanager
    def span(self, what: str, label: str = "") -> Generator[None]:
        if self.stopwatch is None:
            yield
            return
        began = self.stopwatch()
        yield
        self.notes.spans_s.append((what, label, self.stopwatch() - began))

    @contextmanager
    def plugin(self, plugin: object, moment: str) -> Generator[None]:
        if self.stopwatch is None:
            yield
            return
        began = self.stopwatch()
        yield
        name = str(getattr(plugin, "name", type(plugin).__name__))
        self.notes.plugins_s.append((name, moment, self.stopwatch() - began))

    def attempted(self, result: str) -> None:
        if self.is_on:
            self.notes.attempts[result] += 1

    def evicted(self, action: str, victims: int) -> None:
        if self.is_on:
            self.notes.evictions[action] += 1
            self.notes.victims = victims

    def placed(self, waited_s: float) -> None:
        if self.is_on:
            self.notes.waits_s.append(waited_s)
