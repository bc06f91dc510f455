"""Objects to and from the JSON that the API server speaks.

Go writes null for an empty map, list or struct in places. Our types do not admit None there,
which keeps every reader free of it: decoding goes straight into the type, and only when that
fails is the JSON read again with its nulls removed, which for Go means the same.
"""

from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from stromboli.api.core import PodTemplateSpec, Secret
from stromboli.api.errors import ContentsWithheld, ObjectUnreadable
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.kinds import Kind, kind_of
from stromboli.api.meta import KubeObject

__all__ = [
    "UNREADABLE",
    "decode_object",
    "encode_object",
    "manifest_of",
    "read_object",
    "read_template",
]

T = TypeVar("T", bound=KubeObject)
S = TypeVar("S", bound=msgspec.Struct)

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bad bytes; the last for JSON nested as deep as only malice nests it."""

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def decode_object(kind: Kind[T], raw: bytes | msgspec.Raw) -> T:
    """The object in `raw`. Raises ObjectUnreadable for what is not JSON or not of this form."""
    try:
        try:
            return _decoder(kind.type).decode(raw)
        except msgspec.ValidationError:
            manifest = msgspec.json.decode(raw)
    except UNREADABLE as fault:
        raise ObjectUnreadable(f"a {kind.kind}", str(fault)) from fault
    return read_object(kind, manifest)


def read_object(kind: Kind[T], manifest: object) -> T:
    """The object in JSON that was parsed already."""
    return _converted(manifest, kind.type, f"a {kind.kind}")


def read_template(template: OpaqueObject) -> PodTemplateSpec:
    """The typed view of a pod template; what it does not show is still in `template`."""
    return _converted(template, PodTemplateSpec, "a pod template")


def manifest_of(item: KubeObject) -> OpaqueObject:
    """The object as the API server wants it, with its apiVersion and kind."""
    if isinstance(item, Secret):
        raise ContentsWithheld(item.metadata.name)
    kind = kind_of(item)
    fields: OpaqueObject = msgspec.to_builtins(item)
    return {"apiVersion": kind.api_version, "kind": kind.kind, **fields}


def encode_object(item: KubeObject) -> bytes:
    return _ENCODER.encode(manifest_of(item))


@cache
def _decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(type_)


def _converted(source: object, type_: type[S], what: str) -> S:
    try:
        return msgspec.convert(source, type_)
    except msgspec.ValidationError:
        pass  # nulls are the usual reason; if not, the second attempt says what is wrong
    try:
        return msgspec.convert(_without_nulls(source), type_)
    except (msgspec.ValidationError, RecursionError) as fault:
        raise ObjectUnreadable(what, str(fault)) from fault


def _without_nulls(value: Any) -> Any:
    """A copy without null members. Nulls in lists stay: removing one would move the others."""
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(member) for member in value]
    return value
