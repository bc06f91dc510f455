"""Watches: every change of a resource, framed once, to everyone who asked for it.

A watcher has a bounded buffer between the commit and its connection. Whoever reads too slowly
is cut off, as the real server does, and starts again with a list: nobody makes the server wait
and nobody silently misses a change. What a watcher sees depends on its selection before and
after the change: an object that leaves the selection is DELETED for it, one that enters ADDED.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

from stromboli.sandbox import commits, statuses
from stromboli.sandbox.changes import Change, Stored
from stromboli.sandbox.documents import Document, encode
from stromboli.sandbox.printing.tables import Form
from stromboli.sandbox.resources import Served
from stromboli.sandbox.selection import Selection
from stromboli.sandbox.store import Store

__all__ = ["Frames", "WatchHub", "Watcher"]

_BATCH_BYTES: Final = 256 * 1024


def framed(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


class Frames:
    """A change as bytes for the wire, made once for all watchers that see it alike."""

    __slots__ = ("_made", "change")

    def __init__(self, change: Change) -> None:
        self.change = change
        self._made: dict[tuple[str, str], bytes] = {}

    def frame(self, kind: str, served: Served) -> bytes:
        key = (kind, served.version)
        frame = self._made.get(key)
        if frame is None:
            frame = self._made[key] = framed(kind, served.body(self.body(kind)))
        return frame

    def body(self, kind: str) -> bytes:
        """The object as an event of this type shows it."""
        new, old = self.change.new, self.change.old
        if kind != "DELETED" and new is not None:
            return new.body
        if old is None:
            raise ValueError(f"change {self.change.revision} has no object to show as {kind}")
        return commits.tombstone(old, self.change.revision)


class Watcher:
    """One watch request: what it still has to be sent, and how it ends."""

    def __init__(
        self,
        served: Served,
        selection: Selection,
        *,
        bookmarks: bool,
        max_events: int,
        form: Form | None = None,
    ) -> None:
        self.served = served
        self.bookmarks = bookmarks
        self.on_overflow: Callable[[], None] | None = None
        """Called when it is cut off: its connection may be stuck in a write."""
        self._selection = selection
        self._max_events = max_events
        self._form = form
        self._backlog: Sequence[Stored | Change] = ()
        self._pending: list[bytes] = []
        self._wake = asyncio.Event()
        self._ended = False

    def begin_with(self, backlog: Sequence[Stored | Change]) -> None:
        """Show these before anything else: objects as ADDED, changes as they were.

        They do not count against the buffer: the window of the past already bounds them.
        """
        self._backlog = backlog

    def offer(self, frames: Frames) -> None:
        frame = self._seen(frames)
        if frame is not None:
            self.push(frame)

    def _seen(self, frames: Frames) -> bytes | None:
        """A change as this watcher sees it, if it does."""
        change, selection = frames.change, self._selection
        was_in = change.old is not None and selection.matches(change.old)
        if change.new is not None and selection.matches(change.new):
            return self._framed(frames, "MODIFIED" if was_in else "ADDED")
        return self._framed(frames, "DELETED") if was_in else None

    def _framed(self, frames: Frames, kind: str) -> bytes:
        if self._form is None:
            return frames.frame(kind, self.served)
        return self._formed(kind, frames.body(kind))

    def _formed(self, kind: str, stored: bytes) -> bytes:
        body = self.served.body(stored)
        return framed(kind, body if self._form is None else self._form.event(body))

    def push(self, frame: bytes) -> None:
        if self._ended:
            return
        if len(self._pending) >= self._max_events:
            self._pending.clear()
            self.end()
            if self.on_overflow is not None:
                self.on_overflow()
            return
        self._pending.append(frame)
        self._wake.set()

    def end(self) -> None:
        """No more events; what is buffered is still delivered."""
        self._ended = True
        self._wake.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """What to write, in pieces; ends when the watch does, which its timer guarantees."""
        for batch in self._backlog_batches():
            yield batch
        while True:
            if self._pending:
                frames, self._pending = self._pending, []
                yield frames[0] if len(frames) == 1 else b"".join(frames)
            elif self._ended:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    def _backlog_batches(self) -> Iterator[bytes]:
        batch: list[bytes] = []
        size = 0
        for item in self._backlog:
            if isinstance(item, Stored):
                frame = self._formed("ADDED", item.body)
            else:
                frame = self._seen(Frames(item))
            if frame is not None:
                batch.append(frame)
                size += len(frame)
            if size >= _BATCH_BYTES:
                yield b"".join(batch)
                batch, size = [], 0
        self._backlog = ()
        if batch:
            yield b"".join(batch)


class WatchHub:
    def __init__(self, store: Store, *, max_events: int) -> None:
        self._store = store
        self._max_events = max_events
        self._watchers: dict[str, dict[Watcher, None]] = {}
        self._closing = False
        store.listen(self._follow)

    def open(
        self,
        served: Served,
        selection: Selection,
        *,
        since: int | None,
        initial: bool,
        mark_initial_end: bool,
        bookmarks: bool,
        form: Form | None = None,
    ) -> Watcher:
        """Start a watch from now, with the present first, or from a revision in the past."""
        watcher = Watcher(
            served, selection, bookmarks=bookmarks, max_events=self._max_events, form=form
        )
        bucket = self._store.bucket(served.resource.key)
        if initial:
            watcher.begin_with(
                [
                    stored
                    for key in bucket.sorted_keys()
                    if selection.matches(stored := bucket.objects[key])
                ]
            )
            if mark_initial_end:
                watcher.push(self._bookmark(served, initial_end=True))
        elif since is not None:
            if not bucket.history.covers(since):
                message = f"too old resource version: {since} ({bucket.history.floor})"
                watcher.push(framed("ERROR", encode(statuses.expired(message).status)))
                watcher.end()
                return watcher
            watcher.begin_with(bucket.history.after(since))
        if self._closing:
            watcher.end()
        else:
            self._watchers.setdefault(served.resource.key, {})[watcher] = None
        return watcher

    def close(self, watcher: Watcher) -> None:
        group = self._watchers.get(watcher.served.resource.key)
        if group is not None:
            group.pop(watcher, None)

    def expire(self, watcher: Watcher) -> None:
        """Its time is over; a last bookmark spares the client a list."""
        if watcher.bookmarks:
            watcher.push(self._bookmark(watcher.served))
        watcher.end()

    def close_resource(self, resource: str) -> None:
        for watcher in list(self._watchers.get(resource, ())):
            watcher.end()

    def close_all(self) -> None:
        self._closing = True
        for resource in list(self._watchers):
            self.close_resource(resource)

    async def send_bookmarks(self, interval_s: float) -> None:
        """Tell idle watchers how far the world has come, for ever."""
        while True:
            await asyncio.sleep(interval_s)
            for group in self._watchers.values():
                for watcher in list(group):
                    if watcher.bookmarks:
                        watcher.push(self._bookmark(watcher.served))

    def _follow(self, change: Change) -> None:
        group = self._watchers.get(change.resource)
        if group:
            frames = Frames(change)
            for watcher in list(group):
                watcher.offer(frames)

    def _bookmark(self, served: Served, *, initial_end: bool = False) -> bytes:
        meta: Document = {"resourceVersion": str(self._store.revision), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        document = {
            "kind": served.resource.kind,
            "apiVersion": served.api_version,
            "metadata": meta,
        }
        return framed("BOOKMARK", encode(document))
