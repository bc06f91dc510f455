"""Garbage collection: what lost its last owner is deleted, soon, in the background.

Two events matter: an owner went away, and an object appeared whose owner is not there. Both put
dependents on a list that is worked off between requests, a few at a time so that nobody waits.
An object that still has another owner loses only the reference to the missing one. Deletion is
of the very object that was looked at, never of a namesake.
"""

import asyncio
import logging
from typing import Final

from stromboli.sandbox.changes import Change, Stored
from stromboli.sandbox.deleting import Deleter
from stromboli.sandbox.errors import ApiRefusal
from stromboli.sandbox.owners import Dependent, Owners
from stromboli.sandbox.store import Store

__all__ = ["Collector"]

_LOG: Final = logging.getLogger("stromboli.sandbox.collector")
_AT_A_TIME: Final = 50


class Collector:
    def __init__(self, store: Store, owners: Owners, deleter: Deleter) -> None:
        self._store = store
        self._owners = owners
        self._deleter = deleter
        # A dict is an ordered set; it can hold every stored object once, and no more.
        self._suspects: dict[Dependent, None] = {}
        self._wake = asyncio.Event()
        for dependent in owners.all_dependents():
            self._suspect(dependent)
        store.listen(self._follow)

    def _follow(self, change: Change) -> None:
        new, old = change.new, change.old
        if old is not None and (new is None or new.uid != old.uid):
            for dependent in self._owners.dependents_of(old.uid):
                self._suspect(dependent)
        owned_anew = new is not None and new.owners != (old.owners if old is not None else ())
        if (
            new is not None
            and owned_anew
            and not all(self._owners.is_present(uid, new) for uid in new.owners)
        ):
            self._suspect((change.resource, new.key))

    def _suspect(self, dependent: Dependent) -> None:
        self._suspects[dependent] = None
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            for _ in range(min(_AT_A_TIME, len(self._suspects))):
                dependent = next(iter(self._suspects))
                del self._suspects[dependent]
                self._examine(dependent)
            if not self._suspects:
                self._wake.clear()
            await asyncio.sleep(0)

    def _examine(self, dependent: Dependent) -> None:
        resource, key = dependent
        stored = self._store.get(resource, *key)
        if stored is None or not stored.owners:
            return
        missing = {uid for uid in stored.owners if not self._owners.is_present(uid, stored)}
        if not missing:
            return
        try:
            self._collect(resource, stored, missing)
        except ApiRefusal as refusal:
            _LOG.warning(
                "collector.refused",
                extra={"resource": resource, "object": stored.name, "why": str(refusal)},
            )

    def _collect(self, resource: str, stored: Stored, missing: set[str]) -> None:
        if missing != set(stored.owners):
            self._owners.disown(resource, stored.key, missing)
            return
        _LOG.debug("collector.deleted", extra={"resource": resource, "object": stored.name})
        self._deleter.delete_in_background(resource, stored)
