"""The JSON merge patch (RFC 7386) that makes one value out of another.

Only what differs is in it, and what is no longer there is null: nobody's fields are touched
but those that the decision is about.
"""

from typing import Any, cast

__all__ = ["merge_patch"]


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Empty when there is nothing to change."""
    patch: dict[str, Any] = dict.fromkeys(key for key in before if key not in after)
    for key, wanted in after.items():
        known = before.get(key)
        if isinstance(wanted, dict) and isinstance(known, dict):
            inner = merge_patch(cast("dict[str, Any]", known), cast("dict[str, Any]", wanted))
            if inner:
                patch[key] = inner
        elif wanted != known or key not in before:
            patch[key] = wanted
    return patch
