"""What a URL asks for: Kubernetes' path grammar, without looking anything up.

/api/v1/…                      the core group
/apis/<group>/<version>/…      every other group
…/<plural>[/<name>[/<subresource>]]
…/namespaces/<namespace>/<plural>[/<name>[/<subresource>]]
"""

from typing import Final
from urllib.parse import unquote

import msgspec

__all__ = ["Target", "target_of"]

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


def target_of(path: str) -> Target | None:
    """The resource or object a path names; None if it names neither."""
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
