"""metav1.Status, the shape in which a Kubernetes API server answers when it has no object.

Every field has a default: proxies, aggregated servers and old versions leave some out, and
an error must never be lost because its description is incomplete.
"""

import msgspec

__all__ = ["Cause", "Status", "StatusDetails"]


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One reason of several, usually one per invalid field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What the Status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retryAfterSeconds: int = 0  # noqa: N815 - the wire's name


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome in words and in a code."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()
