"""ConfigMaps and Secrets: keys that can be file names, values that are what they claim."""

import base64
import binascii
from typing import Final

import msgspec

from stromboli.sandbox import causes, statuses
from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document
from stromboli.sandbox.names import config_key_problems

__all__ = ["CONFIG_MAPS", "SECRETS"]

_MAX_BYTES: Final = 1024 * 1024
_REQUIRED_KEYS: Final = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


class ConfigMapShape(msgspec.Struct, rename="camel"):
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None


class SecretShape(msgspec.Struct, rename="camel"):
    data: dict[str, str] | None = None
    string_data: dict[str, str] | None = None
    type: str | None = None
    immutable: bool | None = None


def _checked_base64(values: dict[str, str] | None, kind: str) -> None:
    for text in (values or {}).values():
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise statuses.bad_request(
                f'{kind} in version "v1" cannot be handled as a {kind}: illegal base64 data'
            ) from None


def _default_config_map(config_map: Document) -> None:
    _checked_base64(config_map.get("binaryData"), "ConfigMap")


def _default_secret(secret: Document) -> None:
    _checked_base64(secret.get("data"), "Secret")
    if not secret.get("type"):
        secret["type"] = "Opaque"
    texts = secret.pop("stringData", None)
    if texts:
        data = secret["data"] = dict(secret.get("data") or {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def _key_causes(document: Document, fields: tuple[str, ...]) -> list[Cause]:
    found: list[Cause] = []
    size = 0
    for field in fields:
        for key, value in (document.get(field) or {}).items():
            size += len(value)
            found += [
                causes.invalid(f"{field}[{key}]", key, problem)
                for problem in config_key_problems(key)
            ]
    if size > _MAX_BYTES:
        found.append(causes.too_long("", _MAX_BYTES))
    return found


def _config_map_causes(config_map: Document) -> list[Cause]:
    found = _key_causes(config_map, ("data", "binaryData"))
    shared = set(config_map.get("data") or ()) & set(config_map.get("binaryData") or ())
    found += [
        causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in sorted(shared)
    ]
    return found


def _secret_causes(secret: Document) -> list[Cause]:
    found = _key_causes(secret, ("data",))
    data = secret.get("data") or {}
    found += [
        causes.required(f"data[{key}]")
        for key in _REQUIRED_KEYS.get(secret["type"], ())
        if key not in data
    ]
    return found


def _immutability_causes(new: Document, old: Document) -> list[Cause]:
    if old.get("immutable") is not True:
        return []
    found: list[Cause] = []
    detail = "field is immutable when `immutable` is set"
    if new.get("immutable") is not True:
        found.append(causes.forbidden("immutable", detail))
    found += [
        causes.forbidden(field, detail)
        for field in ("data", "binaryData")
        if new.get(field) != old.get(field)
    ]
    return found


def _secret_update_causes(new: Document, old: Document) -> list[Cause]:
    found = _immutability_causes(new, old)
    if new["type"] != old["type"]:
        found.append(causes.invalid("type", new["type"], "field is immutable"))
    return found


CONFIG_MAPS: Final = Behaviour(
    shape=ConfigMapShape,
    default=_default_config_map,
    validate=_config_map_causes,
    validate_update=_immutability_causes,
)
SECRETS: Final = Behaviour(
    shape=SecretShape,
    default=_default_secret,
    validate=_secret_causes,
    validate_update=_secret_update_causes,
)
