"""All objects, the revision counter, and the recent past.

The store is one ordered log of changes and the state it leads to. Objects are kept as encoded
bytes with the few facts that selecting and collecting need, so reading is copying nothing and
no caller can change what is stored. A commit is synchronous: between two awaits the world
stands still, and whoever is told of a change is told before anyone can read it.

It knows nothing of HTTP, kinds or validity. It never forgets an acknowledged change: the
journal is written inside the commit.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from stromboli.sandbox.changes import Change, Key, Stored
from stromboli.sandbox.history import History

__all__ = ["Bucket", "Journalled", "Store"]


class Journalled(Protocol):
    """Where a commit is written down before it is acknowledged."""

    def record(self, change: Change) -> None: ...


class Bucket:
    """The objects of one resource, their order, and their recent changes."""

    def __init__(self, resource: str, *, window: int, floor: int) -> None:
        self.resource = resource
        self.objects: dict[Key, Stored] = {}
        self.history = History(window, floor)
        self._keys: list[Key] | None = None

    def sorted_keys(self) -> list[Key]:
        """All keys in order; sorted again only after one was added or removed."""
        if self._keys is None:
            self._keys = sorted(self.objects)
        return self._keys

    def at(self, revision: int) -> dict[Key, Stored]:
        """The objects as they were at a revision that the history still covers."""
        past = dict(self.objects)
        for change in reversed(self.history.after(revision)):
            subject = change.new or change.old
            if subject is None:
                continue
            if change.old is None:
                past.pop(subject.key, None)
            else:
                past[subject.key] = change.old
        return past

    def load(self, stored: Stored) -> None:
        self._keys = None
        self.objects[stored.key] = stored

    def apply(self, change: Change) -> None:
        new, old = change.new, change.old
        if new is not None:
            if old is None:
                self._keys = None
            self.objects[new.key] = new
        elif old is not None:
            self._keys = None
            del self.objects[old.key]
        self.history.append(change)


class Store:
    def __init__(self, *, window: int, journal: Journalled | None = None) -> None:
        self._window = window
        self._journal = journal
        self._listeners: list[Callable[[Change], None]] = []
        self._floor = 0
        self.revision = 0
        self.buckets: dict[str, Bucket] = {}
        self.by_uid: dict[str, tuple[str, Key]] = {}
        """Where the object with a uid is; owners are found by it."""

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` inside every commit, after the state changed; it must not raise."""
        self._listeners.append(listener)

    def bucket(self, resource: str) -> Bucket:
        bucket = self.buckets.get(resource)
        if bucket is None:
            bucket = Bucket(resource, window=self._window, floor=self._floor)
            self.buckets[resource] = bucket
        return bucket

    def get(self, resource: str, namespace: str, name: str) -> Stored | None:
        bucket = self.buckets.get(resource)
        return None if bucket is None else bucket.objects.get((namespace, name))

    def in_namespace(self, namespace: str) -> Iterator[tuple[str, Stored]]:
        """Every object of a namespace; used for its deletion, not for serving lists."""
        for resource, bucket in self.buckets.items():
            for key in bucket.sorted_keys():
                if key[0] == namespace:
                    yield resource, bucket.objects[key]

    def commit(self, change: Change) -> None:
        """Make the next revision of the world; the caller has encoded it with that revision."""
        if change.revision != self.revision + 1:
            raise ValueError(f"revision {change.revision} cannot follow {self.revision}")
        if self._journal is not None:
            self._journal.record(change)
        self.restore(change)
        for listener in self._listeners:
            listener(change)

    def restore(self, change: Change) -> None:
        """Apply a change without journalling or telling anyone: replay at start."""
        self.revision = change.revision
        if change.old is not None and (change.new is None or change.new.uid != change.old.uid):
            self.by_uid.pop(change.old.uid, None)
        if change.new is not None:
            self.by_uid[change.new.uid] = (change.resource, change.new.key)
        self.bucket(change.resource).apply(change)

    def load(self, resource: str, stored: Stored) -> None:
        """Put an object of a snapshot in its place; how it came there is not known any more."""
        bucket = self.bucket(resource)
        bucket.load(stored)
        self.by_uid[stored.uid] = (resource, stored.key)

    def resume_at(self, revision: int) -> None:
        """All of a snapshot is loaded: the world goes on from its revision."""
        self.revision = revision
        self.compact(revision)

    def compact(self, revision: int) -> None:
        """Forget changes up to a revision: watches and lists from before it will be Expired."""
        self._floor = max(self._floor, revision)
        for bucket in self.buckets.values():
            bucket.history.forget(revision)

    def drop_bucket(self, resource: str) -> None:
        """Forget an emptied resource, after its definition was deleted."""
        bucket = self.buckets.get(resource)
        if bucket is not None and not bucket.objects:
            del self.buckets[resource]
