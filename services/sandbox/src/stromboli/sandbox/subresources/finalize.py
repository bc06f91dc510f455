"""Finalize: the one way to change the finalizers in a namespace's spec."""

from stromboli.sandbox import commits, incoming, statuses
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.requests import Answer, ApiRequest, answered
from stromboli.sandbox.store import Store
from stromboli.sandbox.webhooks.reviewing import Admission
from stromboli.sandbox.writing import Raced, stored_answer, unraced

__all__ = ["finalize"]


async def finalize(request: ApiRequest, store: Store, admission: Admission) -> Answer:
    return await unraced(lambda: _finalized(request, store, admission))


async def _finalized(request: ApiRequest, store: Store, admission: Admission) -> Answer:
    served = request.served
    document = incoming.document_of(request)
    stored = store.get("namespaces", "", request.name)
    if stored is None:
        raise statuses.not_found("", "namespaces", request.name)
    namespace: Document = decode(stored.body)
    wanted = (document.get("spec") or {}).get("finalizers") or []
    namespace["spec"] = {**namespace["spec"], "finalizers": wanted}
    review = admission.of(request, "UPDATE")
    if review is not None:
        before = decode(stored.body)
        namespace = await review.changed(namespace, before) or namespace
        await review.approve(namespace, before)
        if store.get("namespaces", "", request.name) is not stored:
            raise Raced
    if "deletionTimestamp" in namespace["metadata"] and not served.behaviour.is_held(namespace):
        commits.remove(store, served.resource, stored)
        return answered(200, namespace)
    return stored_answer(200, commits.put(store, served.resource, namespace), served)
