"""The few protobuf bodies kubectl sends by itself: `create namespace|configmap|secret …`.

kubectl's imperative commands speak protobuf and have no second language. For the kinds they
create most the fields are known by number here; any other kind, and any other field that is set,
is refused as an unsupported format, never dropped.
"""

import base64
from collections.abc import Callable, Iterator
from typing import Any, Final

from stromboli.sandbox import statuses
from stromboli.sandbox.documents import Document
from stromboli.sandbox.errors import ApiRefusal

__all__ = ["PROTOBUF", "document_in_protobuf"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_META: Final = (1, "metadata", "ObjectMeta")

_MESSAGES: Final[dict[str, tuple[tuple[int, str, str], ...]]] = {
    "ObjectMeta": (
        (1, "name", "text"),
        (2, "generateName", "text"),
        (3, "namespace", "text"),
        (11, "labels", "texts by key"),
        (12, "annotations", "texts by key"),
        (14, "finalizers", "texts"),
    ),
    "Namespace": (_META, (2, "spec", "NamespaceSpec"), (3, "status", "NamespaceStatus")),
    "NamespaceSpec": ((1, "finalizers", "texts"),),
    "NamespaceStatus": ((1, "phase", "text"),),
    "ConfigMap": (
        _META,
        (2, "data", "texts by key"),
        (3, "binaryData", "bytes by key"),
        (4, "immutable", "truth"),
    ),
    "Secret": (
        _META,
        (2, "data", "bytes by key"),
        (3, "type", "text"),
        (4, "stringData", "texts by key"),
        (5, "immutable", "truth"),
    ),
    "ServiceAccount": (_META,),
}
_KINDS: Final = frozenset({"Namespace", "ConfigMap", "Secret", "ServiceAccount"})


def document_in_protobuf(body: bytes, unsupported: Callable[[], ApiRefusal]) -> Document:
    """The object in a body; `unsupported` makes the refusal of what is not known here."""
    if not body.startswith(_MAGIC):
        raise statuses.bad_request("the body is not a protobuf message of Kubernetes")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        types = dict(_fields(envelope.get(1, b"")))
        version, kind = types.get(1, b"").decode(), types.get(2, b"").decode()
        if version != "v1" or kind not in _KINDS:
            raise unsupported()
        document = _message(envelope.get(2, b""), kind, unsupported)
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        raise statuses.bad_request(f"the protobuf message cannot be read: {error}") from error
    return {"apiVersion": version, "kind": kind, **document}


def _message(data: bytes, name: str, unsupported: Callable[[], ApiRefusal]) -> Document:
    known = {number: (field, kind) for number, field, kind in _MESSAGES[name]}
    result: Document = {}
    for number, value in _fields(data):
        if number not in known:
            if value not in (0, b""):
                raise unsupported()
            continue
        field, kind = known[number]
        match kind:
            case "text":
                result[field] = value.decode()
            case "truth":
                result[field] = bool(value)
            case "texts":
                result.setdefault(field, []).append(value.decode())
            case "texts by key" | "bytes by key":
                entry = dict(_fields(value))
                content: bytes = entry.get(2, b"")
                told = content if kind == "texts by key" else base64.b64encode(content)
                result.setdefault(field, {})[entry.get(1, b"").decode()] = told.decode()
            case _:
                result[field] = _message(value, kind, unsupported)
    return result


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message, by number: bytes, or a number for everything else."""
    position = 0
    while position < len(data):
        tag, position = _number(data, position)
        match tag & 7:
            case 0:
                value, position = _number(data, position)
                yield tag >> 3, value
            case 2:
                size, position = _number(data, position)
                if position + size > len(data):
                    raise ValueError("it ends too early")
                yield tag >> 3, data[position : position + size]
                position += size
            case unknown:
                raise ValueError(f"wire type {unknown} is not used by these kinds")


def _number(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
