"""Every answer that is not an object: metav1.Status with the code, reason and wording of kube.

Clients branch on `reason` and `code`, people read `message`; the sentences are those of the
real server. Functions that refuse return the exception; the caller raises it.
"""

from collections.abc import Sequence
from typing import Any

from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document
from stromboli.sandbox.errors import ApiRefusal

__all__ = [
    "already_exists",
    "bad_request",
    "body_too_large",
    "conflict",
    "expired",
    "forbidden",
    "from_elsewhere",
    "internal_error",
    "invalid",
    "method_not_allowed",
    "modified",
    "not_acceptable",
    "not_found",
    "patch_failed",
    "resource_not_served",
    "resource_version_too_large",
    "service_unavailable",
    "success",
    "too_many_requests",
    "unauthorized",
    "unsupported_media_type",
]


def _failure(
    code: int, reason: str, message: str, details: Document | None = None
) -> dict[str, Any]:
    status: Document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        status["details"] = details
    status["code"] = code
    return status


def _details(name: str, group: str, kind: str) -> Document:
    details: Document = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details


def qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def success(code: int = 200, details: Document | None = None) -> Document:
    status: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code != 200:
        status["code"] = code
    return status


def bad_request(message: str) -> ApiRefusal:
    return ApiRefusal(400, _failure(400, "BadRequest", message))


def unauthorized() -> ApiRefusal:
    return ApiRefusal(401, _failure(401, "Unauthorized", "Unauthorized"))


def forbidden(
    group: str, plural: str, name: str, why: str, *, causes: Sequence[Cause] = ()
) -> ApiRefusal:
    details = _details(name, group, plural)
    if causes:
        details["causes"] = list(causes)
    message = f'{qualified(group, plural)} "{name}" is forbidden: {why}'
    return ApiRefusal(403, _failure(403, "Forbidden", message, details))


def not_found(group: str, plural: str, name: str) -> ApiRefusal:
    message = f'{qualified(group, plural)} "{name}" not found'
    return ApiRefusal(404, _failure(404, "NotFound", message, _details(name, group, plural)))


def resource_not_served() -> ApiRefusal:
    message = "the server could not find the requested resource"
    return ApiRefusal(404, _failure(404, "NotFound", message, {}))


def method_not_allowed() -> ApiRefusal:
    message = "the server does not allow this method on the requested resource"
    return ApiRefusal(405, _failure(405, "MethodNotAllowed", message, {}))


def not_acceptable(offered: str) -> ApiRefusal:
    message = f"only the following media types are accepted: {offered}"
    return ApiRefusal(406, _failure(406, "NotAcceptable", message))


def already_exists(group: str, plural: str, name: str) -> ApiRefusal:
    message = f'{qualified(group, plural)} "{name}" already exists'
    return ApiRefusal(409, _failure(409, "AlreadyExists", message, _details(name, group, plural)))


def conflict(group: str, plural: str, name: str, why: str) -> ApiRefusal:
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return ApiRefusal(409, _failure(409, "Conflict", message, _details(name, group, plural)))


def apply_conflict(message: str, causes: Sequence[Cause]) -> ApiRefusal:
    """Others own fields that an apply would change."""
    return ApiRefusal(409, _failure(409, "Conflict", message, {"causes": list(causes)}))


def modified(group: str, plural: str, name: str) -> ApiRefusal:
    why = (
        "the object has been modified; please apply your changes to the latest version and try"
        " again"
    )
    return conflict(group, plural, name, why)


def expired(message: str, *, continue_token: str = "") -> ApiRefusal:
    status = _failure(410, "Expired", message)
    if continue_token:
        status["metadata"] = {"continue": continue_token}
    return ApiRefusal(410, status)


def body_too_large(limit: int) -> ApiRefusal:
    message = f"Request entity too large: limit is {limit}"
    return ApiRefusal(413, _failure(413, "RequestEntityTooLarge", message))


def unsupported_media_type(accepted: Sequence[str]) -> ApiRefusal:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiRefusal(415, _failure(415, "UnsupportedMediaType", message))


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiRefusal:
    """The object breaks rules; sentences that repeat are told once, as kube does."""
    sentences = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    told = sentences[0] if len(sentences) == 1 else "[" + ", ".join(sentences) + "]"
    details = _details(name, group, kind)
    details["causes"] = list(causes)
    message = f'{qualified(group, kind)} "{name}" is invalid: {told}'
    return ApiRefusal(422, _failure(422, "Invalid", message, details))


def patch_failed() -> ApiRefusal:
    message = "the server rejected our request due to an error in our request"
    return ApiRefusal(422, _failure(422, "Invalid", message, {}))


def too_many_requests(message: str, retry_after_s: int = 10) -> ApiRefusal:
    details: Document = {"retryAfterSeconds": retry_after_s}
    return ApiRefusal(429, _failure(429, "TooManyRequests", message, details))


def internal_error(message: str) -> ApiRefusal:
    details: Document = {"causes": [{"message": message}]}
    told = f"Internal error occurred: {message}"
    return ApiRefusal(500, _failure(500, "InternalError", told, details))


def service_unavailable(message: str) -> ApiRefusal:
    return ApiRefusal(503, _failure(503, "ServiceUnavailable", message, {}))


def from_elsewhere(code: int, told: str, *, resource: str, name: str) -> ApiRefusal:
    """What a kubelet refused, in its words."""
    if code == 400:
        return bad_request(told)
    if code >= 500:
        return internal_error(told)
    details: Document = {"name": name, "kind": resource}
    if code == 404:
        message = f"the server could not find the requested resource ({resource} {name})"
        details["causes"] = [{"reason": "UnexpectedServerResponse", "message": told}]
        return ApiRefusal(404, _failure(404, "NotFound", message, details))
    message = f"the server rejected our request: {told}"
    return ApiRefusal(code, _failure(code, "Unknown", message, details))


def resource_version_too_large(asked: int, current: int) -> ApiRefusal:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details: Document = {"causes": [cause], "retryAfterSeconds": 1}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiRefusal(504, _failure(504, "Timeout", message, details))
