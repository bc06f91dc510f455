"""Who leads: a KV key per service and shard, with an epoch that tells holders apart.

The key lives as long as its time to live, which each renewal sets anew; when it runs out the
server leaves a marker. The epoch is the revision of the write that acquired the lease, and
stands in the value unchanged by renewals. A holder counts its lease from *before* it asked
for the renewal, so it stops believing in it before anybody else may acquire it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import datetime

import msgspec

from stromboli.contracts.epochs import Epoch
from stromboli.contracts.streams import LEASE_SUBJECT, LEASES
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.errors import BusError, WrongLastSequence
from stromboli.runtime.bus.jetstream import NANOSECONDS, JetStream, Stored
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger

log = get_logger(__name__)

_RENEWALS_PER_LIFE = 5
_MARKER = "Nats-Marker-Reason"
_OPERATION = "KV-Operation"


class LeaseValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands in the key. The acquiring write does not know its own revision yet: 0."""

    holder: str
    revision: int = 0


class Lease:
    """A lease that is held, until it is lost."""

    def __init__(self, epoch: Epoch, clock: Clock, life_s: float) -> None:
        self.epoch = epoch
        self._clock = clock
        self._life_s = life_s
        self._valid_until = 0.0
        self.lost = asyncio.Event()

    def extend(self, asked_at: float) -> None:
        self._valid_until = asked_at + self._life_s

    @property
    def held(self) -> bool:
        """May we still act in its name? Ask before every effect."""
        return not self.lost.is_set() and self._clock.monotonic() < self._valid_until


class LeaseKeeper:
    """Acquires one lease, keeps it, and says when it is gone."""

    def __init__(
        self,
        jetstream: JetStream,
        publisher: Publisher,
        clock: Clock,
        *,
        service: str,
        holder: str,
        shard: str = CLUSTER,
        life_s: float = 4.0,
    ) -> None:
        self._jetstream = jetstream
        self._publisher = publisher
        self._clock = clock
        self._subject = LEASE_SUBJECT.format(service=service, shard=shard)
        self._holder = holder
        self._life_s = life_s

    @contextlib.asynccontextmanager
    async def lead(self) -> AsyncGenerator[Lease]:
        """Wait for the lease, hold it during the block, give it back at the end.

        When the lease is lost meanwhile, `lease.lost` is set; leaving is the block's duty.
        """
        lease, revision = await self._acquire()
        log.info("lease.acquired", lease=self._subject, epoch=str(lease.epoch))
        keeping = asyncio.create_task(self._keep(lease, revision), name=f"keep {self._subject}")
        try:
            yield lease
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
            if lease.held:
                await self._release()
            lease.lost.set()

    async def _acquire(self) -> tuple[Lease, int]:
        waiting = False
        while True:
            try:
                acquired = await self._try_to_acquire()
            except BusError as problem:
                log.debug("lease.waiting", lease=self._subject, problem=str(problem))
                acquired = None
            if acquired is not None:
                return acquired
            if not waiting:
                waiting = True
                log.info("lease.waiting", lease=self._subject)
            await asyncio.sleep(self._life_s / _RENEWALS_PER_LIFE / 2)

    async def _try_to_acquire(self) -> tuple[Lease, int] | None:
        bucket = await self._jetstream.stream_info(LEASES.name)
        last = await self._jetstream.last_message(LEASES.name, self._subject)
        if last is not None and not _is_free(last):
            return None
        asked_at = self._clock.monotonic()
        try:
            revision = await self._write(
                LeaseValue(self._holder), expect_last=0 if last is None else last.sequence
            )
        except WrongLastSequence:
            return None
        lease = Lease(Epoch(_nanoseconds(bucket.created), revision), self._clock, self._life_s)
        lease.extend(asked_at)
        return lease, revision

    async def _keep(self, lease: Lease, revision: int) -> None:
        value = LeaseValue(self._holder, lease.epoch.revision)
        while lease.held:
            await asyncio.sleep(self._life_s / _RENEWALS_PER_LIFE)
            asked_at = self._clock.monotonic()
            try:
                revision = await self._write(value, expect_last=revision)
            except WrongLastSequence:
                # Either somebody else holds it now, or our own write was stored and its
                # answer lost: the value says which.
                mine = await self._still_mine(lease)
                if mine is None:
                    break
                revision = mine
            except BusError as problem:
                log.warning("lease.renewal_failed", lease=self._subject, problem=str(problem))
                continue
            lease.extend(asked_at)
        log.warning("lease.lost", lease=self._subject, epoch=str(lease.epoch))
        lease.lost.set()

    async def _still_mine(self, lease: Lease) -> int | None:
        try:
            last = await self._jetstream.last_message(LEASES.name, self._subject)
        except BusError:
            return None
        if last is None or _is_free(last):
            return None
        value = msgspec.json.decode(last.payload, type=LeaseValue)
        own = value.holder == self._holder and value.revision == lease.epoch.revision
        return last.sequence if own else None

    async def _write(self, value: LeaseValue, *, expect_last: int) -> int:
        ack = await self._publisher.publish(
            self._subject,
            msgspec.json.encode(value),
            expect_last=expect_last,
            ttl_s=max(1, round(self._life_s)),
        )
        return ack.seq

    async def _release(self) -> None:
        with contextlib.suppress(BusError):
            await self._publisher.publish(self._subject, b"", headers={_OPERATION: "DEL"})
            log.info("lease.released", lease=self._subject)


def _is_free(last: Stored) -> bool:
    return _MARKER in last.headers or last.headers.get(_OPERATION) in {"DEL", "PURGE"}


def _nanoseconds(created: str) -> int:
    """RFC 3339 with nanoseconds, which Python's own parser cuts to microseconds."""
    date, _, rest = created.partition(".")
    digits = "".join(c for c in rest if c.isdigit()).ljust(9, "0")[:9] if rest else "0"
    seconds = datetime.fromisoformat(f"{date.removesuffix('Z')}Z").timestamp()
    return int(seconds) * NANOSECONDS + int(digits)
