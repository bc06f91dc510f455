"""Fields that no kind has: found when a client asks for strict decoding, as kubectl does.

A typo in a manifest is then an error instead of a field that silently does nothing. Nobody else
pays for the search.
"""

from typing import Any

from stromboli.sandbox import statuses
from stromboli.sandbox.documents import Document
from stromboli.sandbox.resources import Served
from stromboli.sandbox.shapes.shape import Shape, built_in_shape, schema_shape

__all__ = ["check_known_fields", "shape_of"]


def shape_of(served: Served) -> Shape | None:
    """The shape of a resource's objects; None if nothing is known about them."""
    if not served.resource.custom:
        return built_in_shape(served.resource.kind)
    if served.schema is None:
        return None
    shape = schema_shape(served.schema)
    meta = built_in_shape("ObjectMeta")
    if shape.kind == "object" and meta is not None:
        value = Shape(kind="value", name="string")
        shape.fields = {**shape.fields, "apiVersion": value, "kind": value, "metadata": meta}
    return shape


def check_known_fields(document: Document, served: Served, before: Document | None = None) -> None:
    """Refuse a document with unknown fields that it did not have before, naming all of them."""
    shape = shape_of(served)
    if shape is None:
        return
    found: list[str] = []
    _unknown(document, shape, "", found)
    if found and before is not None:
        old: list[str] = []
        _unknown(before, shape, "", old)
        found = [path for path in found if path not in old]
    if found:
        kind = served.resource.kind
        told = ", ".join(f'unknown field "{path}"' for path in found)
        raise statuses.bad_request(
            f'{kind} in version "{served.version}" cannot be handled as a {kind}: strict decoding'
            f" error: {told}"
        )


def _unknown(value: Any, shape: Shape, path: str, found: list[str]) -> None:
    if shape.kind == "object" and isinstance(value, dict):
        for key, child in value.items():
            below = f"{path}.{key}" if path else key
            if key in shape.fields:
                _unknown(child, shape.fields[key], below, found)
            elif not shape.open:
                found.append(below)
    elif shape.item is None:
        return
    elif shape.kind == "list" and isinstance(value, list):
        for index, child in enumerate(value):
            _unknown(child, shape.item, f"{path}[{index}]", found)
    elif shape.kind == "map" and isinstance(value, dict):
        for key, child in value.items():
            _unknown(child, shape.item, f"{path}.{key}", found)
