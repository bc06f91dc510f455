"""The part of an object that travels on the bus: what we decide by, and never a secret.

A projection is the object's own type, less what must not travel or would only make noise:

- `metadata.resourceVersion` changes with every write, so it travels beside the projection: equal
  projections mean that nothing we use has changed (`generation` stays, it moves with the spec);
- kubectl's last-applied copy of the whole object, which would smuggle in everything below;
- private keys given to a job's plugins as arguments; a Secret's contents were never decoded.

Encoding is deterministic: equal projections are equal bytes, so comparing bytes is enough.
"""

import re
from functools import cache
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from stromboli.api.batch import Job
from stromboli.api.errors import ObjectUnreadable
from stromboli.api.kinds import Kind
from stromboli.api.meta import KubeObject, ObjectMeta
from stromboli.api.wellknown import LAST_APPLIED_CONFIGURATION
from stromboli.api.wire import UNREADABLE, decode_object

__all__ = ["REDACTED", "decode_projection", "encode_projection", "project", "projection_of"]

T = TypeVar("T", bound=KubeObject)

REDACTED: Final = "[redacted]"

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_KEY_ARGUMENT: Final = re.compile(r"(.*?ssh-private-key)(.*)", re.DOTALL | re.IGNORECASE)
_KEY_MATERIAL: Final = "PRIVATE KEY-----"


def project(kind: Kind[T], raw_json: bytes | msgspec.Raw) -> T:
    """The projection of an object as the API server sent it."""
    return projection_of(decode_object(kind, raw_json))


def projection_of(item: T) -> T:
    """The projection of a decoded object. Projecting a projection changes nothing."""
    metadata = _without_noise(item.metadata)
    if isinstance(item, Job) and item.spec.plugins:
        spec = replace(item.spec, plugins=_redacted(item.spec.plugins))
        return replace(item, metadata=metadata, spec=spec)
    return item if metadata is item.metadata else replace(item, metadata=metadata)


def encode_projection(projection: KubeObject) -> bytes:
    """Deterministic msgpack. What was not projected is projected first, so no secret slips by."""
    try:
        return _ENCODER.encode(projection_of(projection))
    except RecursionError as fault:
        what = f"a {type(projection).__name__} that can travel"
        raise ObjectUnreadable(what, "it is nested too deeply") from fault


def decode_projection(kind: Kind[T], packed: bytes | msgspec.Raw) -> T:
    try:
        return _decoder(kind.type).decode(packed)
    except UNREADABLE as fault:
        raise ObjectUnreadable(f"the projection of a {kind.kind}", str(fault)) from fault


@cache
def _decoder(type_: type[T]) -> msgspec.msgpack.Decoder[T]:
    return msgspec.msgpack.Decoder(type_)


def _without_noise(metadata: ObjectMeta) -> ObjectMeta:
    if LAST_APPLIED_CONFIGURATION in metadata.annotations:
        annotations = {
            key: value
            for key, value in metadata.annotations.items()
            if key != LAST_APPLIED_CONFIGURATION
        }
        return replace(metadata, resource_version="", annotations=annotations)
    return replace(metadata, resource_version="") if metadata.resource_version else metadata


def _redacted(plugins: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(_redacted_arguments(arguments)) for name, arguments in plugins.items()}


def _redacted_arguments(arguments: tuple[str, ...]) -> list[str]:
    """Looks at every plugin's arguments, and at forms that Go would not take for the flag.

    A key may stand at the wrong plugin, or behind a misspelt flag, and still be a key.
    """
    shown: list[str] = []
    value_follows = False
    for argument in arguments:
        flag = _KEY_ARGUMENT.fullmatch(argument)
        if flag is not None:
            shown.append(f"{flag[1]}={REDACTED}" if flag[2] else argument)
        elif value_follows or _KEY_MATERIAL in argument:
            shown.append(REDACTED)
        else:
            shown.append(argument)
        value_follows = flag is not None and not flag[2]
    return shown
