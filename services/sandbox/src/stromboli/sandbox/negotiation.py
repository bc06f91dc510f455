"""Which formats are spoken: JSON or YAML in, JSON out.

Clients that prefer protobuf, tables or aggregated discovery name plain JSON as their second
choice and get it; one that accepts nothing else is told so.
"""

from functools import lru_cache
from typing import Final

from stromboli.sandbox import statuses
from stromboli.sandbox.documents import encode
from stromboli.sandbox.yaml_bodies import document_in

__all__ = ["check_accept", "json_body", "media_type"]

_OFFERED: Final = "application/json"
_JSON_KINDS: Final = frozenset({"", "application/json", "text/plain", "application/octet-stream"})
_YAML_KINDS: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})


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


def json_body(body: bytes, kind: str) -> bytes:
    """A body that is no patch, as JSON: YAML is translated, other formats are refused."""
    if kind in _JSON_KINDS:
        return body
    if kind in _YAML_KINDS:
        return encode(document_in(body))
    raise statuses.unsupported_media_type((_OFFERED, "application/yaml"))
