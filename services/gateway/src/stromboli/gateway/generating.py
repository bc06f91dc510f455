"""Make Secrets here, so that nothing secret ever travels on the bus.

An intent names a recipe; this module makes the contents and the manifest. What the owner
itself gives as an argument (a key pair for a job's ssh plugin) is taken from the live object,
since the facts on the bus have it redacted. Nothing here is logged.
"""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from stromboli.api import kinds
from stromboli.api.errors import UnknownKind
from stromboli.contracts.intents import GenerateSecret
from stromboli.contracts.outcomes import Reason
from stromboli.gateway.refusals import Refusal

__all__ = ["not_generated", "secret_manifest"]

SSH_KEY_PAIR: Final = "ssh-key-pair"
_RECIPES: Final = (SSH_KEY_PAIR,)

_RSA_BITS: Final = 2048
_RSA_EXPONENT: Final = 65537
_OPENSSH: Final = b"BEGIN OPENSSH PRIVATE KEY"


class _Spec(msgspec.Struct):
    plugins: dict[str, list[str] | None] | None = None


class _Meta(msgspec.Struct):
    uid: str = ""


class _Owner(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_owners = msgspec.json.Decoder(_Owner)


def not_generated(intent: GenerateSecret) -> Refusal | None:
    """Why this can't be made, whoever asks for it."""
    if intent.recipe not in _RECIPES:
        known = ", ".join(_RECIPES)
        return Refusal(
            Reason.BAD_REQUEST, f"nobody knows the recipe {intent.recipe!r}, only {known}"
        )
    try:
        kinds.by_token(intent.owner_kind)
    except UnknownKind as unknown:
        return Refusal(Reason.BAD_REQUEST, str(unknown))
    return None


async def secret_manifest(intent: GenerateSecret, owner: bytes | msgspec.Raw) -> bytes | Refusal:
    """The Secret that the intent wants, as JSON; `owner` is the live owner."""
    found = _owners.decode(owner)
    if found.metadata.uid != intent.owner_uid:
        return Refusal(
            Reason.STALE,
            f"{intent.owner_kind} {intent.namespace}/{intent.owner_name} is not "
            f"{intent.owner_uid} any more",
        )
    arguments = (found.spec.plugins or {}).get("ssh") or []
    given = _given_pair(arguments)
    unusable = None if given is None else await asyncio.to_thread(_unusable, *given)
    if unusable is not None:
        return Refusal(
            Reason.INVALID,
            f"the key pair in spec.plugins.ssh of {intent.owner_name} can't be used: {unusable}",
        )
    # Making a key takes tens of milliseconds; nothing else may wait for it.
    private, public = given or await asyncio.to_thread(_new_pair)
    files = {
        "id_rsa": private,
        "id_rsa.pub": public,
        "authorized_keys": public,
        "config": intent.parameters.get("config", "").encode(),
    }
    kind = kinds.by_token(intent.owner_kind)
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": intent.name,
            "namespace": intent.namespace,
            "ownerReferences": [
                {
                    "apiVersion": kind.api_version,
                    "kind": kind.kind,
                    "name": intent.owner_name,
                    "uid": intent.owner_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
    }
    return msgspec.json.encode(manifest)


def _new_pair() -> tuple[bytes, bytes]:
    key = rsa.generate_private_key(public_exponent=_RSA_EXPONENT, key_size=_RSA_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return private, public + b"\n"


def _given_pair(arguments: Sequence[str]) -> tuple[bytes, bytes] | None:
    """The pair among a job's ssh arguments; both halves, or it does not count."""
    private = _value_of("ssh-private-key", arguments)
    public = _value_of("ssh-public-key", arguments)
    return (private.encode(), public.encode()) if private and public else None


def _unusable(private: bytes, public: bytes) -> str | None:
    """Why nobody could log in with this pair, in words that repeat nothing of it."""
    load = load_ssh_private_key if _OPENSSH in private else load_pem_private_key
    try:
        load(private, password=None)
    except TypeError:
        return "the private key is encrypted, and no pod can type a passphrase; give it without one"
    except ValueError:
        return (
            "the private key can't be read; expected the text of a file such as id_rsa, from"
            " -----BEGIN to -----END, with its line breaks"
        )
    except UnsupportedAlgorithm:
        pass  # we don't know it, but the ssh in the pods may
    try:
        load_ssh_public_key(public.strip())
    except ValueError:
        return (
            "the public key can't be read; expected the one line of a file such as id_rsa.pub:"
            " ssh-rsa AAAA…"
        )
    except UnsupportedAlgorithm:
        pass
    return None


def _value_of(flag: str, arguments: Sequence[str]) -> str:
    for position, argument in enumerate(arguments):
        name, has_value, value = argument.lstrip("-").partition("=")
        if name == flag and argument.startswith("-"):
            return value if has_value else "".join(arguments[position + 1 : position + 2])
    return ""
