"""What can be wrong with what the scheduler is given.

SchedulingError
├── BadFact          an object that can't be reckoned with; it is set aside, all others go on
└── BadConfiguration a plugin, an action, a flag or an argument that does not exist
    ├── NotYet       a plugin of Volcano that is not here yet
    ├── BadValue     an argument that is there and means nothing
    ├── BadFile      everything that is wrong with one configuration file, or a part of it
    └── Unconnected  a plugin that asks other servers, where there is no way to them
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = [
    "EXPECTED",
    "BadConfiguration",
    "BadFact",
    "BadFile",
    "BadValue",
    "NotYet",
    "SchedulingError",
    "Unconnected",
]

EXPECTED: Final = "; expected one of "
"""After it come all names that would do."""


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
        near = difflib.get_close_matches(given, self.known, n=1)
        guess = f" (did you mean {near[0]!r}?)" if near else ""
        said = f"{what} {given!r} is not known{guess}{EXPECTED}{', '.join(self.known)}"
        super().__init__(said)

    @property
    def problems(self) -> tuple[str, ...]:
        return (str(self),)


class NotYet(BadConfiguration):
    """A plugin that is spelt right: no other name is what was meant."""

    def __init__(self, plugin: str) -> None:
        self.known = ()
        SchedulingError.__init__(
            self,
            f"{plugin!r} is a plugin of Volcano that Stromboli does not have yet; "
            "leave it out of this configuration",
        )


class BadValue(BadConfiguration):
    """A value of a type, or in a form, that nobody can make sense of."""

    def __init__(self, what: str, given: object, expected: str) -> None:
        self.known = ()
        SchedulingError.__init__(self, f"{what} is {given!r}, expected {expected}")


class BadFile(BadConfiguration):
    """A configuration file that can't be used; all its problems, so that one reading is enough."""

    def __init__(self, problems: Sequence[str]) -> None:
        self._problems = tuple(problems)
        self.known = ()
        SchedulingError.__init__(self, "; ".join(self._problems))

    @property
    def problems(self) -> tuple[str, ...]:
        return self._problems


class Unconnected(BadConfiguration):
    """A plugin that has to ask others, where nobody can be asked."""

    def __init__(self, plugin: str) -> None:
        self.known = ()
        SchedulingError.__init__(
            self,
            f"the plugin {plugin!r} asks another server, and there is no connection to one here; "
            "leave it out of this configuration",
        )
