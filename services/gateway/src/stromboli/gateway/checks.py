"""What the gateway is willing to apply at all. Pure: a refusal, or None.

The permission rows of the contracts decide who may ask for what. The rest makes sure that an
intent says one thing: the manifest is of the kind and name it claims, has the owner it claims
in the same namespace, and a patch touches only fields that its sender owns.
"""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from stromboli.api import kinds
from stromboli.api.errors import UnknownKind
from stromboli.contracts.intents import (
    BINDS_PER_PART,
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    PatchObject,
    PatchType,
)
from stromboli.contracts.outcomes import Reason
from stromboli.contracts.permissions import Row, row_for
from stromboli.gateway.refusals import Refusal


class _Owner(msgspec.Struct, rename="camel"):
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    owner_references: list[_Owner] | None = None


class _Manifest(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_manifests = msgspec.json.Decoder(_Manifest)


def _bad(message: str) -> Refusal:
    return Refusal(Reason.BAD_REQUEST, message)


def check(intent: AnyIntent, arrived_on: str) -> Refusal | None:
    """May this be applied, as far as its own words tell?"""
    if intent.subject() != arrived_on:
        said = intent.subject()
        return Refusal(Reason.NOT_ALLOWED, f"it came on {arrived_on} but says it belongs to {said}")
    if isinstance(intent, Fence):
        return None
    subresource = intent.subresource if isinstance(intent, PatchObject) else ""
    row = row_for(intent.service, intent.verb, intent.kind, subresource)
    if row is None:
        what = f"{intent.verb} {intent.kind}{'/' + subresource if subresource else ''}"
        return Refusal(Reason.NOT_ALLOWED, f"{intent.service} may not {what}")
    try:
        kind = kinds.by_token(intent.kind)
    except UnknownKind as unknown:
        return _bad(str(unknown))
    if kind.namespaced != bool(intent.namespace):
        expected = "a namespace" if kind.namespaced else "no namespace"
        return _bad(f"{intent.kind} needs {expected}, got {intent.namespace!r}")
    match intent:
        case CreateObject():
            return _check_create(intent, row)
        case PatchObject():
            return _check_patch(intent, row)
        case BindGang():
            return _check_bind(intent)
        case DeleteObject() | EvictPod():
            return None if intent.uid else _bad(f"{intent.verb} needs the uid of what is meant")


def _check_create(intent: CreateObject, row: Row) -> Refusal | None:
    try:
        manifest = _manifests.decode(intent.manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        return _bad(f"its manifest is not an object: {problem}")
    kind = kinds.by_token(intent.kind)
    meta = manifest.metadata
    said = (manifest.api_version, manifest.kind, meta.namespace, meta.name)
    meant = (kind.api_version, kind.kind, intent.namespace, intent.name)
    if said != meant:
        return _bad(f"its manifest is {said}, the intent says {meant}")
    if row.ownerless:
        return None
    owners = meta.owner_references or []
    controllers = [owner.uid for owner in owners if owner.controller]
    if not intent.owner_uid or controllers != [intent.owner_uid]:
        return _bad(
            f"{intent.kind} needs the controller owner {intent.owner_uid!r}, has {controllers}"
        )
    return None


def _check_patch(intent: PatchObject, row: Row) -> Refusal | None:
    if not intent.uid:
        return _bad("a patch needs the uid of what is meant")
    try:
        body = msgspec.json.decode(intent.patch)
        paths = list(
            _json_patch_paths(body) if intent.patch_type is PatchType.JSON else _leaves(body)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as problem:
        return _bad(f"its patch can't be read: {problem}")
    identity = {"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid"}
    for path in paths:
        if path not in identity and not any(_within(path, owned) for owned in row.fields):
            owned = ", ".join(row.fields)
            return Refusal(
                Reason.NOT_ALLOWED,
                f"{intent.service} does not own {path} of {intent.kind} (it owns {owned})",
            )
    return None


def _within(path: str, owned: str) -> bool:
    return path == owned or path.startswith(f"{owned}.")


def _leaves(body: object, prefix: str = "") -> Iterator[str]:
    """Dotted paths of everything a merge patch or an applied object sets."""
    if not isinstance(body, dict):
        raise ValueError("expected an object")  # noqa: TRY004 (one kind of error for the caller)
    for key, value in cast("dict[str, Any]", body).items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), f"{path}.")
        else:
            yield path


class _Operation(msgspec.Struct):
    op: str
    path: str
    from_: str | None = msgspec.field(default=None, name="from")


def _json_patch_paths(body: object) -> Iterator[str]:
    for operation in msgspec.convert(body, list[_Operation]):
        if operation.op == "test":
            continue
        for pointer in (operation.path, operation.from_):
            if pointer is not None:
                if not pointer.startswith("/"):
                    raise ValueError(f"{pointer!r} is not a JSON pointer")
                yield ".".join(
                    part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")
                )


def _check_bind(intent: BindGang) -> Refusal | None:
    if not 0 <= intent.part < intent.parts:
        return _bad(f"part {intent.part} of {intent.parts} does not exist")
    if not 0 < len(intent.binds) <= BINDS_PER_PART:
        return _bad(f"a part holds 1 to {BINDS_PER_PART} binds, this one {len(intent.binds)}")
    if any(not (bind.name and bind.uid and bind.node) for bind in intent.binds):
        return _bad("every bind needs a pod's name, its uid and a node")
    if len({bind.uid for bind in intent.binds}) != len(intent.binds):
        return _bad("a pod is bound twice in one part")
    return None
