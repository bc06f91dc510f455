"""Strategic merge patch: lists are merged by the key their type declares, not replaced.

Where a field's shape names no key, and for maps and values, it is a merge patch. Directives
(`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`) are obeyed and
never stored.
"""

from typing import Any, Final

from stromboli.sandbox.documents import Document
from stromboli.sandbox.patches import PatchFailed, patch_object
from stromboli.sandbox.shapes.shape import ANY, Shape

__all__ = ["strategic_merge"]

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"


def strategic_merge(body: bytes, document: Document, shape: Shape) -> Document:
    merged = _merged(document, patch_object(body), shape)
    return {} if merged is None else merged


def _merged(target: Document, patch: Document, shape: Shape) -> Document | None:
    """The patched map; None if the patch deletes it."""
    match patch.get(_DIRECTIVE):
        case None | "merge":
            result = dict(target)
        case "replace":
            result = {}
        case "delete":
            return None
        case unknown:
            raise PatchFailed(f"unrecognized {_DIRECTIVE} directive {unknown!r}")
    retained = patch.get(_RETAIN)
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith(_DELETE):
            field = key.removeprefix(_DELETE)
            result[field] = [one for one in result.get(field) or () if one not in _list(value)]
        elif not key.startswith("$"):
            _set(result, key, value, _child(shape, key))
    for key, value in patch.items():
        field = key.removeprefix(_ORDER)
        if field != key and isinstance(result.get(field), list):
            merge_key = _child(shape, field).merge_key
            result[field] = _in_order(result[field], _list(value), merge_key or "")
    return result


def _child(shape: Shape, key: str) -> Shape:
    return shape.fields.get(key) or shape.item or ANY


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PatchFailed("a directive about a list holds no list")
    return value


def _set(result: Document, key: str, value: Any, shape: Shape) -> None:
    before = result.get(key)
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        merged = _merged(before if isinstance(before, dict) else {}, value, shape)
        if merged is None:
            result.pop(key, None)
        else:
            result[key] = merged
    elif isinstance(value, list) and shape.merge_key is not None:
        result[key] = _merged_list(before if isinstance(before, list) else [], value, shape)
    else:
        result[key] = value


def _merged_list(before: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    key, item = shape.merge_key, shape.item or ANY
    if not key:
        return [*before, *(one for one in patch if one not in before)]
    if any(isinstance(one, dict) and one.get(_DIRECTIVE) == "replace" for one in patch):
        return [one for one in patch if one.get(_DIRECTIVE) is None]
    result = list(before)
    for one in patch:
        if not isinstance(one, dict) or key not in one:
            raise PatchFailed(f"map: {one} does not contain declared merge key: {key}")
        place = _place(result, key, one[key])
        merged = _merged({} if place is None else result[place], one, item)
        if place is not None and merged is not None:
            result[place] = merged
        elif place is not None:
            del result[place]
        elif merged is not None:
            result.append(merged)
    return result


def _place(items: list[Any], key: str, value: Any) -> int | None:
    found = (
        index
        for index, item in enumerate(items)
        if isinstance(item, dict) and item.get(key) == value
    )
    return next(found, None)


def _in_order(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Named items in the order given; each of the others stays behind the one it followed."""

    def name(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) else item

    names = [name(one) for one in order]
    listed = [item for item in items if name(item) in names]
    result = sorted(listed, key=lambda item: names.index(name(item)))
    before: Any = None
    for item in items:
        if name(item) not in names:
            at = 0 if before is None else result.index(before) + 1
            result.insert(at, item)
        before = item
    return result
