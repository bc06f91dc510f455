"""Carries out intents on the objects of a simulated cluster, at once.

It does what the real gateway and the API server do as far as a core can tell: uids are
compared, what exists already counts as made, a pod that runs is told to stop before it is gone.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.api.core import Pod, Secret
from stromboli.api.errors import ApiError
from stromboli.api.merge_patches import merged
from stromboli.api.meta import KubeObject, ObjectMeta, OwnerReference
from stromboli.api.wire import decode_object
from stromboli.contracts.intents import (
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    GenerateSecret,
    PatchObject,
    PatchType,
    PodBinding,
)
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    GangBound,
    PodBound,
    Reason,
    Refused,
    refused,
)
from stromboli.simulating.errors import RefusedObject
from stromboli.simulating.store import Place, Store

__all__ = ["Gateway"]

_RULE = "the rule of the simulation refuses it"


class Gateway:
    """Keeps account of what was bound, evicted and told."""

    def __init__(
        self, store: Store, *, admit: Callable[[KubeObject], KubeObject] = lambda item: item
    ) -> None:
        """`admit` completes an object that is to be made, or raises RefusedObject."""
        self.may_bind: Callable[[PodBinding], bool] = lambda _: True
        self.may_evict: Callable[[EvictPod], bool] = lambda _: True
        self.evicted_are_gone = False
        """Whether an evicted pod does not even take the time to end."""
        self.binds: dict[tuple[str, str], str] = {}
        self.evictions: list[tuple[str, str]] = []
        self.events: list[dict[str, Any]] = []
        """Kubernetes events that were told."""
        self._store = store
        self._admit = admit

    def carry_out(self, intent: AnyIntent) -> AnyOutcome | None:
        match intent:
            case BindGang():
                return self._bind(intent)
            case PatchObject():
                return self._patch(intent)
            case EvictPod():
                return self._evict(intent)
            case DeleteObject():
                return self._delete(intent)
            case CreateObject(kind="event"):
                self.events.append(msgspec.json.decode(intent.manifest))
                return self._applied(intent, "")
            case CreateObject():
                return self._create(intent, lambda: _made(intent))
            case GenerateSecret():
                return self._create(intent, lambda: _secret(intent))
            case Fence():
                return None  # there is no predecessor

    def _bind(self, intent: BindGang) -> GangBound:
        pods: list[PodBound] = []
        for bind in intent.binds:
            trouble = self._trouble_with(intent.namespace, bind)
            if not trouble:
                pod: Pod = self._store.objects["pod", intent.namespace, bind.name]
                self._store.put(replace(pod, spec=replace(pod.spec, node_name=bind.node)))
                self.binds[intent.namespace, bind.name] = bind.node
            pods.append(
                PodBound(
                    name=bind.name,
                    uid=bind.uid,
                    node=bind.node,
                    bound=not trouble,
                    reason=Reason.STALE if trouble else None,
                    message=trouble,
                )
            )
        return GangBound(
            **self._about(intent),
            namespace=intent.namespace,
            name=intent.name,
            attempt=intent.attempt,
            part=intent.part,
            parts=intent.parts,
            pods=tuple(pods),
        )

    def _trouble_with(self, namespace: str, bind: PodBinding) -> str:
        pod = self._store.objects.get(("pod", namespace, bind.name))
        if pod is None or pod.metadata.uid != bind.uid:
            return "the pod is another one by now, or gone"
        if pod.spec.node_name:
            return f"the pod is on node {pod.spec.node_name} already"
        return "" if self.may_bind(bind) else _RULE

    def _evict(self, intent: EvictPod) -> Applied | Refused:
        place = ("pod", intent.namespace, intent.name)
        if not self._is_meant(place, intent.uid):
            return self._applied(intent, intent.uid, already=True)
        if not self.may_evict(intent):
            return self._refused(intent, Reason.STALE, _RULE)
        self.evictions.append((intent.namespace, intent.name))
        if self.evicted_are_gone:
            self._store.delete(place)
        else:
            self._store.end(place)
        return self._applied(intent, intent.uid)

    def _delete(self, intent: DeleteObject) -> Applied:
        place = (intent.kind, intent.namespace, intent.name)
        is_there = self._is_meant(place, intent.uid)
        if is_there:
            self._store.end(place)
        return self._applied(intent, intent.uid, already=not is_there)

    def _patch(self, intent: PatchObject) -> Applied | Refused:
        place = (intent.kind, intent.namespace, intent.name)
        if not self._is_meant(place, intent.uid):
            return self._refused(intent, Reason.STALE, "it is another one by now, or gone")
        item, patch = self._store.objects[place], msgspec.json.decode(intent.patch)
        if intent.patch_type is PatchType.APPLY:
            patch = _applied_to(item, patch)
        self._store.put(_patched(item, patch))
        return self._applied(intent, intent.uid)

    def _create(
        self, intent: CreateObject | GenerateSecret, make: Callable[[], KubeObject]
    ) -> Applied | Refused:
        found = self._store.objects.get((intent.kind, intent.namespace, intent.name))
        if found is not None:
            owners = [owner.uid for owner in found.metadata.owner_references]
            if intent.owner_uid and intent.owner_uid not in owners:
                return self._refused(intent, Reason.STALE, f"it belongs to {owners}")
            return self._applied(intent, found.metadata.uid, already=True)
        try:
            made = self._store.put(self._admit(make()))
        except (RefusedObject, ApiError) as no:
            return self._refused(intent, Reason.FORBIDDEN, str(no))
        return self._applied(intent, made.metadata.uid)

    def _is_meant(self, place: Place, uid: str) -> bool:
        found = self._store.objects.get(place)
        return found is not None and found.metadata.uid == uid

    # Answers.

    def _about(self, intent: AnyIntent) -> dict[str, Any]:
        return {
            "intent_id": intent.id,
            "service": intent.service,
            "verb": intent.verb,
            "kind": intent.kind,
            "key": intent.key,
            "at": self._store.now,
        }

    def _applied(
        self,
        intent: CreateObject | GenerateSecret | PatchObject | DeleteObject | EvictPod,
        uid: str,
        *,
        already: bool = False,
    ) -> Applied:
        return Applied(
            **self._about(intent),
            namespace=intent.namespace,
            name=intent.name,
            uid=uid,
            resource_version=self._store.version_of((intent.kind, intent.namespace, intent.name)),
            already=already,
        )

    def _refused(self, intent: AnyIntent, reason: Reason, message: str) -> Refused:
        return refused(intent, reason, message, at=self._store.now)


def _made(intent: CreateObject) -> KubeObject:
    return decode_object(kinds.by_token(intent.kind), intent.manifest)


def _secret(intent: GenerateSecret) -> KubeObject:
    owner = kinds.by_token(intent.owner_kind)
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=intent.owner_name,
        uid=intent.owner_uid,
        controller=True,
    )
    metadata = ObjectMeta(
        name=intent.name, namespace=intent.namespace, owner_references=(reference,)
    )
    return Secret(metadata=metadata)


def _applied_to(item: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that does what applying does: conditions are replaced by their type."""
    status: Any = wanted.get("status")
    if not isinstance(status, dict) or "conditions" not in status:
        return wanted
    standing = msgspec.to_builtins(item.status.conditions)
    conditions = {one["type"]: one for one in (*standing, *status["conditions"])}
    return {**wanted, "status": {**status, "conditions": list(conditions.values())}}


def _patched(item: Any, patch: dict[str, Any]) -> Any:
    """Part by part, so that what is not patched stays the very same."""
    changed: dict[str, Any] = {}
    for key, value in patch.items():
        if hasattr(item, key):
            part = getattr(item, key)
            changed[key] = msgspec.convert(merged(msgspec.to_builtins(part), value), type(part))
    return replace(item, **changed)
