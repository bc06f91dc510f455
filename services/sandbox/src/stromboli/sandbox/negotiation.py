"""Which formats are spoken: JSON in, JSON out.

Clients that prefer protobuf, tables or aggregated discovery name plain JSON as their second
choice and get it; one that accepts nothing else is told so.
"""

from functools import lru_cache
from typing import Final

from stromboli.sandbox import statuses

__all__ = ["check_accept", "check_content_type", "media_type"]

_OFFERED: Final = "application/json"
_READABLE: Final = frozenset({"", "application/json", "text/plain", "application/octet-stream"})


@lru_cache(maxsize=256)
def accepts_json(accept: str) -> bool:
    for choice in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in choice.split(";"))
        plain = not any(part.startswith(("as=", "stream=")) for part in parameters)
        if plain and kind in {"", "*/*", "application/*", _OFFERED}:
            return True
        if kind == _OFFERED and parameters == ["stream=watch"]:
            return True
    return False


def check_accept(accept: str) -> None:
    if accept and not accepts_json(accept):
        raise statuses.not_acceptable(_OFFERED)


@lru_cache(maxsize=256)
def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def check_content_type(kind: str) -> None:
    """A body that is no patch has to be JSON."""
    if kind not in _READABLE:
        raise statuses.unsupported_media_type((_OFFERED,))
