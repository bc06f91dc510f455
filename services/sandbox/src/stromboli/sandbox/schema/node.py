"""A structural schema read once into nodes, so that no write looks at schema JSON again.

Only what affects an object is kept: descriptions, titles and CEL rules
(x-kubernetes-validations) are not. A pattern that Python's `re` cannot read is left out
rather than refusing every object.
"""

import logging
import re
from dataclasses import dataclass, field
from typing import Any, Final

from stromboli.sandbox.documents import Document

__all__ = ["MISSING", "Node", "compiled"]

_LOG: Final = logging.getLogger("stromboli.sandbox.schema")


class _Missing:
    pass


MISSING: Final = _Missing()
"""No default: null is a legal one."""


@dataclass(slots=True, kw_only=True)
class Node:
    types: tuple[str, ...] = ()
    nullable: bool = False
    default: Any = MISSING
    properties: dict[str, "Node"] = field(default_factory=dict)
    additional: "Node | None" = None
    items: "Node | None" = None
    preserve_unknown: bool = False
    embedded_resource: bool = False
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    format: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    pattern_re: re.Pattern[str] | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    all_of: tuple["Node", ...] = ()
    any_of: tuple["Node", ...] = ()
    one_of: tuple["Node", ...] = ()
    negated: "Node | None" = None
    has_defaults: bool = False
    """A default somewhere below: trees without one are not walked."""


def compiled(schema: Document) -> Node:
    """The node tree of an openAPIV3Schema that the definition's validation accepted."""
    node = Node(
        types=_types(schema),
        nullable=schema.get("nullable") is True,
        default=schema.get("default", MISSING),
        properties={
            name: compiled(child) for name, child in (schema.get("properties") or {}).items()
        },
        preserve_unknown=schema.get("x-kubernetes-preserve-unknown-fields") is True,
        embedded_resource=schema.get("x-kubernetes-embedded-resource") is True,
        required=tuple(schema.get("required") or ()),
        enum=tuple(schema.get("enum") or ()),
        format=schema.get("format") or "",
        minimum=schema.get("minimum"),
        maximum=schema.get("maximum"),
        exclusive_minimum=schema.get("exclusiveMinimum") is True,
        exclusive_maximum=schema.get("exclusiveMaximum") is True,
        multiple_of=schema.get("multipleOf"),
        min_length=schema.get("minLength"),
        max_length=schema.get("maxLength"),
        pattern=schema.get("pattern") or "",
        min_items=schema.get("minItems"),
        max_items=schema.get("maxItems"),
        min_properties=schema.get("minProperties"),
        max_properties=schema.get("maxProperties"),
        list_type=schema.get("x-kubernetes-list-type") or "",
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        all_of=_branches(schema, "allOf"),
        any_of=_branches(schema, "anyOf"),
        one_of=_branches(schema, "oneOf"),
    )
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        node.additional = compiled(additional)
    elif additional is True:
        node.additional = Node(preserve_unknown=True)
    if isinstance(schema.get("items"), dict):
        node.items = compiled(schema["items"])
    if isinstance(schema.get("not"), dict):
        node.negated = compiled(schema["not"])
    if node.pattern:
        node.pattern_re = _readable(node.pattern)
    children = [
        *node.properties.values(),
        *(child for child in (node.additional, node.items) if child is not None),
    ]
    node.has_defaults = node.default is not MISSING or any(c.has_defaults for c in children)
    return node


def _types(schema: Document) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string") is True:
        return ("integer", "string")
    kind = schema.get("type")
    return (kind,) if isinstance(kind, str) and kind else ()


def _branches(schema: Document, keyword: str) -> tuple[Node, ...]:
    return tuple(compiled(branch) for branch in schema.get(keyword) or ())


def _readable(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error as error:
        _LOG.warning("schema.pattern_unreadable", extra={"pattern": pattern, "error": str(error)})
        return None
