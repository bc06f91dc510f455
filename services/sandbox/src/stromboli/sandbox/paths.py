"""What a URL asks for: Kubernetes' path grammar, without looking anything up.

/api/v1/…                      the core group
/apis/<group>/<version>/…      every other group
…/<plural>[/<name>[/<subresource>]]
…/namespaces/<namespace>/<plural>[/<name>[/<subresource>]]
…/namespaces/<namespace>/<plural>/<name>/proxy[/<anything>]
"""

import re
from typing import Final
from urllib.parse import unquote

import msgspec

__all__ = ["Target", "target_of"]

_PROXIED: Final = re.compile(
    r"/api/v1/namespaces/([^/]+)/(pods|services)/([^/]+)/proxy(|/.*)", re.DOTALL
)
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})


class Target(msgspec.Struct, frozen=True):
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """The old way to ask for a watch: /api/v1/watch/…"""
    beyond: str = ""
    """What follows `/proxy`, as it was sent."""


def target_of(path: str) -> Target | None:
    """The resource or object a path names; None if it names neither."""
    if "/proxy" in path:
        proxied = _PROXIED.fullmatch(path)
        if proxied is not None:
            namespace, plural, name = (unquote(part) for part in proxied.group(1, 2, 3))
            return Target("", "v1", plural, namespace, name, "proxy", beyond=proxied[4])
    if "%" in path:
        path = unquote(path)
    parts = path.rstrip("/").split("/")
    match parts:
        case ["", "api", version, *rest] if rest:
            return _target("", version, rest)
        case ["", "apis", group, version, *rest] if rest:
            return _target(group, version, rest)
        case _:
            return None


def _target(group: str, version: str, rest: list[str]) -> Target | None:
    if "" in rest:
        return None
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = [*rest, "", ""][:3]
    return Target(group, version, plural, namespace, name, subresource, watch)
