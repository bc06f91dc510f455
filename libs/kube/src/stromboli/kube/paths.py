"""Where the objects of a kind live on an API server, safe against names that are paths.

Names come from intents and therefore from users. Quoting a slash is not enough: API servers
split the path after decoding it, so `x%2Fbinding` would reach a subresource. Such a name is
refused here, before anything is sent.
"""

from typing import Final, Protocol
from urllib.parse import quote

import msgspec

from stromboli.kube.errors import BadCall

__all__ = ["PODS", "Resource", "ResourceKind", "group_version_path", "object_path", "resource_path"]

_NEVER_IN_A_NAME: Final = frozenset("/%?#\\")


class ResourceKind(Protocol):
    """What a path is made of; `stromboli.api.kinds.Kind` has it, and so has `Resource`."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def namespaced(self) -> bool: ...


class Resource(msgspec.Struct, frozen=True):
    """A kind that nothing but its path is known of, such as one that a CRD has just made."""

    group: str
    version: str
    plural: str
    namespaced: bool


PODS: Final = Resource("", "v1", "pods", namespaced=True)
"""The only resource that this library knows by name, for binding and eviction."""


def group_version_path(kind: ResourceKind) -> str:
    """Discovery's path of the kind's group and version."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def resource_path(kind: ResourceKind, namespace: str | None = None) -> str:
    """The path of all objects of a kind, or of those in a namespace."""
    path = group_version_path(kind)
    if namespace:
        if not kind.namespaced:
            raise BadCall(f"{kind.plural} have no namespace, but {namespace!r} was given")
        path += f"/namespaces/{_segment(kind, 'namespace', namespace)}"
    return f"{path}/{kind.plural}"


def object_path(kind: ResourceKind, namespace: str | None, name: str, subresource: str = "") -> str:
    """The path of one object, or of its subresource."""
    if not name:
        # Without it this would be the path of all of them, also for a delete.
        raise BadCall(f"one of the {kind.plural} needs a name")
    if kind.namespaced and not namespace:
        raise BadCall(f"{kind.plural} {name!r} needs a namespace")
    path = f"{resource_path(kind, namespace)}/{_segment(kind, 'name', name)}"
    return f"{path}/{_segment(kind, 'subresource', subresource)}" if subresource else path


def _segment(kind: ResourceKind, what: str, value: str) -> str:
    if value in (".", "..") or not _NEVER_IN_A_NAME.isdisjoint(value):
        raise BadCall(f"{what} {value!r} of {kind.plural} is a path, not a name")
    return quote(value, safe=":")
