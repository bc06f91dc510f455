"""AdmissionReview v1 to and from bytes.

What comes in is bounded by the caller (3 MiB, as the API server sends at most) and read in one
pass; what goes out is the answer alone. A body that is no review raises `MalformedReview`,
which the caller turns into a 4xx: without a uid there is nothing to answer.
"""

import binascii
from typing import Final

import msgspec

from stromboli.admitting.errors import MalformedReview
from stromboli.admitting.questions import Json, Resource, Review, UserInfo, Verdict, cut

__all__ = ["API_VERSION", "MAX_BODY_BYTES", "read_review", "write_answer"]

API_VERSION: Final = "admission.k8s.io/v1"
MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""What Volcano's webhook manager accepts, and the size of the largest object in etcd twice over."""


class _Kind(msgspec.Struct):
    kind: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: _Kind | None = None
    resource: Resource | None = None
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    operation: str | None = None
    user_info: UserInfo | None = None
    object: Json = None
    old_object: Json = None
    dry_run: bool | None = None
    options: Json = None


class _Incoming(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Status(msgspec.Struct, omit_defaults=True):
    message: str = ""
    code: int = 0


class _Response(msgspec.Struct, omit_defaults=True, rename="camel"):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch_type: str | None = None
    patch: str | None = None
    warnings: tuple[str, ...] = ()


class _Outgoing(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    response: _Response


_DECODER: Final = msgspec.json.Decoder(_Incoming)
_ENCODER: Final = msgspec.json.Encoder()


def read_review(body: bytes) -> Review:
    """The request in the body. Of a key that stands twice in an object, the last counts."""
    if len(body) > MAX_BODY_BYTES:
        raise MalformedReview(f"it has {len(body)} bytes, more than {MAX_BODY_BYTES}")
    try:
        incoming = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise MalformedReview(str(fault)) from fault
    except RecursionError as fault:
        raise MalformedReview("it is nested too deeply") from fault
    request = incoming.request
    if (incoming.api_version, incoming.kind) != (API_VERSION, "AdmissionReview"):
        raise MalformedReview(f"it is a {incoming.kind[:64]!r} of {incoming.api_version[:64]!r}")
    if request is None or not request.uid:
        raise MalformedReview("it has no request with a uid")
    return Review(
        uid=request.uid,
        kind=request.kind.kind if request.kind else "",
        resource=request.resource or Resource(),
        sub_resource=request.sub_resource or "",
        operation=request.operation or "",
        namespace=request.namespace or "",
        name=request.name or "",
        object=request.object,
        old_object=request.old_object,
        user_info=request.user_info or UserInfo(),
        dry_run=bool(request.dry_run),
        options=request.options,
    )


def write_answer(review_uid: str, verdict: Verdict) -> bytes:
    """The AdmissionReview that answers the request of this uid."""
    response = _Response(uid=review_uid, allowed=verdict.allowed, warnings=verdict.warnings)
    if not verdict.allowed:
        response.status = _Status(cut(verdict.message), verdict.code)
    elif verdict.patch:
        response.patch_type = "JSONPatch"
        response.patch = binascii.b2a_base64(_ENCODER.encode(verdict.patch), newline=False).decode(
            "ascii"
        )
    return _ENCODER.encode(_Outgoing(API_VERSION, "AdmissionReview", response))
