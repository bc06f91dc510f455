"""Scale: the number of replicas of a workload, seen and changed without knowing its kind."""

from typing import Final

import msgspec

from stromboli.sandbox import incoming, statuses
from stromboli.sandbox.documents import Document
from stromboli.sandbox.patches import PATCHES, STRATEGIC, PatchFailed, PatchUnreadable, merge_patch
from stromboli.sandbox.printing.workloads import selected
from stromboli.sandbox.requests import Answer, ApiRequest, answered
from stromboli.sandbox.store import Store
from stromboli.sandbox.webhooks.reviewing import Admission, Kind
from stromboli.sandbox.writing import Raced, Writer, unraced

__all__ = ["scale"]


class ScaleSpecShape(msgspec.Struct):
    replicas: int = 0


class ScaleShape(msgspec.Struct):
    spec: ScaleSpecShape = msgspec.field(default_factory=ScaleSpecShape)


_KIND: Final = Kind("autoscaling", "v1", "Scale")


async def scale(request: ApiRequest, store: Store, writer: Writer, admission: Admission) -> Answer:
    """Get, update or patch the Scale of a workload; webhooks are asked about the Scale."""
    return await unraced(lambda: _scaled(request, store, writer, admission))


async def _scaled(
    request: ApiRequest, store: Store, writer: Writer, admission: Admission
) -> Answer:
    served = request.served
    resource = served.resource
    stored = store.get(resource.key, request.namespace, request.name)
    if stored is None:
        raise statuses.not_found(resource.group, resource.plural, request.name)
    workload = incoming.shown_version(stored.body, served)
    shown = _scale_of(workload)
    if request.verb == "get":
        return answered(200, shown)
    wanted = _wanted(request, shown)
    review = admission.of(request, "UPDATE", kind=_KIND)
    if review is not None:
        before = _scale_of(workload)
        wanted = await review.changed(wanted, before) or wanted
        await review.approve(wanted, before)
        if store.get(resource.key, request.namespace, request.name) is not stored:
            raise Raced
    revision = (wanted.get("metadata") or {}).get("resourceVersion", "")
    if revision not in {"", str(stored.revision)}:
        raise statuses.modified(resource.group, resource.plural, request.name)
    try:
        replicas = msgspec.convert(wanted, ScaleShape).spec.replicas
    except msgspec.ValidationError as error:
        told = f'Scale in version "v1" cannot be handled as a Scale: {error}'
        raise statuses.bad_request(told) from error
    if replicas < 0:
        raise statuses.bad_request("spec.replicas: must be greater than or equal to 0")
    workload["spec"]["replicas"] = replicas
    whole = msgspec.structs.replace(request, subresource="")
    changed = await writer.replace(whole, stored, workload, reviewed=True)
    return answered(200, _scale_of(msgspec.json.decode(changed.body)))


def _wanted(request: ApiRequest, shown: Document) -> Document:
    change = merge_patch
    if request.verb == "patch":
        known = {**PATCHES, STRATEGIC: merge_patch}
        if request.content_type not in known:
            raise statuses.unsupported_media_type(tuple(known))
        change = known[request.content_type]
    try:
        return change(request.body, shown)
    except PatchUnreadable as error:
        raise statuses.bad_request(str(error)) from error
    except PatchFailed as error:
        raise statuses.patch_failed() from error


def _scale_of(workload: Document) -> Document:
    meta, spec = workload["metadata"], workload.get("spec") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Document = {"replicas": (workload.get("status") or {}).get("replicas", 0)}
    selector = spec.get("selector")
    if selector:
        labels = selector if "matchLabels" in selector else {"matchLabels": selector}
        status["selector"] = selected(labels)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": status,
    }
