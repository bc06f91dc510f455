"""What a webhook answered: checked as the real server checks it, refusals in its words."""

import base64
import binascii
from typing import Any, Final

import msgspec

from stromboli.sandbox.documents import Document
from stromboli.sandbox.errors import ApiRefusal, WebhookUnreachable

__all__ = ["Verdict", "verdict_in"]

_V1: Final = "admission.k8s.io/v1"
_MAX_WARNINGS: Final = 100


class ResponseShape(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] = []


class ReviewShape(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: ResponseShape | None = None


class Verdict(msgspec.Struct, frozen=True):
    allowed: bool
    status: Document
    patch: bytes
    warnings: list[str]

    def refusal(self, webhook: str) -> ApiRefusal:
        """The Status the webhook sent, completed so that it is one of a failure."""
        start = f'admission webhook "{webhook}" denied the request'
        given = self.status
        told = given.get("message") or given.get("reason")
        code = given.get("code")
        if not isinstance(code, int) or code < 400:
            code = 400
        status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"{start}: {told}" if told else f"{start} without explanation",
        }
        for key in ("reason", "details"):
            if given.get(key):
                status[key] = given[key]
        status["code"] = code
        return ApiRefusal(code, status)


def verdict_in(body: bytes, *, uid: str, mutating: bool) -> Verdict:
    """The verdict in a response body; WebhookUnreachable if it is not a proper one."""
    try:
        review = msgspec.json.decode(body, type=ReviewShape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WebhookUnreachable(f"failed to call webhook: {error}") from error
    response = review.response
    problem = _problem(review, uid)
    if response is not None and not problem:
        problem = _patch_problem(response, mutating=mutating)
    if problem or response is None:
        raise WebhookUnreachable(f"received invalid webhook response: {problem}")
    try:
        patch = base64.b64decode(response.patch or "", validate=True)
    except binascii.Error as error:
        raise WebhookUnreachable(f"failed to call webhook: {error}") from error
    if patch and response.patch_type != "JSONPatch":
        raise WebhookUnreachable(f'unsupported patch type "{response.patch_type}"')
    return Verdict(
        response.allowed, response.status or {}, patch, response.warnings[:_MAX_WARNINGS]
    )


def _problem(review: ReviewShape, uid: str) -> str:
    if review.response is None:
        return "webhook response was absent"
    if review.response.uid != uid:
        return f'expected response.uid="{uid}", got "{review.response.uid}"'
    if (review.api_version, review.kind) != (_V1, "AdmissionReview"):
        got = review.api_version or "/"
        return (
            f"expected webhook response of {_V1}, Kind=AdmissionReview, got {got},"
            f" Kind={review.kind}"
        )
    return ""


def _patch_problem(response: ResponseShape, *, mutating: bool) -> str:
    if not mutating:
        if response.patch:
            return "validating webhook may not return response.patch"
        if response.patch_type is not None:
            return "validating webhook may not return response.patchType"
        return ""
    if response.patch and response.patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not response.patch and response.patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return ""
