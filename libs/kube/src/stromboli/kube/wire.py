"""The shapes that every Kubernetes answer shares, and what callers get out of them.

Objects stay bytes: only the metadata that this library needs is decoded, and whoever knows the kind
decodes the rest into the fields it uses. A `msgspec.Raw` is a window on the page or line that
it came in; copy it before keeping it for long, or the whole page stays in memory.
"""

from enum import StrEnum

import msgspec

__all__ = [
    "Deleted",
    "EventType",
    "ObjectMeta",
    "Page",
    "PatchType",
    "ServerVersion",
    "WatchEvent",
    "Written",
    "decode_page",
    "decode_watch_line",
    "is_status",
    "read_meta",
]


class PatchType(StrEnum):
    """How a patch says what it changes; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class EventType(StrEnum):
    """What a watch reports about an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata by which an object is identified, and how far its deletion is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """An object as the server stored it."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    raw: bytes


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion that the server accepted.

    `is_gone` is False while finalizers or a grace period keep the object: it is then marked, and a
    watch will report the end of it.
    """

    uid: str
    is_gone: bool
    resource_version: str = ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list; `remaining` is the server's estimate of what is still to come."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a watch. A bookmark carries nothing but a resourceVersion."""

    type: EventType
    object: msgspec.Raw
    name: str
    namespace: str
    uid: str
    resource_version: str


class ServerVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `/version` says."""

    major: str = ""
    minor: str = ""
    git_version: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    kind: str = ""


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None = None  # Go encodes an empty list as null in places
    metadata: _ListMeta = _ListMeta()


class _Line(msgspec.Struct, frozen=True):
    type: EventType
    object: msgspec.Raw


_OBJECT = msgspec.json.Decoder(_Object)
_LIST = msgspec.json.Decoder(_List)
_LINE = msgspec.json.Decoder(_Line)


def read_meta(raw: bytes | msgspec.Raw) -> ObjectMeta:
    """The metadata of any object."""
    return _OBJECT.decode(raw).metadata


def is_status(raw: bytes) -> bool:
    """Whether an answer is a Status rather than an object."""
    return _OBJECT.decode(raw).kind == "Status"


def decode_page(body: bytes) -> Page:
    """One answer to a list request."""
    found = _LIST.decode(body)
    return Page(
        items=found.items or [],
        resource_version=found.metadata.resource_version,
        continue_token=found.metadata.continue_,
        remaining=found.metadata.remaining_item_count,
    )


def decode_watch_line(line: bytes) -> WatchEvent:
    """One line of a watch; the object of an ERROR is a Status, without metadata of its own."""
    found = _LINE.decode(line)
    meta = read_meta(found.object)
    return WatchEvent(
        type=found.type,
        object=found.object,
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
