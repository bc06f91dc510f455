"""Objects of our own types as the manifests to create them from.

Parts that are empty are left out: an empty status or guarantee says nothing, and what a
person then sees in the object is what was meant.
"""

from typing import Any, cast

from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.meta import KubeObject
from stromboli.api.wire import manifest_of

__all__ = ["compact_manifest"]


def compact_manifest(item: KubeObject) -> OpaqueObject:
    return _compact(manifest_of(item))


def _compact(value: OpaqueObject) -> OpaqueObject:
    kept: dict[str, Any] = {}
    for key, member in value.items():
        inner = _compact(cast("OpaqueObject", member)) if isinstance(member, dict) else member
        if inner != {}:
            kept[key] = inner
    return kept
