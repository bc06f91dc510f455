"""Which formats are spoken: JSON or YAML in, JSON out, plain or in one of a few forms.

An Accept header names choices, best first; the first that can be served is taken. Clients that
prefer protobuf name JSON as their second choice and get it; one that accepts nothing else is
told so. A form (`as=Table`) is another way to show the same objects.
"""

from functools import lru_cache
from typing import Final

from stromboli.sandbox import statuses
from stromboli.sandbox.documents import encode
from stromboli.sandbox.errors import ApiRefusal
from stromboli.sandbox.protobuf_bodies import PROTOBUF, document_in_protobuf
from stromboli.sandbox.yaml_bodies import document_in

__all__ = ["PLAIN", "form_in", "json_body", "media_type"]

PLAIN: Final = ""
"""The form of whoever asks for none."""
_OFFERED: Final = "application/json"
_JSON_KINDS: Final = frozenset({"", "application/json", "text/plain", "application/octet-stream"})
_YAML_KINDS: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})


@lru_cache(maxsize=256)
def _choice(accept: str, forms: frozenset[str]) -> str | None:
    for choice in accept.split(","):
        kind, *rest = (part.strip() for part in choice.split(";"))
        if kind.lower() not in {"", "*/*", "application/*", _OFFERED}:
            continue
        parameters: dict[str, str] = {}
        for part in rest:
            key, _, value = part.partition("=")
            parameters[key] = value
        if parameters.get("stream", "watch") != "watch":
            continue
        form = parameters.get("as", PLAIN)
        if form == PLAIN:
            return PLAIN
        if f"{form}.{parameters.get('v', '')}.{parameters.get('g', '')}" in forms:
            return form
    return None


def form_in(accept: str, forms: frozenset[str]) -> str:
    """The form an Accept header chooses among those offered, each `kind.version.group`."""
    if not accept:
        return PLAIN
    form = _choice(accept, forms)
    if form is None:
        raise statuses.not_acceptable(_OFFERED)
    return form


@lru_cache(maxsize=256)
def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def json_body(body: bytes, kind: str) -> bytes:
    """A body that is no patch, as JSON: YAML is translated, other formats are refused."""
    if kind in _JSON_KINDS:
        return body
    if kind in _YAML_KINDS:
        return encode(document_in(body))
    if kind == PROTOBUF:
        return encode(document_in_protobuf(body, _unsupported))
    raise _unsupported()


def _unsupported() -> ApiRefusal:
    return statuses.unsupported_media_type((_OFFERED, "application/yaml"))
