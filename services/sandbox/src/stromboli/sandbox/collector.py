"""Garbage collection: what becomes of dependents when their owner goes, in the background.

An object that lost its last owner is deleted; one that still has another loses only the
reference. An owner that is being deleted may be held by one of two finalizers: `orphan` until its
dependents have forgotten it, `foregroundDeletion` until those that block it are gone. Work is
done between requests, a few objects at a time so that nobody waits. Deletion is of the very
object that was looked at, never of a namesake. What a webhook refuses to let go is tried again
a little later.
"""

import asyncio
import logging
from typing import Final

from stromboli.sandbox import commits
from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.changes import Change, Stored
from stromboli.sandbox.deleting import Deleter
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.errors import ApiRefusal
from stromboli.sandbox.options import FOREGROUND, ORPHAN
from stromboli.sandbox.owners import Dependent, Owners
from stromboli.sandbox.requests import User
from stromboli.sandbox.store import Store

__all__ = ["Collector"]

_LOG: Final = logging.getLogger("stromboli.sandbox.collector")
_AT_A_TIME: Final = 50
_RETRY_S: Final = 5.0
_USER: Final = User(
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


class Collector:
    def __init__(
        self, store: Store, owners: Owners, deleter: Deleter, catalogue: Catalogue
    ) -> None:
        self._store = store
        self._owners = owners
        self._deleter = deleter
        self._catalogue = catalogue
        # Dicts are ordered sets; they can hold every stored object once, and no more.
        self._suspects: dict[Dependent, None] = {}
        self._refused: dict[Dependent, None] = {}
        self._held: dict[str, Dependent] = {}
        """Owners on their way out that wait for their dependents, by uid."""
        self._wake = asyncio.Event()
        for dependent in owners.all_dependents():
            self._suspect(dependent)
        for resource, bucket in store.buckets.items():
            for stored in bucket.objects.values():
                if _is_held(stored):
                    self._hold(stored, (resource, stored.key))
        store.listen(self._follow)

    def _follow(self, change: Change) -> None:
        new, old = change.new, change.old
        if old is not None and (new is None or new.uid != old.uid):
            self._held.pop(old.uid, None)
            for dependent in self._owners.dependents_of(old.uid):
                self._suspect(dependent)
        if new is not None and old is not None and _is_held(new):
            self._hold(new, (change.resource, new.key))
        if self._held:
            for subject in (old, new):
                for uid in subject.owners if subject is not None else ():
                    if uid in self._held:
                        self._suspect(self._held[uid])
        owned_anew = new is not None and new.owners != (old.owners if old is not None else ())
        if (
            new is not None
            and owned_anew
            and not all(self._owners.is_present(uid, new) for uid in new.owners)
        ):
            self._suspect((change.resource, new.key))

    def _hold(self, stored: Stored, place: Dependent) -> None:
        self._held[stored.uid] = place
        self._suspect(place)

    def _suspect(self, place: Dependent) -> None:
        self._suspects[place] = None
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._work_to_do()
            for _ in range(min(_AT_A_TIME, len(self._suspects))):
                place = next(iter(self._suspects))
                del self._suspects[place]
                await self._examine(place)
            if not self._suspects:
                self._wake.clear()
            await asyncio.sleep(0)

    async def _work_to_do(self) -> None:
        try:
            async with asyncio.timeout(_RETRY_S if self._refused else None):
                await self._wake.wait()
        except TimeoutError:
            self._suspects.update(self._refused)
            self._refused.clear()

    async def _examine(self, place: Dependent) -> None:
        stored = self._store.get(place[0], *place[1])
        if stored is None:
            return
        try:
            if stored.uid in self._held and _is_held(stored):
                self._release(place, stored)
            else:
                self._held.pop(stored.uid, None)
            await self._examine_owners(place)
        except ApiRefusal as refusal:
            self._refused[place] = None
            _LOG.warning(
                "collector.refused",
                extra={"resource": place[0], "object": stored.name, "why": str(refusal)},
            )

    # Owners that wait

    def _release(self, place: Dependent, stored: Stored) -> None:
        """Do what the owner waits for, and let it go once that is done."""
        finalizers = decode(stored.body)["metadata"]["finalizers"]
        if ORPHAN in finalizers:
            self._owners.orphan_dependents_of(stored.uid)
            self._take_off(place, stored, ORPHAN)
            return
        blocking = False
        for dependent in self._owners.dependents_of(stored.uid):
            self._suspect(dependent)
            blocking = blocking or self._blocks(dependent, stored)
        if not blocking:
            self._take_off(place, stored, FOREGROUND)

    def _blocks(self, dependent: Dependent, owner: Stored) -> bool:
        stored = self._store.get(dependent[0], *dependent[1])
        if stored is None or not self._owners.is_present(owner.uid, stored):
            return False
        references: list[Document] = decode(stored.body)["metadata"].get("ownerReferences") or []
        return any(
            one.get("uid") == owner.uid and one.get("blockOwnerDeletion") for one in references
        )

    def _take_off(self, place: Dependent, stored: Stored, finalizer: str) -> None:
        served = self._catalogue.of_key(place[0])
        if served is None:
            return
        document: Document = decode(stored.body)
        meta = document["metadata"]
        kept = [one for one in meta.pop("finalizers") if one != finalizer]
        if kept:
            meta["finalizers"] = kept
        if served.behaviour.is_held(document) or meta.get("deletionGracePeriodSeconds"):
            commits.put(self._store, served.resource, document)
        else:
            commits.remove(self._store, served.resource, stored)

    # Dependents whose owners go

    async def _examine_owners(self, place: Dependent) -> None:
        stored = self._store.get(place[0], *place[1])
        if stored is None or not stored.owners:
            return
        missing = {uid for uid in stored.owners if not self._owners.is_present(uid, stored)}
        waiting = {uid for uid in stored.owners if self._waits_for_dependents(uid)} - missing
        if not missing and not waiting:
            return
        if missing | waiting != set(stored.owners):
            self._owners.disown(*place, missing | waiting)
            return
        if b'"deletionTimestamp":"' in stored.body:
            return
        own = self._owners.dependents_of(stored.uid)
        foreground = bool(waiting and own)
        if foreground and any(self._is_waiting(dependent) for dependent in own):
            # They own each other: neither may wait for the other.
            self._owners.unblock(*place)
            stored = self._store.get(place[0], *place[1])
        if stored is not None:
            _LOG.debug("collector.deleted", extra={"resource": place[0], "object": stored.name})
            await self._deleter.delete_in_background(
                place[0], stored, _USER, propagation="Foreground" if foreground else None
            )

    def _waits_for_dependents(self, uid: str) -> bool:
        place = self._held.get(uid)
        return place is not None and self._is_waiting(place)

    def _is_waiting(self, place: Dependent) -> bool:
        stored = self._store.get(place[0], *place[1])
        return stored is not None and _is_held(stored, FOREGROUND)


def _is_held(stored: Stored, *finalizers: str) -> bool:
    """True if it is being deleted and one of the collector's finalizers is on it."""
    body = stored.body
    if not any(f'"{one}"'.encode() in body for one in finalizers or (ORPHAN, FOREGROUND)):
        return False
    meta = decode(body)["metadata"]
    held: list[str] = meta.get("finalizers") or []
    return "deletionTimestamp" in meta and any(
        one in held for one in finalizers or (ORPHAN, FOREGROUND)
    )
