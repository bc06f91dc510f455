"""Every way a call to the API server can fail, translated once, here.

    KubeError
    ├── AccessError            the kubeconfig or service account can not be used
    ├── BadCall                the call itself is wrong: a name with a slash, a missing namespace
    ├── Unreachable            no answer: refused, reset, cut off      (retryable)
    │   └── DeadlineExceeded   no answer in time                       (retryable)
    ├── TooLarge               the answer is larger than we agreed to read
    ├── Undecodable            the answer is not what the API promises
    └── ApiError               the API server said no
        ├── BadRequest         400
        ├── Unauthorized       401
        ├── Forbidden          403, also quota and terminating namespaces
        ├── NotFound           404
        ├── AlreadyExists      409 AlreadyExists
        ├── Conflict           409 otherwise
        ├── Gone               410: the resourceVersion or continue token is too old
        ├── BodyRefused        413, 415: too big or of a type it does not read
        ├── Invalid            422, with one cause per field
        ├── TooManyRequests    429, also a disruption budget in the way (retryable)
        └── ServerUnavailable  5xx                                      (retryable)

``retryable`` says that the very same call may succeed later, nothing more. Whether it may be
sent again depends on the call; ``maybe_applied`` says whether the failed one can have had its
effect. A Conflict is not retryable: something else holds now, and somebody has to decide again.
"""

import re
from typing import ClassVar, Final

import msgspec

from stromboli.kube.status import Cause, Status

__all__ = [
    "AccessError",
    "AlreadyExists",
    "ApiError",
    "BadCall",
    "BadRequest",
    "BodyRefused",
    "Conflict",
    "DeadlineExceeded",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeError",
    "NotFound",
    "QuotaExceeded",
    "ServerUnavailable",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Undecodable",
    "Unreachable",
    "api_error",
    "error_from_answer",
]

MAX_PLAIN_TEXT: Final = 500
"""How much of an answer that is not a Status goes into the error's message."""


class KubeError(Exception):
    """Any failure of this library; catch this to catch them all."""

    retryable: ClassVar[bool] = False
    maybe_applied: bool = False
    """True when the server may have done what was asked although we got no good answer."""


class AccessError(KubeError):
    """The configuration does not lead to a usable connection; a person must change it."""


class BadCall(KubeError):
    """Refused here, before anything was sent."""


class Unreachable(KubeError):
    """There was no answer."""

    retryable = True

    def __init__(self, request: str, why: str, *, maybe_applied: bool) -> None:
        self.request = request
        self.why = why
        self.maybe_applied = maybe_applied
        super().__init__(f"{request}: no answer from the API server: {why}")


class DeadlineExceeded(Unreachable):
    """There was no answer within the call's deadline."""


class TooLarge(KubeError):
    """The server's answer exceeds a limit of ours; nothing of it was kept."""

    def __init__(self, what: str, limit_bytes: int, setting: str, *, applied: bool = False) -> None:
        self.what = what
        self.limit_bytes = limit_bytes
        self.setting = setting
        self.maybe_applied = applied
        super().__init__(f"{what} is larger than {limit_bytes} bytes; {setting} sets this limit")


class Undecodable(KubeError):
    """The server's answer is not what the Kubernetes API promises."""

    def __init__(self, request: str, why: str, *, maybe_applied: bool) -> None:
        self.request = request
        self.why = why
        self.maybe_applied = maybe_applied
        super().__init__(f"{request}: the answer can not be read: {why}")


class ApiError(KubeError):
    """The API server answered with an error; the fields are those of its metav1.Status."""

    def __init__(self, request: str, status: Status) -> None:
        self.request = request
        self.code = status.code
        self.reason = status.reason
        self.message = status.message
        self.details = status.details
        super().__init__(f"{request}: {status.code} {status.reason}: {status.message}")

    @property
    def causes(self) -> tuple[Cause, ...]:
        return self.details.causes

    @property
    def retry_after_s(self) -> float | None:
        """How long the server wants us to wait, if it said so."""
        seconds = self.details.retryAfterSeconds
        return float(seconds) if seconds > 0 else None

    def has_cause(self, reason: str) -> bool:
        return any(cause.reason == reason for cause in self.causes)


class BadRequest(ApiError):
    """400: the body or a parameter can not be parsed or used."""


class Unauthorized(ApiError):
    """401, after the credentials were refreshed once."""


class QuotaExceeded(msgspec.Struct, frozen=True, kw_only=True):
    """What a ResourceQuota refused, as the server's own words name it."""

    quota: str
    requested: str
    used: str
    limited: str


class Forbidden(ApiError):
    """403: no right, no quota, or the namespace is on its way out."""

    @property
    def quota(self) -> QuotaExceeded | None:
        """The quota that was exceeded, or None when the refusal has another reason."""
        found = _QUOTA.search(self.message)
        return QuotaExceeded(**found.groupdict()) if found else None

    @property
    def is_namespace_terminating(self) -> bool:
        return self.has_cause("NamespaceTerminating")


class NotFound(ApiError):
    """404: no such object, namespace, or kind of object."""

    @property
    def is_unknown_kind(self) -> bool:
        """The server does not serve this kind: its CRD is missing, or the path is wrong."""
        return not self.details.name

    @property
    def missing_namespace(self) -> str | None:
        """The namespace that does not exist, when that is what was missing."""
        return self.details.name if self.details.kind == "namespaces" else None


class AlreadyExists(ApiError):
    """409: an object of that name is there."""


class Conflict(ApiError):
    """409: a precondition (uid, resourceVersion, unbound, field owner) does not hold."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is older than the server's history."""


class BodyRefused(ApiError):
    """413 or 415: the server will not read a body of this size or content type."""


class Invalid(ApiError):
    """422: the object breaks rules of its schema; `causes` has one entry per field."""


class TooManyRequests(ApiError):
    """429: the server sheds load, or a disruption budget forbids the eviction for now."""

    retryable = True

    @property
    def is_disruption_budget(self) -> bool:
        return self.has_cause("DisruptionBudget")


class ServerUnavailable(ApiError):
    """5xx: the server, its etcd or a webhook is in trouble; it may have done its work."""

    retryable = True
    maybe_applied = True


_QUOTA: Final = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.+?), "
    r"used: (?P<used>.+?), limited: (?P<limited>.+)$"
)

_BY_CODE: Final[dict[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: BodyRefused,
    415: BodyRefused,
    422: Invalid,
    429: TooManyRequests,
}


def api_error(request: str, status: Status) -> ApiError:
    """The exception for a Status, chosen by code, and by reason where one code says two things."""
    if status.code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists(request, status)
    if status.code >= 500:
        return ServerUnavailable(request, status)
    return _BY_CODE.get(status.code, ApiError)(request, status)


def error_from_answer(
    request: str, *, code: int, body: bytes, retry_after: str | None = None
) -> ApiError:
    """The exception for an HTTP answer, which is a Status or, from proxies, plain text."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        text = body[:MAX_PLAIN_TEXT].decode(errors="replace").strip()
        status = Status(message=text or "no message", reason="Unknown")
    details = status.details
    if retry_after is not None and retry_after.isdigit() and not details.retryAfterSeconds:
        details = msgspec.structs.replace(details, retryAfterSeconds=int(retry_after))
    # The HTTP code is what every hop agreed on; a Status without one is as good.
    return api_error(request, msgspec.structs.replace(status, code=code, details=details))
