"""Sets of fields: which leaves of an object somebody set, and how FieldsV1 spells them.

A path is a tuple of elements: `f:name` for a field, `k:{"name":"a"}` for an item of a keyed list,
`v:"x"` for a member of a set, and `.` for the item itself. What is replaced as a whole is one
leaf: atomic maps, and lists without keys.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.sandbox.documents import Document
from stromboli.sandbox.shapes.shape import ANY, Shape

__all__ = ["FieldSet", "Path", "child_shape", "fields_of", "item_element", "readable", "spelled"]

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[Path]

SELF: Final = "."
_NOBODYS: Final = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "uid",
                "resourceVersion",
                "generation",
                "generateName",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "managedFields",
                "selfLink",
            )
        ),
    }
)
"""Identity, and what the server sets: no manager owns it."""
_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_KEY_DEFAULTS: Final = {"protocol": "TCP"}
"""Keys that may be left out: a port without a protocol is a TCP port."""


def fields_of(document: Document, shape: Shape) -> FieldSet:
    """Every leaf that a document sets."""
    found = _leaves(document, shape, ())
    return frozenset(path for path in found if path[:2] not in _NOBODYS and path not in _NOBODYS)


def _leaves(value: Any, shape: Shape, path: Path) -> Iterator[Path]:
    if isinstance(value, dict) and value and not shape.atomic:
        for key, child in value.items():
            yield from _leaves(child, child_shape(shape, key), (*path, f"f:{key}"))
    elif isinstance(value, list) and shape.list_keys is not None:
        for item in value:
            element = item_element(item, shape.list_keys)
            if element.startswith("v:"):
                yield (*path, element)
            else:
                yield (*path, element, SELF)
                yield from _leaves(item, shape.item or ANY, (*path, element))
    elif path:
        yield path


def child_shape(shape: Shape, key: str) -> Shape:
    return shape.fields.get(key) or shape.item or ANY


def item_element(item: Any, keys: tuple[str, ...]) -> str:
    """What an item of a keyed list or a set is known by."""
    if not keys or not isinstance(item, dict):
        return f"v:{_ENCODER.encode(item).decode()}"
    known = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in keys}
    named = {key: value for key, value in known.items() if value is not None}
    return f"k:{_ENCODER.encode(named).decode()}"


def spelled(fields: FieldSet) -> Document:
    """A set as FieldsV1: a tree whose leaves are empty."""
    tree: Document = {}
    for path in sorted(fields):
        place = tree
        for element in path:
            place = place.setdefault(element, {})
    return tree


def read_back(tree: Any, path: Path = ()) -> Iterator[Path]:
    if not isinstance(tree, dict):
        return
    for element, below in tree.items():
        if below:
            yield from read_back(below, (*path, element))
        else:
            yield (*path, element)


def readable(path: Path) -> str:
    """A path as people are told about it: .spec.containers[name="a"].image"""
    told = ""
    for element in path:
        if element.startswith("f:"):
            told += f".{element[2:]}"
        elif element.startswith("k:"):
            keys: Document = msgspec.json.decode(element[2:])
            pairs = (f"{key}={_ENCODER.encode(value).decode()}" for key, value in keys.items())
            told += f"[{','.join(pairs)}]"
        elif element.startswith("v:"):
            told += f"[={element[2:]}]"
    return told
