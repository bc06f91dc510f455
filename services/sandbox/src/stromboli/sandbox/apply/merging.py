"""Documents changed field by field: wishes merged in, given-up fields taken out.

Both work on documents of their own and follow the shape: keyed lists by their keys, sets by their
members, everything atomic as a whole.
"""

from collections.abc import Iterable
from typing import Any

from stromboli.sandbox.apply.fieldsets import SELF, Path, child_shape, item_element
from stromboli.sandbox.shapes.shape import ANY, Shape

__all__ = ["MISSING", "merged", "value_at", "without"]

MISSING = object()


def merged(live: Any, wish: Any, shape: Shape) -> Any:
    """The live value with everything in the wish; what it does not mention stays."""
    if isinstance(wish, dict) and isinstance(live, dict) and not shape.atomic:
        result = dict(live)
        for key, value in wish.items():
            result[key] = merged(live.get(key), value, child_shape(shape, key))
        return result
    if isinstance(wish, list) and isinstance(live, list) and shape.list_keys is not None:
        keys = shape.list_keys
        items = {item_element(item, keys): item for item in live}
        for item in wish:
            element = item_element(item, keys)
            known = items.get(element, MISSING)
            items[element] = item if known is MISSING else merged(known, item, shape.item or ANY)
        return list(items.values())
    return wish


def value_at(value: Any, path: Path, shape: Shape) -> Any:
    """What a document has at a path; MISSING if it has nothing there."""
    for element in path:
        if element == SELF:
            return True
        if element.startswith("f:"):
            if not isinstance(value, dict) or element[2:] not in value:
                return MISSING
            value, shape = value[element[2:]], child_shape(shape, element[2:])
            continue
        if not isinstance(value, list):
            return MISSING
        keys = shape.list_keys or ()
        value = next((item for item in value if item_element(item, keys) == element), MISSING)
        shape = shape.item or ANY
        if value is MISSING:
            return MISSING
    return value


def without(value: Any, paths: Iterable[Path], shape: Shape) -> Any:
    """The value without what is at these paths; maps and lists emptied by that go too."""
    below: dict[str, list[Path]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        for key, child in value.items():
            kept = _less(child, below.get(f"f:{key}"), child_shape(shape, key))
            if kept is not MISSING:
                result[key] = kept
        return result
    if isinstance(value, list):
        keys = shape.list_keys or ()
        kept_items = (
            _less(item, below.get(item_element(item, keys)), shape.item or ANY) for item in value
        )
        return [item for item in kept_items if item is not MISSING]
    return value


def _less(value: Any, paths: list[Path] | None, shape: Shape) -> Any:
    if paths is None:
        return value
    if () in paths or (SELF,) in paths:
        return MISSING
    kept = without(value, paths, shape)
    return MISSING if kept in ({}, []) else kept
