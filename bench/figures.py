"""What a figure is: a question, and tables of numbers that answer it.

A figure yields its tables one by one, so that what was measured before a failure is kept. A
server that can't be had here makes a `NotMeasured`, with the reason, and never a failure.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from stromboli.testkit.api_server import ServerKind

__all__ = ["Cell", "Figure", "NotMeasured", "Result", "Row", "Run", "Table"]

Cell: TypeAlias = int | float | str
Row: TypeAlias = dict[str, Cell]
"""One line of a table: column → value; the unit is part of the column's name."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that belong together; the columns are those of the rows, in order."""

    title: str
    rows: list[Row]
    notes: list[str] = []


class NotMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a figure that could not be had on this machine, and why."""

    what: str
    reason: str


class Result(msgspec.Struct, kw_only=True):
    """All that came of one figure."""

    figure: str
    question: str
    tables: list[Table] = []
    not_measured: list[NotMeasured] = []
    failed: str = ""
    took_s: float = 0.0
    load_average: float = 0.0
    """The machine's load over the last minute, when the figure began."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a figure is given."""

    quick: bool
    directory: Path
    """For the data and logs of servers; removed after the run."""
    servers: Sequence[ServerKind]
    say: Callable[[str], None]
    """Tells a person who waits what is going on."""


class Figure(Protocol):
    """A module with these three names."""

    @property
    def NAME(self) -> str: ...  # noqa: N802 (a module's constant)

    @property
    def QUESTION(self) -> str: ...  # noqa: N802

    def measure(self, run: Run) -> AsyncGenerator[Table | NotMeasured]: ...
