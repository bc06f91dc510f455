"""The way out for plugins that ask somebody else: a port, because libs do no I/O.

Whoever runs a core with such a plugin gives it one, and lets it decide where waiting harms nobody
(`DecidingShell` uses a thread). What is asked of others is bounded: every answer in bytes and in
time, and all answers of a cycle together in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["NoAnswer", "Question", "Remote"]


@dataclass(frozen=True, slots=True)
class Question:
    """A body of JSON to be posted to an address."""

    url: str
    body: bytes


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """There was none, or none that counts; why, in words for people."""

    problem: str


class Remote(Protocol):
    """Asks others."""

    def begin(self, budget_s: float) -> None:
        """A cycle begins: from here on all questions together may take this long."""
        ...

    def ask(self, questions: Sequence[Question], *, each_s: float) -> list[bytes | NoAnswer]:
        """The answers with status 200, in the order of the questions; several at a time."""
        ...
