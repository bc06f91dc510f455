"""What can go wrong in a simulation, in words for whoever asked for it.

SimulationError
├── BadInput          a file can not be read as objects; says where
├── BadTrace          everything that is wrong with a trace (`trace`)
├── CannotPlot        there is no way to draw the picture (`plotting`)
├── RefusedObject     admission would not let the object in
└── NeverSettles      the cluster goes round in circles without any time passing
"""

from collections.abc import Sequence

__all__ = ["BadInput", "NeverSettles", "RefusedObject", "SimulationError", "listed"]


class SimulationError(Exception):
    """The simulation can not go on."""


class BadInput(SimulationError):
    """What was given is not what it should be."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class RefusedObject(SimulationError):
    """Admission says no, as it would in a real cluster."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(f"{what} is refused: {message}")
        self.what = what
        self.message = message


class NeverSettles(SimulationError):
    """Something is done and undone again and again."""


def listed(problems: Sequence[str]) -> str:
    """One problem as it is; several, each on a line of its own."""
    if len(problems) == 1:
        return problems[0]
    return "\n".join((f"{len(problems)} problems", *(f"  {problem}" for problem in problems)))
