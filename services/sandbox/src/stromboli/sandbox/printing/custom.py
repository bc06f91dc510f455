"""What is shown of custom resources: the columns their definition asks for."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from stromboli.sandbox.documents import Document
from stromboli.sandbox.printing.ages import age_of
from stromboli.sandbox.printing.columns import Cells, Column, Printer
from stromboli.sandbox.printing.jsonpath import json_path

__all__ = ["custom_printer"]

_NAME: Final = Column("Name", "string", "name")
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def custom_printer(version: Document) -> Printer:
    """The printer of one version of a definition; without columns of its own it shows the age."""
    rows: list[Document] = version.get("additionalPrinterColumns") or [_AGE]
    columns = [_NAME, *(_column(row) for row in rows)]
    finders = [_finder(row) for row in rows]

    def cells(document: Document, now: datetime) -> Cells:
        name = document["metadata"].get("name", "")
        return [name, *(find(document, now) for find in finders)]

    return Printer(tuple(columns), cells)


def _column(row: Document) -> Column:
    return Column(
        _text(row, "name"),
        _text(row, "type"),
        _text(row, "format"),
        _text(row, "description"),
        row["priority"] if isinstance(row.get("priority"), int) else 0,
    )


def _text(row: Document, field: str) -> str:
    value = row.get(field)
    return value if isinstance(value, str) else ""


def _finder(row: Document) -> Callable[[Document, datetime], Any]:
    path = json_path(_text(row, "jsonPath"))
    kind = _text(row, "type")

    def find(document: Document, now: datetime) -> Any:
        found = path(document)
        return _cell(kind, found[0], now) if found else None

    return find


def _cell(kind: str, value: Any, now: datetime) -> Any:
    """A value as its column's type shows it; null where the types do not go together."""
    match kind:
        case "date":
            return age_of(value, now) if isinstance(value, str) else "<invalid>"
        case "string":
            return _shown(value)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer" if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        case _:
            return None


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
