"""Eviction: a delete that says it is a disruption.

The pod is marked with the DisruptionTarget condition and then deleted like any other. Disruption
budgets are stored but not counted, so no eviction is refused with 429; the place to do it is
after the preconditions, before the condition is set. Webhooks are asked about the Eviction, not
about the deletion it leads to.
"""

from typing import Final

import msgspec

from stromboli.sandbox import commits, statuses
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.deleting import Deleter
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.options import DeleteOptions
from stromboli.sandbox.requests import Answer, ApiRequest
from stromboli.sandbox.store import Store
from stromboli.sandbox.subresources.binding import (
    CREATED,
    MetadataShape,
    reviewed,
    set_condition,
)
from stromboli.sandbox.webhooks.reviewing import Admission, Kind

__all__ = ["evict"]

_CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


class EvictionShape(msgspec.Struct, rename="camel"):
    metadata: MetadataShape = msgspec.field(default_factory=MetadataShape)
    delete_options: DeleteOptions | None = None


KIND: Final = Kind("policy", "v1", "Eviction")


async def evict(
    request: ApiRequest, store: Store, clock: Clock, deleter: Deleter, admission: Admission
) -> Answer:
    review = admission.of(request, "CREATE", kind=KIND)
    if review is not None:
        _read(request)
        request = await reviewed(request, review, KIND)
    return _evicted(request, store, clock, deleter)


def _read(request: ApiRequest) -> EvictionShape:
    try:
        eviction = msgspec.json.decode(request.body, type=EvictionShape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise statuses.bad_request(
            f'Eviction in version "v1" cannot be handled as a Eviction: {error}'
        ) from error
    if eviction.metadata.name != request.name:
        raise statuses.bad_request("name in URL does not match name in Eviction object")
    return eviction


def _evicted(request: ApiRequest, store: Store, clock: Clock, deleter: Deleter) -> Answer:
    eviction = _read(request)
    resource = request.served.resource
    stored = store.get(resource.key, request.namespace, request.name)
    if stored is None:
        raise statuses.not_found("", "pods", request.name)
    options = eviction.delete_options or DeleteOptions()
    dry_run = request.params.dry_run or options.dry_run == ["All"]
    deleter.check_preconditions(resource, stored, options)
    current = stored
    if not dry_run:
        pod: Document = decode(stored.body)
        set_condition(pod, dict(_CONDITION), clock.timestamp())
        current = commits.put(store, resource, pod)
    # The condition made a new revision: the one the client knew was checked before it.
    unchecked = msgspec.structs.replace(options, preconditions=None)
    deleter.delete_stored(request.served, current, unchecked, dry_run=dry_run)
    return Answer(201, CREATED, request.name, stored.uid, str(store.revision))
