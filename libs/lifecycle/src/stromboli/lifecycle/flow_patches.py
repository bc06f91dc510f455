"""A job template with the changes that a flow makes to it.

The rule is JSON merge patch, and one thing more: two lists of named things (tasks, containers,
volumes, variables) are merged name by name, because nobody would repeat a whole task to change
the number of its pods.
"""

from typing import Any, cast

import msgspec

from stromboli.api.batch import JobSpec
from stromboli.api.errors import ObjectUnreadable
from stromboli.api.fieldtypes import OpaqueObject

__all__ = ["patched"]


def patched(spec: JobSpec, patch: OpaqueObject | None) -> JobSpec:
    """Raises ObjectUnreadable when the result is not the spec of a job."""
    if not patch:
        return spec
    merged = _merged(msgspec.to_builtins(spec), patch)
    try:
        return msgspec.convert(merged, JobSpec)
    except msgspec.ValidationError as problem:
        raise ObjectUnreadable("a job template with the flow's patch", str(problem)) from problem


def _merged(target: Any, patch: Any) -> Any:
    if isinstance(patch, dict):
        result: dict[str, Any] = dict(cast("dict[str, Any]", target)) if _is_map(target) else {}
        for key, value in cast("dict[str, Any]", patch).items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _merged(result.get(key), value)
        return result
    named, changes = _by_name(target), _by_name(patch)
    if named is None or changes is None:
        return patch
    return [_merged(named.get(name), changes.get(name, {})) for name in {**named, **changes}]


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _by_name(value: object) -> dict[str, dict[str, Any]] | None:
    """A list of things that all have names; None if it is anything else."""
    if not isinstance(value, list | tuple):
        return None
    found: dict[str, dict[str, Any]] = {}
    for item in cast("list[Any]", value):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            return None
        found[item["name"]] = cast("dict[str, Any]", item)
    return found
