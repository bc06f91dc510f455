"""How to reach an API server, and how much we agree to read from it, wait for it and ask of it.

Plain data without a default that needs a machine: services put these structs into their own
settings, so that a wrong key or value is reported there by name.
"""

from typing import Annotated

import msgspec

__all__ = ["AccessSettings", "KubeAccess", "Limits"]

Positive = Annotated[int, msgspec.Meta(ge=1)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0)]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Everything is bounded; these are the bounds."""

    max_connections: Positive = 100
    """Connections to the API server, watches included."""

    max_in_flight: Positive = 64
    """Requests under way at once. Watches hold connections too, so keep it well below those."""

    per_second: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Requests started per second in the long run; None leaves it to the server's fairness."""

    burst: Positive = 50
    """Requests started at once before `per_second` holds."""

    max_object_bytes: Positive = 8 * 1024 * 1024
    """The largest single object read. etcd's own limit is 1.5 MiB unless it was raised."""

    max_page_bytes: Positive = 64 * 1024 * 1024
    """The largest page of a list read; a reflector asks for smaller pages when it meets this."""


class KubeAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Where the API server is, who we are there, and within which limits we speak to it."""

    kubeconfig: str | None = None
    """Path of a kubeconfig; None means $KUBECONFIG or ~/.kube/config."""

    context: str | None = None
    """A context of the kubeconfig; None means its current one."""

    in_cluster: bool = False
    """Use the pod's service account instead of a kubeconfig."""

    user_agent: str = "stromboli"
    """Shown in the API server's audit log."""

    timeout_s: PositiveSeconds = 30.0
    """Deadline of a call that names none, from waiting for a slot to the last byte."""

    refresh_credentials_every_s: PositiveSeconds = 60.0
    """How often tokens and certificates are looked at again: they rotate."""

    limits: Limits = Limits()


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a service lets be set about it."""

    kubeconfig: Annotated[
        str, msgspec.Meta(description="kubeconfig file; empty means $KUBECONFIG or ~/.kube/config")
    ] = ""
    context: Annotated[
        str, msgspec.Meta(description="context of the kubeconfig; empty means its current one")
    ] = ""
    in_cluster: Annotated[
        bool, msgspec.Meta(description="use the pod's service account instead of a kubeconfig")
    ] = False
