"""What is served right now: the built-in rows and those of the stored definitions.

The catalogue follows the store: a definition that is stored is served from that moment, one
that is gone is not. Lookups are by (group, version, plural), as URLs name resources.
"""

from collections.abc import Iterable
from typing import Final

from stromboli.sandbox.builtin import BUILT_IN
from stromboli.sandbox.changes import Change
from stromboli.sandbox.documents import decode
from stromboli.sandbox.kinds.custom import served_versions
from stromboli.sandbox.kinds.definitions import DEFINITIONS_KEY
from stromboli.sandbox.printing.builtin import printer_of
from stromboli.sandbox.resources import Resource, Served, Subresource
from stromboli.sandbox.store import Store

__all__ = ["Catalogue"]

_STATUS_VERBS: Final = ("get", "patch", "update")


def _built_in(resource: Resource) -> Served:
    status = Subresource(name="status", kind=resource.kind, verbs=_STATUS_VERBS)
    subresources = (*resource.subresources, *((status,) if resource.has_status else ()))
    return Served(
        resource=resource,
        version=resource.version,
        behaviour=resource.behaviour,
        has_status=resource.has_status,
        subresources=subresources,
        printer=printer_of(resource.key),
    )


class Catalogue:
    def __init__(self, store: Store) -> None:
        self._by_url: dict[tuple[str, str, str], Served] = {}
        self._by_key: dict[str, Served] = {}
        self.edition = 0
        """Moves on when something is added or removed: discovery documents are kept until then."""
        for resource in BUILT_IN:
            self._add([_built_in(resource)])
        for stored in store.bucket(DEFINITIONS_KEY).objects.values():
            self._add(served_versions(decode(stored.body)))
        store.listen(self._follow)

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._by_url.get((group, version, plural))

    def of_key(self, key: str) -> Served | None:
        """The storage version of the resource the store knows by this key."""
        return self._by_key.get(key)

    def all(self) -> Iterable[Served]:
        return self._by_url.values()

    def _add(self, rows: list[Served]) -> None:
        for served in rows:
            resource = served.resource
            self._by_url[(resource.group, served.version, resource.plural)] = served
            if served.is_storage_version or resource.key not in self._by_key:
                self._by_key[resource.key] = served
        self.edition += 1

    def _remove(self, key: str) -> None:
        self._by_url = {
            url: served for url, served in self._by_url.items() if served.resource.key != key
        }
        self._by_key.pop(key, None)
        self.edition += 1

    def _follow(self, change: Change) -> None:
        if change.resource != DEFINITIONS_KEY:
            return
        subject = change.new or change.old
        if subject is not None:
            plural, _, group = subject.name.partition(".")
            self._remove(f"{group}/{plural}")
        if change.new is not None:
            self._add(served_versions(decode(change.new.body)))
