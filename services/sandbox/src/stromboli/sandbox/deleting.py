"""Delete: at once, after a grace period, or when the last finalizer is gone.

Three kinds of objects: those that vanish, those that are held (finalizers, a namespace's
content) and are only marked, and pods that run somewhere and get time to stop. The mark is
`deletionTimestamp`; what takes a held object away later is an update, not a second delete. What
becomes of the dependents is told to the collector by a finalizer: it takes that off when the
dependents are gone, or live on as orphans.

Webhooks are asked first. If the object changed meanwhile they are asked again, about what is
there now.
"""

import asyncio
import copy
from typing import Final

import msgspec

from stromboli.sandbox import commits, incoming, statuses
from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.changes import Stored
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.options import (
    FOREGROUND,
    NO_PARAMS,
    ORPHAN,
    DeleteOptions,
    Preconditions,
    delete_options,
)
from stromboli.sandbox.requests import Answer, ApiRequest, User, answered
from stromboli.sandbox.resources import Resource, Served
from stromboli.sandbox.selection import Selection
from stromboli.sandbox.store import Store
from stromboli.sandbox.webhooks.reviewing import Admission

__all__ = ["Deleter"]

_AT_A_TIME: Final = 50
_RACES: Final = 100


class Deleter:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        clock: Clock,
        admission: Admission,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._clock = clock
        self._admission = admission

    async def delete(self, request: ApiRequest) -> Answer:
        served = request.served
        resource = served.resource
        options, dry_run = delete_options(request.body, request.params)
        stored = self._store.get(resource.key, request.namespace, request.name)
        if stored is None:
            raise statuses.not_found(resource.group, resource.plural, request.name)
        stored = await self._approved(request, stored, options, dry_run=dry_run)
        document, gone = self.delete_stored(served, stored, options, dry_run=dry_run)
        if resource.returns_deleted or not gone:
            document["apiVersion"] = served.api_version
            return answered(200, document)
        details: Document = {"name": stored.name, "kind": resource.plural, "uid": stored.uid}
        if resource.group:
            details["group"] = resource.group
        body = msgspec.json.encode(statuses.success(details=details))
        return Answer(200, body, stored.name, stored.uid, str(self._store.revision))

    async def delete_collection(self, request: ApiRequest, selection: Selection) -> Answer:
        """Delete what is selected, one object after the other, and list what it was.

        Others get their turn in between: each deletion is atomic, the collection is not.
        """
        served = request.served
        resource = served.resource
        options, dry_run = delete_options(request.body, request.params)
        bucket = self._store.bucket(resource.key)
        chosen = [
            stored
            for key in bucket.sorted_keys()
            if selection.matches(stored := bucket.objects[key])
        ]
        for count, stored in enumerate(chosen, 1):
            current = bucket.objects.get(stored.key)
            if current is not None and current.uid == stored.uid:
                current = await self._approved(request, current, options, dry_run=dry_run)
                self.delete_stored(served, current, options, dry_run=dry_run)
            if count % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        items = b",".join(served.body(stored.body) for stored in chosen)
        head = (
            f'{{"apiVersion":"{served.api_version}","kind":"{resource.list_kind}",'
            f'"metadata":{{"resourceVersion":"{self._store.revision}"}},"items":['
        )
        return Answer(200, head.encode() + items + b"]}")

    async def _approved(
        self, request: ApiRequest, stored: Stored, options: DeleteOptions, *, dry_run: bool
    ) -> Stored:
        """The object as it is when every webhook has agreed to its deletion."""
        resource = request.served.resource
        told: Document = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        review = self._admission.of(request, "DELETE", options={**told, **_without_unset(options)})
        if review is None:
            return stored
        review.dry_run = dry_run
        for _ in range(_RACES):
            self.check_preconditions(resource, stored, options)
            old = incoming.shown_version(stored.body, request.served)
            await review.changed(None, old)
            await review.approve(None, old)
            current = self._store.get(resource.key, *stored.key)
            if current is None or current.uid != stored.uid:
                raise statuses.not_found(resource.group, resource.plural, stored.name)
            if current is stored:
                return stored
            stored = current
        raise statuses.too_many_requests("the object changes faster than webhooks answer")

    def delete_stored(
        self, served: Served, stored: Stored, options: DeleteOptions, *, dry_run: bool = False
    ) -> tuple[Document, bool]:
        """The object as it is after the deletion began, and whether it is gone already."""
        resource, behaviour = served.resource, served.behaviour
        document: Document = decode(stored.body)
        self.check_preconditions(resource, stored, options)
        behaviour.admit_delete(document, self._store)
        marked = self._marked(document, served, options)
        grace = marked["metadata"].get("deletionGracePeriodSeconds", 0)
        stays = behaviour.is_held(marked) or grace > 0
        if dry_run:
            return (marked if stays or behaviour.grace_seconds else document), not stays
        if marked != document and (stays or behaviour.grace_seconds is not None):
            # A kind with grace periods is marked even if it goes at once, as in kube: its
            # watchers see that the end was ordered before they see it gone.
            stored = commits.put(self._store, resource, marked)
        if stays:
            return marked, False
        revision = commits.remove(self._store, resource, stored)
        # What vanishes at once never carried the mark.
        last = document if behaviour.grace_seconds is None else marked
        last["metadata"]["resourceVersion"] = str(revision)
        return last, True

    def _marked(self, document: Document, served: Served, options: DeleteOptions) -> Document:
        """The document with its deletion mark, new, shortened, or as it was."""
        behaviour = served.behaviour
        marked: Document = {**document, "metadata": copy.deepcopy(document["metadata"])}
        meta = marked["metadata"]
        _set_collecting_finalizers(meta, served.resource, options)
        asked = options.grace_period_seconds
        if asked is not None and asked < 0:
            asked = 1
        if "deletionTimestamp" in meta:
            return self._shortened(marked, asked)
        grace = behaviour.grace_seconds(document, asked) if behaviour.grace_seconds else 0
        meta["deletionTimestamp"] = self._clock.text_of(self._clock.now() + grace)
        meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1
        behaviour.mark_deleted(marked)
        return marked

    def _shortened(self, marked: Document, asked: int | None) -> Document:
        """Who asks again may only ask for less time."""
        meta = marked["metadata"]
        current = meta.get("deletionGracePeriodSeconds", 0)
        if asked is None or asked >= current:
            return marked
        until = self._clock.seconds_of(meta["deletionTimestamp"]) - current + asked
        meta["deletionTimestamp"] = self._clock.text_of(max(until, self._clock.now()))
        meta["deletionGracePeriodSeconds"] = asked
        return marked

    async def delete_in_background(
        self, resource_key: str, stored: Stored, user: User, *, propagation: str | None = None
    ) -> None:
        """Delete for the collector or a namespace: only this very object."""
        served = self._catalogue.of_key(resource_key)
        current = self._store.get(resource_key, *stored.key)
        if served is None or current is None or current.uid != stored.uid:
            return
        options = DeleteOptions(
            preconditions=Preconditions(uid=stored.uid), propagation_policy=propagation
        )
        request = ApiRequest(
            "delete", served, stored.namespace, stored.name, "", NO_PARAMS, b"", "", user
        )
        current = await self._approved(request, current, options, dry_run=False)
        self.delete_stored(served, current, options)

    def check_preconditions(
        self, resource: Resource, stored: Stored, options: DeleteOptions
    ) -> None:
        """Refuse if the client meant another object, or another version of it."""
        wanted = options.preconditions
        if wanted is None:
            return
        if wanted.uid is not None and wanted.uid != stored.uid:
            why = (
                f"the UID in the precondition ({wanted.uid}) does not match the UID in record"
                f" ({stored.uid}). The object might have been deleted and then recreated"
            )
            raise statuses.conflict(resource.group, resource.kind, stored.name, why)
        revision = str(stored.revision)
        if wanted.resource_version is not None and wanted.resource_version != revision:
            why = (
                f"the ResourceVersion in the precondition ({wanted.resource_version}) does not"
                f" match the ResourceVersion in record ({revision}). The object might have been"
                " modified"
            )
            raise statuses.conflict(resource.group, resource.kind, stored.name, why)


def _set_collecting_finalizers(meta: Document, resource: Resource, options: DeleteOptions) -> None:
    current: list[str] = meta.get("finalizers") or []
    wanted = options.collecting_finalizers(current, orphan_by_default=resource.orphan_by_default)
    if {one for one in current if one in {ORPHAN, FOREGROUND}} == set(wanted):
        return
    kept = [one for one in current if one not in {ORPHAN, FOREGROUND}] + wanted
    meta.pop("finalizers", None)
    if kept:
        meta["finalizers"] = kept


def _without_unset(options: DeleteOptions) -> Document:
    """The options as a client would have written them."""
    given: Document = msgspec.to_builtins(options)
    return {key: value for key, value in given.items() if value is not None}
