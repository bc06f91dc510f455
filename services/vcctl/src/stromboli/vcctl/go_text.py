"""Text as Go and Volcano's vcctl print it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Final

from stromboli.api.errors import TimestampError
from stromboli.api.timestamps import parse_time

__all__ = ["at_level", "go_json", "go_slice", "go_time"]

_GO_ZERO_TIME: Final = "0001-01-01 00:00:00 +0000 UTC"


def at_level(level: int, text: str) -> str:
    return "  " * level + text


def go_json(values: Mapping[str, str]) -> str:
    """As Go's encoding/json writes a map: sorted, dense, safe inside HTML."""
    if not values:
        return "<none>"
    text = json.dumps(dict(values), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def go_slice(values: Sequence[str]) -> str:
    return f"[{' '.join(values)}]"


def go_time(timestamp: str | None) -> str:
    if timestamp is None:
        return _GO_ZERO_TIME
    try:
        moment = parse_time(timestamp).astimezone(UTC)
    except TimestampError:
        return timestamp
    return f"{moment:%Y-%m-%d %H:%M:%S} +0000 UTC"
