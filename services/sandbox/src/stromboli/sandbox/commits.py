"""How a document becomes the next revision: numbered, encoded, indexed, committed.

Nothing else encodes objects for storage. There is no await in here: reading the current object,
deciding and committing happen in one step of the loop, which is what makes a write atomic.
"""

from stromboli.sandbox import metadata
from stromboli.sandbox.changes import Change, Stored
from stromboli.sandbox.documents import Document, decode, encode, ordered
from stromboli.sandbox.resources import Resource
from stromboli.sandbox.store import Store

__all__ = ["put", "remove", "stored_form", "tombstone"]


def stored_form(resource: Resource, document: Document, revision: int, body: bytes) -> Stored:
    """An encoded object with the facts that selecting and collecting need."""
    meta = document["metadata"]
    return Stored(
        meta.get("namespace", ""),
        meta["name"],
        meta["uid"],
        revision,
        body,
        meta.get("labels") or {},
        resource.field_values(document),
        metadata.owner_uids(meta),
    )


def put(store: Store, resource: Resource, document: Document) -> Stored:
    """Store the document as the newest version of its object."""
    revision = store.revision + 1
    document["apiVersion"] = resource.api_version
    document["kind"] = resource.kind
    meta = document["metadata"]
    meta["resourceVersion"] = str(revision)
    new = stored_form(resource, document, revision, encode(ordered(document)))
    old = store.get(resource.key, new.namespace, new.name)
    store.commit(Change(revision, resource.key, old, new))
    return new


def remove(store: Store, resource: Resource, stored: Stored) -> int:
    """Delete the object; the revision of its absence is returned."""
    revision = store.revision + 1
    store.commit(Change(revision, resource.key, stored, None))
    return revision


def tombstone(old: Stored, revision: int) -> bytes:
    """The last state of an object with the revision at which it went out of sight."""
    document: Document = decode(old.body)
    document["metadata"]["resourceVersion"] = str(revision)
    return encode(document)
