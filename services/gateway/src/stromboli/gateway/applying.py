"""Apply one intent about one object: idempotent, on the object that was meant and no other.

Each verb has its own idea of "done already", because an intent may be applied a second time
when the gateway was killed between applying it and saying so.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from stromboli.api import kinds
from stromboli.api.kinds import Kind
from stromboli.contracts.intents import (
    CreateObject,
    DeleteObject,
    EvictPod,
    GenerateSecret,
    PatchObject,
    PatchType,
)
from stromboli.contracts.outcomes import Reason
from stromboli.gateway.attempts import Expired, until_final, verdict_of
from stromboli.gateway.deadlines import Permit
from stromboli.gateway.generating import not_generated, secret_manifest
from stromboli.gateway.json_patches import Operation, holds
from stromboli.gateway.published import Key
from stromboli.gateway.refusals import Refusal, Unclear
from stromboli.gateway.restoring import needs_restoring, restored, sources_of
from stromboli.kube import wire
from stromboli.kube.client import KubeClient
from stromboli.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
)
from stromboli.runtime.clock import Clock

_PATCH_TYPES = {
    PatchType.JSON: wire.PatchType.JSON,
    PatchType.MERGE: wire.PatchType.MERGE,
    PatchType.APPLY: wire.PatchType.APPLY,
}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Kubernetes is as wanted. An empty resourceVersion means that the object is gone."""

    uid: str
    resource_version: str
    already: bool = False


class _Controller(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    owner_references: list[_Controller] | None = None


class _Existing(msgspec.Struct):
    metadata: _Meta


Result = Done | Refusal | Unclear
"""How an intent ended."""

_LOOK_S = 3.0
"""So long we ask what became of a request that nobody answered."""

_existing = msgspec.json.Decoder(_Existing)

SingleIntent = CreateObject | PatchObject | DeleteObject | EvictPod | GenerateSecret


@dataclass(slots=True)
class Applier:
    """Intents into calls."""

    kube: KubeClient
    rng: random.Random
    clock: Clock
    version_of: Callable[[str, Key, str], str]
    """The version that our own watch has shown of the object of this kind, key and uid."""

    async def apply(self, intent: SingleIntent, permit: Permit) -> Result:
        kind = kinds.by_token(intent.kind)
        try:
            return await self._try(kind, intent, permit)
        except Expired as late:
            if not late.maybe_applied:
                return Refusal(Reason.EXPIRED, str(late))
            return await self._what_became(kind, intent, permit) or Unclear(str(late))

    async def _what_became(
        self, kind: Kind[Any], intent: SingleIntent, permit: Permit
    ) -> Done | None:
        """One more look: is it done? If not, it may yet be, and nobody can tell."""
        until = self.clock.monotonic() + _LOOK_S
        try:
            raw = await self._fetch_raw(
                kind, intent.namespace, intent.name, replace(permit, until=until)
            )
        except (Expired, KubeError):
            return None
        found = None if raw is None else _existing.decode(raw).metadata
        match intent:
            case CreateObject() | GenerateSecret():
                is_done = found is not None and _is_owned(found, intent)
            case PatchObject():
                is_ours = found is not None and found.uid == intent.uid
                is_done = is_ours and raw is not None and _is_done(intent, raw)
            case DeleteObject() | EvictPod():
                is_gone = found is None or found.uid != intent.uid
                is_done = is_gone or found is None or found.deletion_timestamp is not None
                if is_gone:
                    return Done(uid=intent.uid, resource_version="", already=True)
        if not is_done or found is None:
            return None
        return Done(uid=found.uid, resource_version=found.resource_version, already=True)

    async def _try(self, kind: Kind[Any], intent: SingleIntent, permit: Permit) -> Result:
        match intent:
            case CreateObject() if needs_restoring(intent):
                return await self._create_restored(kind, intent, permit)
            case CreateObject():
                return await self._create(kind, intent, intent.manifest, permit)
            case GenerateSecret():
                return await self._generate(kind, intent, permit)
            case PatchObject():
                return await self._patch(kind, intent, permit)
            case DeleteObject():
                return await self._delete(kind, intent, permit)
            case EvictPod():
                return await self._evict(kind, intent, permit)

    async def _generate(self, kind: Kind[Any], intent: GenerateSecret, permit: Permit) -> Result:
        refusal = not_generated(intent)
        if refusal is not None:
            return refusal
        if await self._fetch(kind, intent.namespace, intent.name, permit) is not None:
            return await self._exists_already(kind, intent, permit)
        owner = await until_final(
            lambda limit_s: self.kube.get_or_none(
                kinds.by_token(intent.owner_kind),
                intent.namespace,
                intent.owner_name,
                timeout_s=limit_s,
            ),
            permit,
            self.rng,
        )
        if owner is None:
            what = f"{intent.owner_kind} {intent.namespace}/{intent.owner_name}"
            return Refusal(Reason.NOT_FOUND, f"its owner {what} does not exist")
        manifest = await secret_manifest(intent, owner)
        if isinstance(manifest, Refusal):
            return manifest
        return await self._create(kind, intent, manifest, permit)

    async def _create_restored(
        self, kind: Kind[Any], intent: CreateObject, permit: Permit
    ) -> Result:
        """Create a job with the secrets of the template that it is made from."""
        sources: list[bytes | msgspec.Raw] = []
        for source, name, uid in sources_of(intent):
            found = await until_final(
                lambda limit_s, source=source, name=name: self.kube.get_or_none(
                    source, intent.namespace, name, timeout_s=limit_s
                ),
                permit,
                self.rng,
            )
            if found is not None and uid in {"", _existing.decode(found).metadata.uid}:
                sources.append(found)
        manifest = restored(intent, sources)
        if isinstance(manifest, Refusal):
            return manifest
        return await self._create(kind, intent, manifest, permit)

    async def _create(
        self,
        kind: Kind[Any],
        intent: CreateObject | GenerateSecret,
        manifest: bytes,
        permit: Permit,
    ) -> Result:
        try:
            written = await until_final(
                lambda limit_s: self.kube.create(
                    kind,
                    intent.namespace or None,
                    manifest,
                    field_manager=_manager(intent.service),
                    timeout_s=limit_s,
                ),
                permit,
                self.rng,
            )
        except AlreadyExists:
            return await self._exists_already(kind, intent, permit)
        except ApiError as error:
            return verdict_of(error)
        return Done(uid=written.uid, resource_version=written.resource_version)

    async def _exists_already(
        self, kind: Kind[Any], intent: CreateObject | GenerateSecret, permit: Permit
    ) -> Result:
        """One of this name is there: ours from an earlier attempt, or somebody else's?"""
        found = await self._fetch(kind, intent.namespace, intent.name, permit)
        if found is None:
            return Refusal(Reason.STALE, f"{intent.kind} {intent.name} existed and is gone again")
        if not _is_owned(found, intent):
            owners = _controllers_of(found)
            return Refusal(
                Reason.STALE,
                f"{intent.kind} {intent.namespace}/{intent.name} exists and belongs to "
                f"{owners or 'nobody'}, not to {intent.owner_uid}",
            )
        return Done(uid=found.uid, resource_version=found.resource_version, already=True)

    async def _patch(self, kind: Kind[Any], intent: PatchObject, permit: Permit) -> Result:
        version = ""
        if _ignores_uid(kind, intent):
            version = self.version_of(kind.token, (intent.namespace, intent.name), intent.uid)
            if not version:
                found = await self._fetch(kind, intent.namespace, intent.name, permit)
                if found is None or found.uid != intent.uid:
                    return _is_another(intent)
                version = found.resource_version
        while True:
            body = with_uid(intent, version)
            try:
                written = await until_final(
                    lambda limit_s, body=body: self.kube.patch(
                        kind,
                        intent.namespace or None,
                        intent.name,
                        body,
                        patch_type=_PATCH_TYPES[intent.patch_type],
                        subresource=intent.subresource,
                        field_manager=_manager(intent.service),
                        force=intent.patch_type is PatchType.APPLY,
                        timeout_s=limit_s,
                    ),
                    permit,
                    self.rng,
                )
            except (Conflict, Invalid) as error:
                # A wrong uid is a Conflict or an Invalid, depending on the kind of patch.
                raw = await self._fetch_raw(kind, intent.namespace, intent.name, permit)
                found = None if raw is None else _existing.decode(raw).metadata
                if raw is None or found is None or found.uid != intent.uid:
                    return _is_another(intent)
                if version and isinstance(error, Conflict):
                    # Somebody else wrote between our look and our patch.
                    version = found.resource_version
                    continue
                if _is_done(intent, raw):
                    return Done(
                        uid=found.uid, resource_version=found.resource_version, already=True
                    )
                return verdict_of(error)
            except ApiError as error:
                return verdict_of(error)
            return Done(uid=written.uid, resource_version=written.resource_version)

    async def _delete(self, kind: Kind[Any], intent: DeleteObject, permit: Permit) -> Result:
        try:
            deleted = await until_final(
                lambda limit_s: self.kube.delete(
                    kind,
                    intent.namespace or None,
                    intent.name,
                    uid=intent.uid,
                    grace_period_s=intent.grace_period_s,
                    propagation=intent.propagation,
                    timeout_s=limit_s,
                ),
                permit,
                self.rng,
            )
        except NotFound:
            return Done(uid=intent.uid, resource_version="", already=True)
        except Conflict as conflict:
            return await self._gone_before(kind, intent, conflict, permit)
        except ApiError as error:
            return verdict_of(error)
        version = "" if deleted.is_gone else deleted.resource_version
        return Done(uid=intent.uid, resource_version=version)

    async def _evict(self, kind: Kind[Any], intent: EvictPod, permit: Permit) -> Result:
        try:
            await until_final(
                lambda limit_s: self.kube.evict(
                    intent.namespace,
                    intent.name,
                    uid=intent.uid,
                    grace_period_s=intent.grace_period_s,
                    timeout_s=limit_s,
                ),
                permit,
                self.rng,
            )
        except NotFound:
            return Done(uid=intent.uid, resource_version="", already=True)
        except Conflict as conflict:
            return await self._gone_before(kind, intent, conflict, permit)
        except ApiError as error:
            return verdict_of(error)
        return Done(uid=intent.uid, resource_version="")

    async def _gone_before(
        self, kind: Kind[Any], intent: DeleteObject | EvictPod, conflict: Conflict, permit: Permit
    ) -> Result:
        """Another uid under this name means that the one we meant is gone."""
        found = await self._fetch(kind, intent.namespace, intent.name, permit)
        if found is not None and found.uid == intent.uid:
            return verdict_of(conflict)
        return Done(uid=intent.uid, resource_version="", already=True)

    async def _fetch(
        self, kind: Kind[Any], namespace: str, name: str, permit: Permit
    ) -> _Meta | None:
        raw = await self._fetch_raw(kind, namespace, name, permit)
        return None if raw is None else _existing.decode(raw).metadata

    async def _fetch_raw(
        self, kind: Kind[Any], namespace: str, name: str, permit: Permit
    ) -> bytes | None:
        return await until_final(
            lambda limit_s: self.kube.get_or_none(kind, namespace or None, name, timeout_s=limit_s),
            permit,
            self.rng,
        )


def _controllers_of(found: _Meta) -> list[str]:
    return [owner.uid for owner in found.owner_references or [] if owner.controller]


def _is_owned(found: _Meta, intent: CreateObject | GenerateSecret) -> bool:
    """Has it the owner that the intent names, if it names one?"""
    return not intent.owner_uid or _controllers_of(found) == [intent.owner_uid]


def _ignores_uid(kind: Kind[Any], intent: PatchObject) -> bool:
    """The API server drops a uid from a status patch of a custom resource and applies it.

    Such a patch is tied to its object by a resourceVersion that this object once had: the
    server refuses it on any other, and no other object ever has the same one.
    """
    is_custom = kind.group.endswith(".volcano.sh")
    return is_custom and bool(intent.subresource) and intent.patch_type is not PatchType.JSON


def _is_done(intent: PatchObject, raw: bytes) -> bool:
    """Was this the second delivery of a patch that is refused because it was applied?"""
    if intent.patch_type is not PatchType.JSON:
        return False
    operations = msgspec.json.decode(intent.patch, type=list[Operation])
    return holds(operations, msgspec.json.decode(raw))


def _is_another(intent: PatchObject) -> Refusal:
    return Refusal(
        Reason.STALE,
        f"{intent.kind} {intent.namespace}/{intent.name} is not {intent.uid} any more",
    )


def with_uid(intent: PatchObject, resource_version: str = "") -> bytes:
    """The patch, made to fail on any object but the one that was meant."""
    body: Any = msgspec.json.decode(intent.patch)
    if intent.patch_type is PatchType.JSON:
        test = {"op": "test", "path": "/metadata/uid", "value": intent.uid}
        return msgspec.json.encode([test, *cast("list[Any]", body)])
    patch = cast("dict[str, Any]", body)
    metadata = cast("dict[str, Any]", patch.get("metadata") or {})
    patch["metadata"] = {**metadata, "uid": intent.uid}
    if resource_version:
        patch["metadata"]["resourceVersion"] = resource_version
    return msgspec.json.encode(patch)


def _manager(service: str) -> str:
    return f"stromboli-{service}"
