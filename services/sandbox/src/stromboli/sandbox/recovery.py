"""The store as it was: a snapshot loaded, the journal applied on top.

Definitions come first in a snapshot and before their objects in the journal, so every custom
resource finds the row that says which of its fields can be selected. Changes since the snapshot
also refill the history: a watch from shortly before a restart goes on without a list.
"""

from stromboli.sandbox.builtin import BUILT_IN
from stromboli.sandbox.changes import Change, Stored
from stromboli.sandbox.commits import stored_form
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.journal import Journal, Put, Removed, Summit
from stromboli.sandbox.kinds.custom import served_versions
from stromboli.sandbox.kinds.definitions import DEFINITIONS_KEY
from stromboli.sandbox.resources import Resource
from stromboli.sandbox.store import Store

__all__ = ["objects_for_snapshot", "recover"]


def recover(journal: Journal, store: Store) -> None:
    rows: dict[str, Resource] = {row.key: row for row in BUILT_IN}
    loading = journal.has_snapshot
    for record in journal.replay():
        match record:
            case Put():
                stored = _stored(record, rows)
                if loading:
                    store.load(record.resource, stored)
                else:
                    old = store.get(record.resource, record.namespace, record.name)
                    store.restore(Change(record.revision, record.resource, old, stored))
            case Removed():
                old = store.get(record.resource, record.namespace, record.name)
                store.restore(Change(record.revision, record.resource, old, None))
            case Summit():
                loading = False
                store.resume_at(record.revision)


def _stored(record: Put, rows: dict[str, Resource]) -> Stored:
    document: Document = decode(record.body)
    if record.resource == DEFINITIONS_KEY:
        for served in served_versions(document):
            rows[served.resource.key] = served.resource
    row = rows.get(record.resource)
    if row is None:
        group, _, plural = record.resource.rpartition("/")
        row = Resource(group=group, plural=plural, kind=document["kind"], custom=True)
    return stored_form(row, document, record.revision, record.body)


def objects_for_snapshot(store: Store) -> list[tuple[str, Stored]]:
    """Everything stored, definitions first."""
    keys = sorted(store.buckets, key=lambda key: (key != DEFINITIONS_KEY, key))
    return [(key, stored) for key in keys for stored in store.buckets[key].objects.values()]
