"""Pruning and defaulting: what a custom resource loses and gains before it is validated.

Unknown fields are dropped unless the schema preserves them. A null in a field that may not be
null counts as absent, so that its default applies. Defaults are copied, never shared.
"""

import copy
from typing import Any

from stromboli.sandbox import metadata
from stromboli.sandbox.documents import Document
from stromboli.sandbox.schema.node import MISSING, Node

__all__ = ["defaulted", "pruned"]

_ENVELOPE = ("apiVersion", "kind", "metadata")


def pruned(value: Any, node: Node, *, root: bool = False) -> Any:
    """The value without the fields the schema does not know."""
    if isinstance(value, dict):
        return _pruned_object(value, node, root=root)
    if isinstance(value, list) and node.items is not None:
        return [pruned(item, node.items) for item in value]
    return value


def _pruned_object(value: Document, node: Node, *, root: bool) -> Document:
    result: Document = {}
    envelope = root or node.embedded_resource
    for key, item in value.items():
        if envelope and key in _ENVELOPE:
            # The envelope of an embedded object is typed, whatever the schema preserves.
            embedded = key == "metadata" and not root and isinstance(item, dict)
            result[key] = metadata.canonical(item) if embedded else item
            continue
        child = node.properties.get(key)
        if child is None:
            child = node.additional
        if child is None:
            if node.preserve_unknown:
                result[key] = item
            continue
        if item is None and not child.nullable:
            continue
        result[key] = pruned(item, child)
    return result


def defaulted(value: Any, node: Node) -> None:
    """Fill in missing fields, in place."""
    if not node.has_defaults:
        return
    if isinstance(value, dict):
        _default_object(value, node)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            defaulted(item, node.items)


def _default_object(value: Document, node: Node) -> None:
    for name, child in node.properties.items():
        if name not in value and child.default is not MISSING:
            value[name] = copy.deepcopy(child.default)
        if name in value:
            defaulted(value[name], child)
    if node.additional is not None:
        for name, item in value.items():
            if name not in node.properties:
                defaulted(item, node.additional)
