"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), applied to decoded documents.

Both are pure: they work on the document they are given, which the caller decoded for this
purpose. A patch that cannot be read is PatchUnreadable (400), one that does not fit the object,
a failed `test` included, is PatchFailed (422); kube does not say more, so neither do we.
"""

import copy
from collections.abc import Callable
from typing import Any, Final

import msgspec

from stromboli.sandbox.documents import Document, decode, decoding_problem, same_document

__all__ = [
    "APPLY",
    "PATCHES",
    "PATCHES_OF_BUILT_IN",
    "PATCHES_OF_CUSTOM",
    "STRATEGIC",
    "PatchFailed",
    "PatchUnreadable",
    "json_patch",
    "merge_patch",
    "patch_object",
]

_MAX_OPERATIONS: Final = 10_000


class PatchUnreadable(ValueError):
    """The bytes are not a patch of this type."""


class PatchFailed(ValueError):
    """The patch does not fit this object."""


class Operation(msgspec.Struct, rename={"source": "from"}):
    op: str
    path: str
    value: Any = msgspec.UNSET
    source: str = ""


def json_patch(body: bytes, document: Document) -> Document:
    try:
        operations = msgspec.json.decode(body, type=list[Operation])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PatchUnreadable(f"error decoding patch: {decoding_problem(error)}") from error
    if len(operations) > _MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got "
        raise PatchUnreadable(f"{message}{len(operations)}")
    root: Any = document
    for operation in operations:
        root = _applied(operation, root)
    if not isinstance(root, dict):
        raise PatchFailed("the patched object is not an object any more")
    return root


def _applied(operation: Operation, root: Any) -> Any:
    path = _pointer(operation.path)
    match operation.op:
        case "add":
            return _added(root, path, _given(operation))
        case "remove":
            return _removed(root, path)[0]
        case "replace":
            return _replaced(root, path, _given(operation))
        case "move":
            source = _pointer(operation.source)
            if path[: len(source)] == source and path != source:
                raise PatchFailed("a value cannot be moved into itself")
            root, value = _removed(root, source)
            return _added(root, path, value)
        case "copy":
            value = copy.deepcopy(_value_at(root, _pointer(operation.source)))
            return _added(root, path, value)
        case "test":
            expected = None if operation.value is msgspec.UNSET else operation.value
            if not same_document({"": _value_or_none(root, path)}, {"": expected}):
                raise PatchFailed(f"testing path {operation.path} failed")
            return root
        case unknown:
            raise PatchFailed(f"unexpected kind: {unknown}")


def _given(operation: Operation) -> Any:
    if operation.value is msgspec.UNSET:
        raise PatchFailed(f"operation {operation.op} at {operation.path} has no value")
    return operation.value


def _pointer(text: str) -> list[str]:
    if not text:
        return []
    if not text.startswith("/"):
        raise PatchFailed(f"path {text!r} does not start with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(items: list[Any], token: str) -> int:
    if not token.isascii() or not token.lstrip("-").isdigit() or int(token) >= len(items):
        raise PatchFailed(f"no item {token!r} in a list of {len(items)}")
    # kube's library counts negative indices from the end.
    if int(token) < -len(items):
        raise PatchFailed(f"no item {token!r} in a list of {len(items)}")
    return int(token)


def _value_at(root: Any, path: list[str]) -> Any:
    value = root
    for token in path:
        if isinstance(value, list):
            value = value[_index(value, token)]
        elif isinstance(value, dict) and token in value:
            value = value[token]
        else:
            raise PatchFailed(f"path element {token!r} does not exist")
    return value


def _value_or_none(root: Any, path: list[str]) -> Any:
    """A test for null passes where the last element is absent, as in kube's library."""
    parent = _value_at(root, path[:-1]) if path else root
    if path and isinstance(parent, dict) and path[-1] not in parent:
        return None
    return _value_at(root, path)


def _added(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _value_at(root, path[:-1])
    token = path[-1]
    if isinstance(parent, list):
        if token in {"-", str(len(parent))}:
            parent.append(value)
        else:
            parent.insert(_index(parent, token), value)
    elif isinstance(parent, dict):
        parent[token] = value
    else:
        raise PatchFailed(f"nothing can be added at {token!r}")
    return root


def _replaced(root: Any, path: list[str], value: Any) -> Any:
    """Kube's library also replaces what is not there yet, if the place for it is."""
    if not path:
        return value
    parent = _value_at(root, path[:-1])
    if isinstance(parent, list):
        parent[_index(parent, path[-1])] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise PatchFailed(f"nothing can be replaced at {path[-1]!r}")
    return root


def _removed(root: Any, path: list[str]) -> tuple[Any, Any]:
    if not path:
        raise PatchFailed("the whole object cannot be removed")
    value = _value_at(root, path)
    parent = _value_at(root, path[:-1])
    if isinstance(parent, list):
        del parent[_index(parent, path[-1])]
    else:
        del parent[path[-1]]
    return root, value


def merge_patch(body: bytes, document: Document) -> Document:
    return _merged(document, patch_object(body))


def patch_object(body: bytes) -> Document:
    """The JSON object that a patch of the merging kinds is."""
    try:
        patch = decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PatchUnreadable(f"error decoding patch: {decoding_problem(error)}") from error
    if not isinstance(patch, dict):
        kind = "array" if isinstance(patch, list) else type(patch).__name__
        raise PatchUnreadable(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type"
            " map[string]interface {}"
        )
    return patch


def _merged(target: Any, patch: Document) -> Document:
    result: Document = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = value
    return result


PATCHES: Final[dict[str, Callable[[bytes, Document], Document]]] = {
    "application/json-patch+json": json_patch,
    "application/merge-patch+json": merge_patch,
}
"""By content type; those that work on any document."""

STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
PATCHES_OF_CUSTOM: Final = (*PATCHES, APPLY)
PATCHES_OF_BUILT_IN: Final = (*PATCHES, STRATEGIC, APPLY)
"""What is offered: merging strategically takes a type that says how."""
