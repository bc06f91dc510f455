"""One API request, understood: who wants what of which resource, and what the answer is."""

import msgspec

from stromboli.sandbox.documents import Document, encode
from stromboli.sandbox.options import Params
from stromboli.sandbox.resources import Served

__all__ = ["Answer", "ApiRequest", "User", "answered"]


class User(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


class ApiRequest(msgspec.Struct, frozen=True):
    verb: str
    served: Served
    namespace: str
    name: str
    subresource: str
    params: Params
    body: bytes
    content_type: str
    user: User
    warnings: list[str] = msgspec.field(default_factory=list)
    """What the client should be told beside the answer; also if that is a refusal."""


class Answer(msgspec.Struct, frozen=True):
    """A response, and the facts about the object that the audit log tells."""

    code: int
    body: bytes
    name: str = ""
    uid: str = ""
    revision: str = ""
    node: str = ""
    content_type: str = "application/json"


def answered(code: int, document: Document) -> Answer:
    """An answer with an object that may not be stored (a dry run, a deleted object)."""
    meta = document.get("metadata") or {}
    return Answer(
        code,
        encode(document),
        meta.get("name", ""),
        meta.get("uid", ""),
        meta.get("resourceVersion", ""),
    )
