"""What the gateway is willing to apply at all. Pure: a refusal, or None.

The permission rows of the contracts decide who may ask for what. The rest makes sure that an
intent says one thing: names are names and not paths, the manifest is of the kind and name it
claims, has the owner it claims in the same namespace, and a patch touches only fields that its
sender owns, on the object that the intent names.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from stromboli.api import kinds
from stromboli.api.errors import UnknownKind
from stromboli.contracts.intents import (
    BINDS_PER_PART,
    CONTRACT,
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    GenerateSecret,
    Intent,
    PatchObject,
    PatchType,
)
from stromboli.contracts.outcomes import Reason
from stromboli.contracts.permissions import Row, row_for
from stromboli.gateway.json_patches import Operation, keys_of, unrepeatable
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

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
"""RFC 1123, which holds for every kind of ours. An empty one would mean all of them, or a name
that the API server makes up, and then a second delivery would make a second object."""

FieldPath = tuple[str, ...]
"""The keys on the way to a field; a key may contain dots."""

AboutAnObject = CreateObject | PatchObject | DeleteObject | EvictPod | GenerateSecret | BindGang


def _bad(message: str) -> Refusal:
    return Refusal(Reason.BAD_REQUEST, message)


def check(intent: AnyIntent, arrived_on: str) -> Refusal | None:
    """May this be applied, as far as its own words tell?"""
    if intent.subject() != arrived_on:
        said = intent.subject()
        return Refusal(Reason.NOT_ALLOWED, f"it came on {arrived_on} but says it belongs to {said}")
    if isinstance(intent, Fence):
        return _check_contract(intent)
    if not intent.key:
        return _bad("it has no key, and without one it has no order")
    subresource = intent.subresource if isinstance(intent, PatchObject) else ""
    row = row_for(intent.service, intent.verb, intent.kind, subresource)
    if row is None:
        what = f"{intent.verb} {intent.kind}{'/' + subresource if subresource else ''}"
        return Refusal(Reason.NOT_ALLOWED, f"{intent.service} may not {what}")
    return _check_place(intent) or _check_contents(intent, row)


def _check_contract(fence: Fence) -> Refusal | None:
    if fence.contract == CONTRACT:
        return None
    return Refusal(
        Reason.NOT_ALLOWED,
        f"{fence.service} speaks version {fence.contract} of the contract, and this gateway "
        f"version {CONTRACT}: both have to be of one release, the gateway first",
    )


def _check_place(intent: Intent) -> Refusal | None:
    try:
        kind = kinds.by_token(intent.kind)
    except UnknownKind as unknown:
        return _bad(str(unknown))
    if kind.namespaced != bool(intent.namespace):
        expected = "a namespace" if kind.namespaced else "no namespace"
        return _bad(f"{intent.kind} needs {expected}, got {intent.namespace!r}")
    for text in (intent.namespace, intent.name) if kind.namespaced else (intent.name,):
        if not _NAME.fullmatch(text):
            return _bad(f"{text!r} is not a name in Kubernetes")
    return None


def _check_contents(intent: AboutAnObject, row: Row) -> Refusal | None:
    match intent:
        case CreateObject():
            return _check_create(intent, row)
        case PatchObject():
            return _check_patch(intent, row)
        case BindGang():
            return _check_bind(intent)
        case GenerateSecret():
            said = (intent.recipe, intent.owner_kind, intent.owner_name, intent.owner_uid)
            return None if all(said) else _bad(f"it needs a recipe and an owner, has {said}")
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
    identity: dict[FieldPath, str] = {}
    try:
        body = msgspec.json.decode(intent.patch)
        if intent.patch_type is PatchType.JSON:
            changes = dict.fromkeys(_json_patch_paths(body))
        else:
            changes = dict(_leaves(body))
            identity = _identity(intent)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as problem:
        return _bad(f"its patch can't be read: {problem}")
    for path, value in changes.items():
        if path in identity:
            if value != identity[path]:
                said = f"its patch says that {_dotted(path)} is {value!r}"
                return _bad(f"{said}, the intent says {identity[path]!r}")
        elif not any(_within(path, owned) for owned in row.fields):
            owned = ", ".join(row.fields)
            return Refusal(
                Reason.NOT_ALLOWED,
                f"{intent.service} does not own {_dotted(path)} of {intent.kind} (it owns {owned})",
            )
    return None


def _identity(intent: PatchObject) -> dict[FieldPath, str]:
    """What a patch may repeat, because an applied object has to."""
    kind = kinds.by_token(intent.kind)
    return {
        ("apiVersion",): kind.api_version,
        ("kind",): kind.kind,
        ("metadata", "name"): intent.name,
        ("metadata", "namespace"): intent.namespace,
        ("metadata", "uid"): intent.uid,
    }


def _within(path: FieldPath, owned: str) -> bool:
    prefix = tuple(owned.split("."))
    return path[: len(prefix)] == prefix


def _dotted(path: FieldPath) -> str:
    return ".".join(path)


def _leaves(body: object, above: FieldPath = ()) -> Iterator[tuple[FieldPath, object]]:
    """Everything that a merge patch or an applied object sets, and to what."""
    if not isinstance(body, dict):
        raise ValueError("expected an object")  # noqa: TRY004 (one kind of error for the caller)
    for key, value in cast("dict[str, Any]", body).items():
        path = (*above, key)
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), path)
        else:
            yield path, value


def _json_patch_paths(body: object) -> Iterator[FieldPath]:
    operations = msgspec.convert(body, list[Operation])
    if problem := unrepeatable(operations):
        raise ValueError(problem)
    for operation in operations:
        if operation.op == "test":
            continue
        yield operation.keys
        if operation.from_ is not None:
            yield keys_of(operation.from_)


def _check_bind(intent: BindGang) -> Refusal | None:
    if not 0 <= intent.part < intent.parts:
        return _bad(f"part {intent.part} of {intent.parts} does not exist")
    if not 0 < len(intent.binds) <= BINDS_PER_PART:
        return _bad(f"a part holds 1 to {BINDS_PER_PART} binds, this one {len(intent.binds)}")
    for bind in intent.binds:
        if not (_NAME.fullmatch(bind.name) and bind.uid and _NAME.fullmatch(bind.node)):
            return _bad(f"every bind needs a pod's name, its uid and a node, not {bind}")
    uids, names = ({bind.uid for bind in intent.binds}, {bind.name for bind in intent.binds})
    if not len(uids) == len(names) == len(intent.binds):
        return _bad("a pod is bound twice in one part")
    return None
