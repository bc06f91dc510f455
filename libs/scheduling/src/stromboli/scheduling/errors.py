"""What can be wrong with what the scheduler is given.

SchedulingError
├── BadFact          an object that can't be reckoned with; it is set aside, all others go on
└── BadConfiguration a plugin, an action, a flag or an argument that does not exist
    └── BadFile      everything that is wrong with one configuration file
"""

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["BadConfiguration", "BadFact", "BadFile", "SchedulingError"]


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
        said = f"{what} {given!r} is not known; expected one of {', '.join(self.known)}"
        near = difflib.get_close_matches(given, self.known, n=1)
        if near:
            said += f" (did you mean {near[0]!r}?)"
        super().__init__(said)


class BadFile(BadConfiguration):
    """A configuration file that can't be used; all its problems, so that one reading is enough."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        self.known = ()
        SchedulingError.__init__(self, "; ".join(self.problems))
