"""JSON patches that may come a second time: which are safe, and is one done already?

A patch may be applied, and the gateway killed before it said so. The second time, what it
removes is not there any more and what it tests may have changed by itself, so the API server
refuses it. Then the object tells: if it is as the patch wanted, the patch is done. What can't
be recognised like this (an element of a list, added or removed by its position) would be done
twice, and is refused from the start. Pure.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

_MISSING = object()


class Operation(msgspec.Struct):
    """One step of a JSON patch (RFC 6902)."""

    op: str
    path: str
    from_: str | None = msgspec.field(default=None, name="from")
    value: Any = None

    @property
    def keys(self) -> tuple[str, ...]:
        return keys_of(self.path)


def keys_of(pointer: str) -> tuple[str, ...]:
    """The keys on the way of a JSON pointer."""
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer")
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in pointer[1:].split("/"))


def unrepeatable(operations: Sequence[Operation]) -> str:
    """Why this patch must not be delivered twice; empty if it may."""
    for operation in operations:
        ends = [operation.keys[-1]]
        if operation.from_ is not None and operation.op == "move":
            ends.append(keys_of(operation.from_)[-1])
        by_position = any(end == "-" or end.isdecimal() for end in ends)
        if by_position and operation.op not in {"replace", "test"}:
            return f"{operation.op} {operation.path} would be done twice if it came twice"
    return ""


def holds(operations: Sequence[Operation], found: object) -> bool:
    """Is the object as the patch wants it? Only for what `unrepeatable` lets pass."""
    for operation in operations:
        value = _value_at(found, operation.keys)
        match operation.op:
            case "add" | "replace":
                if value != operation.value:
                    return False
            case "copy":
                if value is _MISSING or value != _value_at(found, keys_of(operation.from_ or "")):
                    return False
            case "move":
                source = _value_at(found, keys_of(operation.from_ or ""))
                if value is _MISSING or source is not _MISSING:
                    return False
            case "remove":
                if value is not _MISSING:
                    return False
            case _:
                pass  # a test changes nothing, and may hold no more for what the rest has done
    return True


def _value_at(found: object, keys: Sequence[str]) -> object:
    for key in keys:
        if isinstance(found, dict):
            found = cast("dict[str, object]", found).get(key, _MISSING)
        elif isinstance(found, list) and key.isdecimal():
            elements = cast("list[object]", found)
            found = elements[int(key)] if int(key) < len(elements) else _MISSING
        else:
            return _MISSING
    return found
