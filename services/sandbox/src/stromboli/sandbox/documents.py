"""Objects as the API speaks them: JSON documents, decoded and encoded in one place.

The store keeps encoded bytes and whoever wants to change an object decodes a copy of its own, so
no two requests ever share a mutable document. `apiVersion` and `kind` are always encoded first:
serving another version of a custom resource is then a swap of a known prefix.
"""

from typing import Any, TypeAlias

import msgspec

__all__ = [
    "Document",
    "decode",
    "decoding_problem",
    "encode",
    "ordered",
    "same_document",
    "without_nulls",
]

Document: TypeAlias = dict[str, Any]
"""A JSON object whose shape was checked where it came in."""

_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_SORTING_ENCODER = msgspec.json.Encoder(order="sorted")

decode = _DECODER.decode
encode = _ENCODER.encode


def decoding_problem(error: Exception) -> str:
    """Why a body is not JSON, where people are used to Go's words for it."""
    told = str(error)
    return "unexpected end of JSON input" if told == "Input data was truncated" else told


def ordered(document: Document) -> Document:
    """The same top-level fields with apiVersion, kind and metadata first."""
    result: Document = {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "metadata": document["metadata"],
    }
    result.update(document)
    return result


def same_document(left: Document, right: Document) -> bool:
    """True if both would be stored alike.

    Python finds 1 == True == 1.0, JSON does not: equal documents are compared once more as text.
    """
    return left == right and _SORTING_ENCODER.encode(left) == _SORTING_ENCODER.encode(right)


def without_nulls(value: Any) -> Any:
    """A typed Kubernetes object has no null fields: null means absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
