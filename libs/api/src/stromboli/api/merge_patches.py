"""JSON merge patch (RFC 7386): null takes a key out, mappings are merged, all else is replaced."""

from typing import Any, cast

__all__ = ["merged"]


def merged(target: object, patch: object) -> Any:
    """What becomes of `target`, which stays as it is."""
    if not isinstance(patch, dict):
        return patch
    result: dict[str, Any] = (
        dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
    )
    for key, value in cast("dict[str, Any]", patch).items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
