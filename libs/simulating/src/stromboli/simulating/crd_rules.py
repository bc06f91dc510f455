"""What an API server with our CRDs would say of a manifest: fields it drops, values it refuses.

Only of our own kinds, and only of what people write: `metadata` and `status` are left alone, and
so is what a CRD leaves open, such as the templates of pods. A value of the wrong type needs no
word here, since it can't be read at all. Neither does a zero: it is how Go leaves a field out,
and admission puts its default there before the CRD is asked.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from stromboli.api.crds.manifests import CRDS
from stromboli.api.crds.schema import Schema, schema_of
from stromboli.api.kinds import Kind

__all__ = ["remarks"]

_OURS: Final = frozenset(crd.kind.token for crd in CRDS)
_NOT_WRITTEN: Final = frozenset({"metadata", "status"})
_REFUSED: Final = "an API server would refuse that"


def remarks(kind: Kind[Any], manifest: dict[str, Any]) -> list[str]:
    """One for each field; none about kinds of others, or about what an API server has taken."""
    metadata: Any = manifest.get("metadata") or {}
    if kind.token not in _OURS or metadata.get("uid") or metadata.get("resourceVersion"):
        return []
    written = {key: value for key, value in manifest.items() if key not in _NOT_WRITTEN}
    return list(_about(_schema(kind), written, ""))


@cache
def _schema(kind: Kind[Any]) -> Schema:
    return schema_of(kind.type)


def _about(schema: Schema, value: Any, path: str) -> Iterator[str]:
    match value:
        case dict():
            for key, member in value.items():
                yield from _about_member(schema, str(key), member, f"{path}.{key}".lstrip("."))
        case list():
            for number, item in enumerate(value):
                yield from _about(schema.get("items", {}), item, f"{path}[{number}]")
        case str() | int() if value and "x-kubernetes-int-or-string" not in schema:
            expected = _broken(schema, value)
            if expected:
                yield f"{path} is {value!r}, expected {expected}: {_REFUSED}"
        case _:
            pass


def _about_member(schema: Schema, key: str, member: Any, path: str) -> Iterator[str]:
    known = schema.get("properties")
    if known is None:
        yield from _about(schema.get("additionalProperties", {}), member, path)
    elif key in known:
        yield from _about(known[key], member, path)
    else:
        yield f"{path} is not a field of it and means nothing{_guess(key, known)}"


def _broken(schema: Schema, value: str | int) -> str:
    """What the schema expects instead; empty if it is content."""
    if "enum" in schema and value not in schema["enum"]:
        allowed = [str(each) for each in schema["enum"] if each != ""]
        return f"one of {', '.join(allowed)}{_guess(str(value), allowed)}"
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            return f"at most {schema['maxLength']} characters"
        pattern = schema.get("pattern")
        return f"a text like {pattern}" if pattern and not re.search(pattern, value) else ""
    if value < schema.get("minimum", value):
        return f"at least {schema['minimum']}"
    return f"at most {schema['maximum']}" if value > schema.get("maximum", value) else ""


def _guess(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
