"""Who owns whom, by uid: the index behind garbage collection.

Kept by following the store, never by scanning it. It answers two questions: who depends on this
uid, and does a dependent still have an owner.
"""

from stromboli.sandbox import commits
from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.changes import Change, Key, Stored
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.store import Store

__all__ = ["Dependent", "Owners"]

Dependent = tuple[str, Key]
"""A resource's key and the object's: where a dependent is."""


class Owners:
    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue
        self._dependents: dict[str, set[Dependent]] = {}
        for resource, bucket in store.buckets.items():
            for stored in bucket.objects.values():
                self._link((resource, stored.key), stored.owners)
        store.listen(self._follow)

    def dependents_of(self, uid: str) -> list[Dependent]:
        return sorted(self._dependents.get(uid, ()))

    def all_dependents(self) -> list[Dependent]:
        return sorted({one for group in self._dependents.values() for one in group})

    def is_present(self, uid: str, dependent: Stored) -> bool:
        """True if the owner exists where an owner may be: in the same namespace or in none."""
        place = self._store.by_uid.get(uid)
        return place is not None and place[1][0] in {"", dependent.namespace}

    def orphan_dependents_of(self, uid: str) -> None:
        for resource, key in self.dependents_of(uid):
            self.disown(resource, key, {uid})

    def disown(self, resource_key: str, key: Key, uids: set[str]) -> None:
        """Take owners off a dependent, which lives on."""
        served = self._catalogue.of_key(resource_key)
        stored = self._store.get(resource_key, *key)
        if served is None or stored is None:
            return
        document: Document = decode(stored.body)
        meta = document["metadata"]
        kept = [ref for ref in meta.get("ownerReferences", ()) if ref.get("uid") not in uids]
        meta.pop("ownerReferences", None)
        if kept:
            meta["ownerReferences"] = kept
        commits.put(self._store, served.resource, document)

    def unblock(self, resource_key: str, key: Key) -> None:
        """Let the owners of a dependent go without waiting for it."""
        served = self._catalogue.of_key(resource_key)
        stored = self._store.get(resource_key, *key)
        if served is None or stored is None:
            return
        document: Document = decode(stored.body)
        for reference in document["metadata"].get("ownerReferences", ()):
            if reference.get("blockOwnerDeletion"):
                reference["blockOwnerDeletion"] = False
        commits.put(self._store, served.resource, document)

    def _follow(self, change: Change) -> None:
        old = change.old.owners if change.old is not None else ()
        new = change.new.owners if change.new is not None else ()
        subject = change.new or change.old
        if old == new or subject is None:
            return
        dependent = (change.resource, subject.key)
        for uid in old:
            group = self._dependents.get(uid)
            if group is not None:
                group.discard(dependent)
                if not group:
                    del self._dependents[uid]
        self._link(dependent, new)

    def _link(self, dependent: Dependent, uids: tuple[str, ...]) -> None:
        for uid in uids:
            self._dependents.setdefault(uid, set()).add(dependent)
