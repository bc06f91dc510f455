"""The few protobuf bodies kubectl sends by itself: `create namespace|job|…`, `auth can-i`.

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
    "ResourceQuota": (_META, (2, "spec", "ResourceQuotaSpec")),
    "ResourceQuotaSpec": ((1, "hard", "quantities by key"), (2, "scopes", "texts")),
    "Job": (_META, (2, "spec", "JobSpec")),
    "JobSpec": (
        (1, "parallelism", "number"),
        (2, "completions", "number"),
        (6, "template", "PodTemplateSpec"),
        (7, "backoffLimit", "number"),
    ),
    "Deployment": (_META, (2, "spec", "DeploymentSpec")),
    "DeploymentSpec": (
        (1, "replicas", "number"),
        (2, "selector", "LabelSelector"),
        (3, "template", "PodTemplateSpec"),
    ),
    "LabelSelector": ((1, "matchLabels", "texts by key"),),
    "PodTemplateSpec": (_META, (2, "spec", "PodSpec")),
    "PodSpec": (
        (2, "containers", "many Container"),
        (3, "restartPolicy", "text"),
        (4, "terminationGracePeriodSeconds", "number"),
    ),
    "Container": (
        (1, "name", "text"),
        (2, "image", "text"),
        (3, "command", "texts"),
        (4, "args", "texts"),
        (6, "ports", "many ContainerPort"),
        (14, "imagePullPolicy", "text"),
    ),
    "ContainerPort": (
        (1, "name", "text"),
        (3, "containerPort", "number"),
        (4, "protocol", "text"),
    ),
    "SelfSubjectAccessReview": (_META, (2, "spec", "AccessSpec")),
    "SubjectAccessReview": (_META, (2, "spec", "AccessSpec")),
    "LocalSubjectAccessReview": (_META, (2, "spec", "AccessSpec")),
    "AccessSpec": (
        (1, "resourceAttributes", "ResourceAttributes"),
        (2, "nonResourceAttributes", "NonResourceAttributes"),
        (3, "user", "text"),
        (4, "groups", "texts"),
        (6, "uid", "text"),
    ),
    "ResourceAttributes": (
        (1, "namespace", "text"),
        (2, "verb", "text"),
        (3, "group", "text"),
        (4, "version", "text"),
        (5, "resource", "text"),
        (6, "subresource", "text"),
        (7, "name", "text"),
    ),
    "NonResourceAttributes": ((1, "path", "text"), (2, "verb", "text")),
    "SelfSubjectRulesReview": (_META, (2, "spec", "RulesSpec")),
    "RulesSpec": ((1, "namespace", "text"),),
    "SelfSubjectReview": (_META,),
    "TokenReview": (_META, (2, "spec", "TokenSpec")),
    "TokenSpec": ((1, "token", "text"), (2, "audiences", "texts")),
}
_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "text": bytes.decode,
    "truth": bool,
    "number": int,
}
_ACCESS: Final = "authorization.k8s.io/v1"
_KINDS: Final = frozenset(
    {
        ("v1", "Namespace"),
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("v1", "ResourceQuota"),
        ("batch/v1", "Job"),
        ("apps/v1", "Deployment"),
        (_ACCESS, "SelfSubjectAccessReview"),
        (_ACCESS, "SubjectAccessReview"),
        (_ACCESS, "LocalSubjectAccessReview"),
        (_ACCESS, "SelfSubjectRulesReview"),
        ("authentication.k8s.io/v1", "SelfSubjectReview"),
        ("authentication.k8s.io/v1", "TokenReview"),
    }
)


def document_in_protobuf(body: bytes, unsupported: Callable[[], ApiRefusal]) -> Document:
    """The object in a body; `unsupported` makes the refusal of what is not known here."""
    if not body.startswith(_MAGIC):
        raise statuses.bad_request("the body is not a protobuf message of Kubernetes")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        types = dict(_fields(envelope.get(1, b"")))
        version, kind = types.get(1, b"").decode(), types.get(2, b"").decode()
        if (version, kind) not in _KINDS:
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
            if not _is_nothing(value):
                raise unsupported()
            continue
        field, kind = known[number]
        if kind.endswith(" by key"):
            key, content = _entry(value, kind)
            result.setdefault(field, {})[key] = content
        elif kind == "texts":
            result.setdefault(field, []).append(value.decode())
        elif kind.startswith("many "):
            one = _message(value, kind.removeprefix("many "), unsupported)
            result.setdefault(field, []).append(one)
        elif kind not in _PLAIN:
            result[field] = _message(value, kind, unsupported)
        elif value or kind != "text":
            result[field] = _PLAIN[kind](value)
    return result


def _entry(data: bytes, kind: str) -> tuple[str, str]:
    """One entry of a map."""
    entry = dict(_fields(data))
    content: bytes = entry.get(2, b"")
    if kind == "quantities by key":
        content = dict(_fields(content)).get(1, b"")
    elif kind == "bytes by key":
        content = base64.b64encode(content)
    return entry.get(1, b"").decode(), content.decode()


def _is_nothing(value: Any) -> bool:
    """Zero, or a message of nothings: Go writes some fields whether they are set or not."""
    if not isinstance(value, bytes):
        return value == 0
    try:
        return all(_is_nothing(inner) for _, inner in _fields(value))
    except (ValueError, IndexError):
        return False


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
