"""Collect the operations of a JSON patch, no more of them than needed.

Only `add` is used: on a member that exists it replaces, so a default does not have to know
whether the field was absent, null or empty. Values are never copied from the object, except
into lists that must be appended to.
"""

from collections.abc import Sequence
from typing import Final

from stromboli.admitting.questions import Json, PatchOperation

__all__ = ["Patch", "applied", "pointer"]


def pointer(*parts: str | int) -> str:
    """A JSON pointer (RFC 6901) to a member."""
    return "".join(f"/{_escaped(part) if isinstance(part, str) else part}" for part in parts)


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


class Patch:
    """The operations so far, on an object that the API server will apply them to."""

    def __init__(self, target: Json) -> None:
        self._target: Final = target
        self._made: Final[set[str]] = set()
        self.operations: Final[list[PatchOperation]] = []

    def set(self, *parts: str | int, value: Json) -> None:
        """Give the member at `parts` this value; objects on the way are made where missing."""
        holder: Json = self._target
        for depth, part in enumerate(parts[:-1], start=1):
            holder = _member(holder, part)
            if holder is None:
                self._make_object(pointer(*parts[:depth]))
        self.operations.append({"op": "add", "path": pointer(*parts), "value": value})

    def _make_object(self, path: str) -> None:
        if path not in self._made:
            self._made.add(path)
            self.operations.append({"op": "add", "path": path, "value": {}})


def _member(holder: Json, part: str | int) -> Json:
    if isinstance(holder, dict) and isinstance(part, str):
        return holder.get(part)
    if isinstance(holder, list) and isinstance(part, int):
        return holder[part] if part < len(holder) else None
    return None


def applied(target: Json, operations: Sequence[PatchOperation]) -> Json:
    """The object with the operations of a `Patch` done, as the API server would do them."""
    result: Json = {"": _copy(target)}
    for operation in operations:
        *way, last = [""] + [_unescaped(part) for part in operation["path"].split("/")[1:]]
        holder = result
        for part in way:
            holder = holder[int(part)] if isinstance(holder, list) else holder[part]
        if not isinstance(holder, list):
            holder[last] = _copy(operation["value"])
        elif last == "-":
            holder.append(_copy(operation["value"]))
        else:
            holder.insert(int(last), _copy(operation["value"]))
    return result[""]


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    return [_copy(member) for member in value] if isinstance(value, list) else value


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
