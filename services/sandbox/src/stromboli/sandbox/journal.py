"""Changes on disk: an append-only file of checksummed records, and snapshots that bound it.

Promise: a change is handed to the operating system before its request is answered, so it
survives the death of the process at any moment (kill -9 included). It survives a power failure
only with fsync "always", where the answer waits for the disk (many changes share one sync), or
up to `fsync_interval_s` seconds of them are lost with "interval". A half-written last record,
which only an interrupted write leaves, is cut off with a warning; anything else that cannot be
read stops the start, because what follows a hole is not the truth.

Files: `snapshot-<revision>` (all objects as of a revision) and `journal-<revision>` (changes
after that revision). A snapshot replaces the older files only when it is complete.
"""

import asyncio
import fcntl
import logging
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

import msgspec

from stromboli.sandbox.changes import Change, Stored
from stromboli.sandbox.errors import DataDirectoryInUse, JournalCorrupt

__all__ = ["FsyncPolicy", "Journal", "Put", "Record", "Removed", "Summit"]

_LOG: Final = logging.getLogger("stromboli.sandbox.journal")
_HEADER: Final = struct.Struct("<II")
_MAX_RECORD_BYTES: Final = 64 * 1024 * 1024

FsyncPolicy: TypeAlias = Literal["never", "interval", "always"]


class Put(msgspec.Struct, frozen=True, tag="p", array_like=True):
    revision: int
    resource: str
    namespace: str
    name: str
    body: bytes


class Removed(msgspec.Struct, frozen=True, tag="d", array_like=True):
    revision: int
    resource: str
    namespace: str
    name: str


class Summit(msgspec.Struct, frozen=True, tag="s", array_like=True):
    """The last record of a snapshot: it is complete, and stands for this revision."""

    revision: int


Record: TypeAlias = Put | Removed | Summit

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Record)


def framed(record: Record) -> bytes:
    payload = _ENCODER.encode(record)
    return _HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def read_records(path: Path, *, torn_tail_is_cut: bool) -> Iterator[Record]:
    """The records of a file; a torn last one is truncated away if that is allowed."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        offset = 0
        while offset < size:
            payload, end = _read_payload(file, offset)
            if payload is not None:
                try:
                    yield _DECODER.decode(payload)
                except msgspec.MsgspecError as error:
                    raise JournalCorrupt(str(path), f"record at byte {offset}: {error}") from error
                offset = end
                continue
            if not torn_tail_is_cut or end < size:
                raise JournalCorrupt(str(path), f"damaged record at byte {offset} of {size}")
            _LOG.warning(
                "journal.torn_tail_cut",
                extra={"path": str(path), "kept_bytes": offset, "cut_bytes": size - offset},
            )
            file.truncate(offset)
            return


def _read_payload(file: BinaryIO, offset: int) -> tuple[bytes | None, int]:
    """The next payload, or None if it is damaged, and where the record ends or should have."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None, offset + _HEADER.size
    length, checksum = _HEADER.unpack(header)
    end = offset + _HEADER.size + length
    if not 0 < length <= _MAX_RECORD_BYTES:
        return None, offset
    payload = file.read(length)
    return (payload if zlib.crc32(payload) == checksum else None), end


class Journal:
    """The data directory of one server; it holds the directory's lock while open."""

    def __init__(self, directory: Path, *, fsync: FsyncPolicy, snapshot_bytes: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._fsync = fsync
        self._snapshot_bytes = snapshot_bytes
        self._lock = self._acquire_lock()
        self._file = -1
        self._bytes = 0
        self._dirty = False
        self._syncing: asyncio.Task[None] | None = None

    def _acquire_lock(self) -> int:
        descriptor = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DataDirectoryInUse(str(self._directory)) from None
        return descriptor

    @property
    def has_snapshot(self) -> bool:
        return bool(self._numbered("snapshot"))

    def replay(self) -> Iterator[Record]:
        """All that was kept, oldest first; afterwards the journal is open for recording."""
        for leftover in self._directory.glob("*.tmp"):
            leftover.unlink()
        snapshots = self._numbered("snapshot")
        base = 0
        if snapshots:
            base, path = snapshots[-1]
            complete = False
            for record in read_records(path, torn_tail_is_cut=False):
                complete = isinstance(record, Summit)
                yield record
            if not complete:
                raise JournalCorrupt(str(path), "the snapshot has no last record")
        segments = [item for item in self._numbered("journal") if item[0] >= base]
        for number, (_, path) in enumerate(segments):
            # Only the file that was being written can end in the middle of a record.
            yield from read_records(path, torn_tail_is_cut=number == len(segments) - 1)
        self._open(segments[-1][1] if segments else self._path("journal", base))

    def _numbered(self, kind: str) -> list[tuple[int, Path]]:
        found = [
            (int(path.name.removeprefix(f"{kind}-")), path)
            for path in self._directory.glob(f"{kind}-*")
            if path.name.removeprefix(f"{kind}-").isdigit()
        ]
        return sorted(found)

    def _path(self, kind: str, revision: int) -> Path:
        return self._directory / f"{kind}-{revision:020d}"

    def _open(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._bytes = path.stat().st_size

    def record(self, change: Change) -> None:
        subject = change.new
        record: Record
        if subject is not None:
            record = Put(
                change.revision,
                change.resource,
                subject.namespace,
                subject.name,
                subject.body,
            )
        else:
            gone = change.old
            if gone is None:
                raise ValueError(f"change {change.revision} is neither a put nor a delete")
            record = Removed(change.revision, change.resource, gone.namespace, gone.name)
        data = framed(record)
        written = os.write(self._file, data)
        if written != len(data):
            # A full disk: take back the half record, so that what follows can be read.
            os.ftruncate(self._file, self._bytes)
            raise OSError(f"journal took {written} of {len(data)} bytes; is the disk full?")
        self._bytes += written
        self._dirty = True

    async def durable(self) -> None:
        """Wait until what was recorded so far is as safe as the policy promises."""
        if self._fsync != "always":
            return
        while self._dirty or self._syncing is not None:
            await self._sync()

    async def sync_every(self, interval_s: float) -> None:
        """The background half of fsync "interval"."""
        while True:
            await asyncio.sleep(interval_s)
            if self._dirty:
                await self._sync()

    async def _sync(self) -> None:
        """Join the sync that is under way, or start one for all that was recorded so far."""
        if self._syncing is None:
            self._dirty = False
            self._syncing = asyncio.create_task(asyncio.to_thread(os.fsync, self._file))
        syncing = self._syncing
        try:
            # Shielded: one request that is given up must not fail the others that wait.
            await asyncio.shield(syncing)
        finally:
            if self._syncing is syncing and syncing.done():
                self._syncing = None

    @property
    def wants_snapshot(self) -> bool:
        return self._bytes >= self._snapshot_bytes

    async def snapshot(self, revision: int, objects: list[tuple[str, Stored]]) -> None:
        """Write all objects of a revision beside the log, then drop what it replaces.

        The caller collected `objects` and calls this without an await in between, so the new
        journal file starts exactly where the snapshot ends. Should the process die half-way,
        the older snapshot and both journal files still tell everything.
        """
        previous = self._file
        if self._fsync == "always" and self._dirty:
            os.fsync(previous)
        replaced = [path for _, path in self._numbered("snapshot") + self._numbered("journal")]
        self._open(self._path("journal", revision))
        try:
            await asyncio.to_thread(self._write_snapshot, revision, objects, previous)
            if self._syncing is not None:
                await asyncio.shield(self._syncing)
        finally:
            os.close(previous)
        kept = {self._path("journal", revision), self._path("snapshot", revision)}
        for path in replaced:
            if path not in kept:
                path.unlink(missing_ok=True)

    def _write_snapshot(
        self, revision: int, objects: list[tuple[str, Stored]], previous: int
    ) -> None:
        os.fsync(previous)
        target = self._path("snapshot", revision)
        scratch = target.with_suffix(".tmp")
        with scratch.open("wb") as file:
            for resource, stored in objects:
                record = Put(stored.revision, resource, stored.namespace, stored.name, stored.body)
                file.write(framed(record))
            file.write(framed(Summit(revision)))
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(target)

    async def close(self) -> None:
        if self._syncing is not None:
            await asyncio.shield(self._syncing)
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1
        os.close(self._lock)
