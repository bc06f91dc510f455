"""The shape of a value: its fields, its items, and how two versions of it are merged.

Built-in kinds take theirs from a file of facts, custom resources from their schema; patches,
apply, OpenAPI and strict decoding all read this one form.
"""

import re
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Final

from stromboli.sandbox.documents import Document

__all__ = ["ANY", "Shape", "built_in_shape", "schema_shape"]


@dataclass(slots=True, kw_only=True)
class Shape:
    kind: str
    """object, list, map, value, or any: whatever it is, it is not looked into."""
    name: str = ""
    """Of an object its type, of a value what it is: string, int32, quantity …"""
    fields: "dict[str, Shape]" = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    open: bool = False
    """An object that may have fields beside those named."""
    item: "Shape | None" = None
    merge_key: str | None = None
    """Strategic merge joins items with equal keys; empty: as a set; None: the list is replaced."""
    list_keys: tuple[str, ...] | None = None
    """The same for apply."""
    atomic: bool = False
    """Apply replaces it as a whole."""
    retains_named: bool = False
    """Strategic merge keeps only the keys that `$retainKeys` names."""


ANY: Final = Shape(kind="any")
_PACKAGE: Final = "stromboli.sandbox.shapes"
_VALUES: Final = frozenset(
    {"string", "bytes", "int32", "int64", "bool", "number", "quantity", "intstr", "time"}
)
_FLAGS: Final = re.compile(
    r"(?:@(?P<merge>\w*))?(?:#(?P<keys>[\w,]*))?(?P<atomic>~?)(?P<retains>%?)"
)
_CLOSING: Final = {"[": "]", "{": "}"}


def built_in_shape(kind: str) -> Shape | None:
    """The shape of a built-in kind, if it is on file."""
    return _named().get(kind)


@cache
def _named() -> dict[str, Shape]:
    text = resources.files(_PACKAGE).joinpath("kinds.shapes").read_text(encoding="utf-8")
    lines = [line.partition(" = ") for line in text.splitlines() if not line.startswith("#")]
    named = {name: Shape(kind="object", name=name) for name, _, _ in lines}
    for name, _, fields in lines:
        for word in fields.split():
            key, _, kind = word.partition(":")
            if key.endswith("!"):
                named[name].required.append(key[:-1])
            named[name].fields[key.rstrip("!")] = _shape(kind, named)
    return named


def _shape(text: str, named: dict[str, Shape]) -> Shape:
    if text[0] in _CLOSING:
        end = text.rindex(_CLOSING[text[0]])
        kind = "list" if text[0] == "[" else "map"
        shape = Shape(kind=kind, item=_shape(text[1:end], named))
        return _flagged(shape, text[end + 1 :])
    name = re.match(r"\w+", text)
    word = name[0] if name else text
    if word == "any":
        return ANY
    if word in _VALUES:
        return Shape(kind="value", name=word)
    return _flagged(named[word], text[len(word) :])


def _flagged(shape: Shape, flags: str) -> Shape:
    found = _FLAGS.fullmatch(flags)
    if not flags or found is None:
        return shape
    keys = found["keys"]
    return replace(
        shape,
        merge_key=found["merge"],
        list_keys=None if keys is None else tuple(key for key in keys.split(",") if key),
        atomic=bool(found["atomic"]),
        retains_named=bool(found["retains"]),
    )


def schema_shape(schema: Document) -> Shape:
    """The shape a custom resource's schema describes."""
    if schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        return ANY
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    if isinstance(schema.get("items"), dict):
        kind, keys = schema.get("x-kubernetes-list-type"), None
        if kind == "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        elif kind == "set":
            keys = ()
        return Shape(kind="list", item=schema_shape(schema["items"]), list_keys=keys)
    if isinstance(schema.get("properties"), dict):
        fields = {name: schema_shape(child) for name, child in schema["properties"].items()}
        is_open = bool(
            schema.get("x-kubernetes-preserve-unknown-fields")
            or schema.get("x-kubernetes-embedded-resource")
        )
        return Shape(kind="object", fields=fields, atomic=atomic, open=is_open)
    additional = schema.get("additionalProperties")
    if schema.get("type") == "object":
        item = schema_shape(additional) if isinstance(additional, dict) else ANY
        return Shape(kind="map", item=item, atomic=atomic)
    return Shape(kind="value", name=schema.get("type") or "")
