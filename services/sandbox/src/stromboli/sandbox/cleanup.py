"""What a namespace or a definition takes with it: its content first, then itself.

A deleted namespace and a deleted definition are marked and stay until nothing of theirs is
left; this worker deletes the content and takes the mark's owner away. Pods that run somewhere
keep their grace period, so a namespace goes when the last of them has stopped. What a webhook
refuses to let go is tried again a little later.
"""

import asyncio
import contextlib
import logging
from typing import Final

from stromboli.sandbox import commits
from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.changes import Change, Stored
from stromboli.sandbox.deleting import Deleter
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.errors import ApiRefusal
from stromboli.sandbox.kinds.definitions import CLEANUP_FINALIZER, DEFINITIONS_KEY
from stromboli.sandbox.requests import User
from stromboli.sandbox.store import Store
from stromboli.sandbox.watching import WatchHub

__all__ = ["Cleanup"]

_LOG: Final = logging.getLogger("stromboli.sandbox.cleanup")
_NAMESPACES: Final = "namespaces"
_AT_A_TIME: Final = 50
_RETRY_S: Final = 5.0
_USER: Final = User(
    "system:serviceaccount:kube-system:namespace-controller",
    "",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


class Cleanup:
    def __init__(self, store: Store, catalogue: Catalogue, deleter: Deleter, hub: WatchHub) -> None:
        self._store = store
        self._catalogue = catalogue
        self._deleter = deleter
        self._hub = hub
        self._terminating: dict[tuple[str, str], None] = {}
        self._wake = asyncio.Event()
        self._refused = False
        for resource in (_NAMESPACES, DEFINITIONS_KEY):
            for stored in store.bucket(resource).objects.values():
                self._look_at(resource, stored)
        store.listen(self._follow)

    def _follow(self, change: Change) -> None:
        if change.resource in {_NAMESPACES, DEFINITIONS_KEY}:
            if change.new is not None:
                self._look_at(change.resource, change.new)
            elif change.old is not None:
                self._terminating.pop((change.resource, change.old.name), None)
        elif self._terminating and change.new is None:
            # One of the last objects may be gone.
            self._wake.set()

    def _look_at(self, resource: str, stored: Stored) -> None:
        if b'"deletionTimestamp":"' in stored.body:
            self._terminating[resource, stored.name] = None
            self._wake.set()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S if self._refused else None):
                    await self._wake.wait()
            self._wake.clear()
            self._refused = False
            for resource, name in list(self._terminating):
                stored = self._store.get(resource, "", name)
                if stored is None:
                    continue
                document: Document = decode(stored.body)
                if "deletionTimestamp" not in document["metadata"]:
                    continue
                if resource == _NAMESPACES:
                    await self._empty(list(self._store.in_namespace(name)))
                    self._finish_namespace(name)
                else:
                    await self._clean_definition(name)

    async def _empty(self, content: list[tuple[str, Stored]]) -> None:
        for count, (resource, stored) in enumerate(content, 1):
            try:
                await self._deleter.delete_in_background(resource, stored, _USER)
            except ApiRefusal as refusal:
                self._refused = True
                _LOG.warning(
                    "cleanup.refused",
                    extra={"resource": resource, "object": stored.name, "why": str(refusal)},
                )
            if count % _AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _finish_namespace(self, name: str) -> None:
        stored = self._store.get(_NAMESPACES, "", name)
        served = self._catalogue.of_key(_NAMESPACES)
        if stored is None or served is None or any(self._store.in_namespace(name)):
            return
        document: Document = decode(stored.body)
        spec = document["spec"]
        spec["finalizers"] = [one for one in spec.get("finalizers", ()) if one != "kubernetes"]
        if served.behaviour.is_held(document):
            if document != decode(stored.body):
                commits.put(self._store, served.resource, document)
            return
        commits.remove(self._store, served.resource, stored)

    async def _clean_definition(self, name: str) -> None:
        plural, _, group = name.partition(".")
        key = f"{group}/{plural}"
        content = [(key, stored) for stored in self._store.bucket(key).objects.values()]
        await self._empty(content)
        stored = self._store.get(DEFINITIONS_KEY, "", name)
        served = self._catalogue.of_key(DEFINITIONS_KEY)
        if stored is None or served is None or self._store.bucket(key).objects:
            return
        document: Document = decode(stored.body)
        meta = document["metadata"]
        finalizers = [one for one in meta.get("finalizers", ()) if one != CLEANUP_FINALIZER]
        if finalizers:
            if finalizers != meta["finalizers"]:
                meta["finalizers"] = finalizers
                commits.put(self._store, served.resource, document)
            return
        commits.remove(self._store, served.resource, stored)
        self._hub.close_resource(key)
        self._store.drop_bucket(key)
