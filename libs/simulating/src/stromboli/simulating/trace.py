"""What a trace says: a cluster, and jobs that come to it one after the other."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stromboli.api.batch import Job
from stromboli.api.meta import KubeObject
from stromboli.simulating.errors import SimulationError

__all__ = ["Arrival", "BadTrace", "Problem", "Standing", "Trace"]

_SHOWN: Final = 40


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong, and where."""

    file: str
    line: int
    """Counted from one; zero when it is about the file as a whole."""
    field: str
    sentence: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return (
            f"{place}: {self.field}: {self.sentence}" if self.field else f"{place}: {self.sentence}"
        )


class BadTrace(SimulationError):
    """Everything that is wrong with the files, so that one reading is enough."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        shown = [str(problem) for problem in self.problems[:_SHOWN]]
        if (more := len(self.problems) - len(shown)) > 0:
            shown.append(f"… and {more} more")
        super().__init__("\n".join(["the trace can not be used", *shown]))


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job, and when it is submitted."""

    at_s: float
    """Seconds since the beginning of the trace."""
    job: Job
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """An object that is there from the beginning: a node, a queue, a priority class."""

    item: KubeObject
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """All that happens from outside."""

    objects: tuple[Standing, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    """In the order of their moments, and of the file where moments are equal."""
