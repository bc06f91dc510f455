"""What can be wrong with what the scheduler is given.

SchedulingError
├── BadFact          an object that can't be reckoned with; it is set aside, all others go on
└── BadConfiguration a plugin, an action or an argument that does not exist
"""

from collections.abc import Iterable

__all__ = ["BadConfiguration", "BadFact", "SchedulingError"]


class SchedulingError(Exception):
    """Something that was given to the scheduler is not usable."""


class BadFact(SchedulingError):
    """An object says something that no arithmetic can use."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(f"{what} is set aside: {problem}")
        self.what = what
        self.problem = problem


class BadConfiguration(SchedulingError):
    """A name or an argument in the configuration that nothing answers to."""

    def __init__(self, what: str, given: str, known: Iterable[str]) -> None:
        self.known = tuple(known)
        super().__init__(f"{what} {given!r} is not known; expected one of {', '.join(self.known)}")
