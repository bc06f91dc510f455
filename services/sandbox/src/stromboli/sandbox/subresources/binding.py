"""Binding: a pod gets its node, once.

The one write a scheduler lives on, so it takes the short way: the stored pod is decoded,
changed and committed in one step, without defaults or validation, which cannot fail for a pod
that is already stored. Webhooks are asked about the Binding, not about the pod.
"""

from typing import Any, Final

import msgspec

from stromboli.sandbox import commits, statuses
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.documents import Document, decode, encode
from stromboli.sandbox.errors import ApiRefusal
from stromboli.sandbox.requests import Answer, ApiRequest
from stromboli.sandbox.store import Store
from stromboli.sandbox.webhooks.reviewing import Admission, Kind, Review
from stromboli.sandbox.writing import uid_mismatch

__all__ = ["bind", "reviewed"]

CREATED: Final = msgspec.json.encode(statuses.success(201))


class TargetShape(msgspec.Struct):
    kind: str = ""
    name: str = ""


class MetadataShape(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class BindingShape(msgspec.Struct):
    metadata: MetadataShape = msgspec.field(default_factory=MetadataShape)
    target: TargetShape = msgspec.field(default_factory=TargetShape)


_DECODER: Final = msgspec.json.Decoder(BindingShape)


KIND: Final = Kind("", "v1", "Binding")


async def bind(request: ApiRequest, store: Store, clock: Clock, admission: Admission) -> Answer:
    review = admission.of(request, "CREATE", kind=KIND)
    if review is not None:
        _read(request)
        request = await reviewed(request, review, KIND)
    return _bound(request, store, clock)


async def reviewed(request: ApiRequest, review: Review, kind: Kind) -> ApiRequest:
    """The request with the body that webhooks made of it, if they let it pass."""
    given: Document = decode(request.body)
    meta = {**(given.get("metadata") or {}), "namespace": request.namespace}
    document: Document = {**given, "metadata": meta}
    document |= {"kind": kind.kind, "apiVersion": kind.api_version}
    changed = await review.changed(document, None) or document
    await review.approve(changed, None)
    return msgspec.structs.replace(request, body=encode(changed))


def _bound(request: ApiRequest, store: Store, clock: Clock) -> Answer:
    binding = _read(request)
    node = binding.target.name
    given = binding.metadata
    resource = request.served.resource
    stored = store.get(resource.key, request.namespace, request.name)
    if stored is None:
        raise statuses.not_found("", "pods", request.name)
    if given.uid and given.uid != stored.uid:
        raise uid_mismatch(resource, stored, given.uid)
    if given.resource_version and given.resource_version != str(stored.revision):
        raise statuses.modified("", "pods", request.name)
    pod: Document = decode(stored.body)
    meta, spec = pod["metadata"], pod["spec"]
    if "deletionTimestamp" in meta:
        raise _refused(
            request, f"pod {request.name} is being deleted, cannot be assigned to a host"
        )
    if spec.get("nodeName"):
        why = f'pod {request.name} is already assigned to node "{spec["nodeName"]}"'
        raise _refused(request, why)
    if spec.get("schedulingGates"):
        raise _refused(request, f"pod {request.name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    for field, extra in (("annotations", given.annotations), ("labels", given.labels)):
        if extra:
            meta[field] = {**meta.get(field, {}), **extra}
    set_condition(pod, {"type": "PodScheduled", "status": "True"}, clock.timestamp())
    answer = Answer(201, CREATED, request.name, stored.uid, str(stored.revision), node)
    if request.params.dry_run:
        return answer
    bound = commits.put(store, resource, pod)
    return msgspec.structs.replace(answer, revision=str(bound.revision))


def _read(request: ApiRequest) -> BindingShape:
    try:
        binding = _DECODER.decode(request.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise statuses.bad_request(
            f'Binding in version "v1" cannot be handled as a Binding: {error}'
        ) from error
    if binding.metadata.name != request.name:
        raise statuses.bad_request("name in URL does not match name in Binding object")
    if binding.metadata.namespace not in {"", request.namespace}:
        raise statuses.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if binding.target.kind not in {"", "Node"}:
        raise statuses.bad_request(
            f'target.kind: Unsupported value: "{binding.target.kind}": supported values: "Node",'
            ' "<empty>"'
        )
    if not binding.target.name:
        raise statuses.bad_request("target.name: Required value")
    return binding


def _refused(request: ApiRequest, why: str) -> ApiRefusal:
    return statuses.conflict("", "pods/binding", request.name, why)


def set_condition(pod: Document, condition: dict[str, Any], timestamp: str) -> None:
    """Add or replace the condition of this type."""
    status = pod.setdefault("status", {})
    before = status.get("conditions") or []
    kept = [one for one in before if one.get("type") != condition["type"]]
    status["conditions"] = [
        *kept,
        {**condition, "lastProbeTime": None, "lastTransitionTime": timestamp},
    ]
