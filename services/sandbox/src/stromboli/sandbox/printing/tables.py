"""Objects in another form than stored: as rows of a Table, or as their metadata alone.

Forms are made from the same bytes that a plain answer would carry, after selection and paging,
so what is shown never depends on how. A watch in Table form names its columns once.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from stromboli.sandbox import statuses
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.documents import Document, decode, encode
from stromboli.sandbox.printing.columns import Cells, Printer

__all__ = ["FORMS", "Form", "MetadataForm", "TableForm", "form_asked"]

_META_VERSION: Final = "meta.k8s.io/v1"
_INCLUDED: Final = frozenset({"", "Metadata", "Object", "None"})
FORMS: Final = frozenset(
    f"{kind}.{version}.meta.k8s.io"
    for kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
)
"""What an Accept header may ask for; v1beta1 is answered in v1, which is the same."""


class Form(Protocol):
    """How answers are shown; one per request."""

    def shown(self, body: bytes) -> bytes:
        """A stored object or a list of them in this form."""
        ...

    def event(self, body: bytes) -> bytes:
        """The object of a watch event in this form."""
        ...


class MetadataForm:
    def event(self, body: bytes) -> bytes:
        return self.shown(body)

    def shown(self, body: bytes) -> bytes:
        document: Document = decode(body)
        if "items" not in document:
            return encode(_metadata_alone(document))
        return encode(
            {
                "kind": "PartialObjectMetadataList",
                "apiVersion": _META_VERSION,
                "metadata": document["metadata"],
                "items": [_metadata_alone(item) for item in document["items"]],
            }
        )


class TableForm:
    def __init__(self, printer: Printer, include: str, clock: Clock) -> None:
        self._printer = printer
        self._include = include or "Metadata"
        self._clock = clock
        self._headed = False

    def shown(self, body: bytes) -> bytes:
        document: Document = decode(body)
        meta: Document = document["metadata"]
        if "items" in document:
            return self._table(meta, document["items"], self._printer.columns)
        revision = {"resourceVersion": meta.get("resourceVersion", "")}
        return self._table(revision, [document], self._printer.columns)

    def event(self, body: bytes) -> bytes:
        document: Document = decode(body)
        columns = None if self._headed else self._printer.columns
        self._headed = True
        revision = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
        return self._table(revision, [document], columns)

    def _table(self, meta: Document, items: Sequence[Document], columns: Any) -> bytes:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        rows = [{"cells": self._cells(item, now), "object": self._included(item)} for item in items]
        return msgspec.json.encode(
            {
                "kind": "Table",
                "apiVersion": _META_VERSION,
                "metadata": meta,
                "columnDefinitions": columns,
                "rows": rows,
            }
        )

    def _cells(self, item: Document, now: datetime) -> Cells:
        """What is shown of an object; kinds we hardly check may hold what no printer expects."""
        try:
            return self._printer.cells(item, now)
        except (AttributeError, KeyError, TypeError, ValueError):
            name = item["metadata"].get("name", "")
            return [name if one.format == "name" else None for one in self._printer.columns]

    def _included(self, item: Document) -> Document | None:
        match self._include:
            case "None":
                return None
            case "Object":
                return item
            case _:
                return _metadata_alone(item)


def _metadata_alone(document: Document) -> Document:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": _META_VERSION,
        "metadata": document["metadata"],
    }


def form_asked(name: str, printer: Printer, *, include: str, clock: Clock) -> Form:
    """The form an Accept header named; one of FORMS."""
    if name != "Table":
        return MetadataForm()
    if include not in _INCLUDED:
        raise statuses.bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}":'
            " must be 'Metadata', 'Object', 'None', or empty"
        )
    return TableForm(printer, include, clock)
