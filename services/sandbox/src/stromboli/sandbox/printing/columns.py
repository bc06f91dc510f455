"""A printer is a row of column headings and a function from an object to its cells.

Headings, their order and which of them are only shown wide are those of the real server: people
and scripts know them by heart. A cell is text, a number or null, never an object.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.sandbox.documents import Document
from stromboli.sandbox.printing.ages import age_of

__all__ = ["NAME_AND_AGE", "NONE", "Cells", "Column", "Printer", "headed", "or_none"]

Cells: TypeAlias = list[Any]
NONE: Final = "<none>"


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """0 is always shown, anything higher only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class Printer:
    columns: tuple[Column, ...]
    cells: Callable[[Document, datetime], Cells]
    """The cells of an object as of a moment, one per column."""


def headed(text: str) -> tuple[Column, ...]:
    """Columns written as `Name:string:name | Value:integer | IP:string::1`."""
    columns: list[Column] = []
    for word in text.split("|"):
        name, kind, form, priority = [*word.strip().split(":"), "", "", ""][:4]
        columns.append(Column(name, kind or "string", form, priority=int(priority or 0)))
    return tuple(columns)


def or_none(text: Any) -> Any:
    """What is empty is said to be."""
    return NONE if text is None or text == "" else text


def _name_and_age(document: Document, now: datetime) -> Cells:
    meta = document["metadata"]
    return [meta.get("name", ""), age_of(meta.get("creationTimestamp"), now)]


NAME_AND_AGE: Final = Printer(headed("Name:string:name | Age"), _name_and_age)
"""For kinds that nobody looks at twice."""
