"""Who leads: a KV key per service and shard, with an epoch that tells holders apart.

The key lives as long as its time to live, which each renewal sets anew; when it runs out the
server leaves a marker. The epoch is the revision of the write that acquired the lease, and
stands in the value unchanged by renewals. A holder counts its lease from *before* it asked
for the renewal, so it stops believing in it before anybody else may acquire it.

A renewal reads the key before it writes: only the value tells a lost acknowledgement (ours,
go on) from another holder, also in a bucket that was made anew and counts from 1 again.

Who finds its own name there takes the lease at once. Another process cannot bear that name at
the same time, so this is what a former process left behind when it was killed.
"""

import asyncio
import contextlib
import math
import secrets
from collections.abc import AsyncGenerator, Coroutine
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from stromboli.contracts.epochs import Epoch
from stromboli.contracts.leases import LeaseValue, lease_subject
from stromboli.contracts.streams import LEASES
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.errors import BusError, LeaseLost, Unanswered, WrongLastSequence
from stromboli.runtime.bus.jetstream import NANOSECONDS, JetStream, Stored
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger

log = get_logger(__name__)

T = TypeVar("T")

_RENEWALS_PER_LIFE = 5
_RELEASE_ATTEMPTS = 3
_MARKER = "Nats-Marker-Reason"
_OPERATION = "KV-Operation"


class Lease:
    """A lease that is held, until it is lost; then it stays lost.

    Whoever has once seen that it is over has given up something on account of it, so a renewal
    whose acknowledgement comes later must not bring it back.
    """

    def __init__(self, epoch: Epoch, clock: Clock, life_s: float) -> None:
        self.epoch = epoch
        self.fence = 0
        """The sequence of our fence on INTENT, see `LeaseKeeper.note_fence`."""
        self.fence_log = ""
        self._clock = clock
        self._life_s = life_s
        self._valid_until = 0.0
        self.lost = asyncio.Event()

    def extend(self, asked_at: float) -> None:
        if not self.lost.is_set():
            self._valid_until = asked_at + self._life_s

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._valid_until - self._clock.monotonic())

    @property
    def held(self) -> bool:
        """May we still act in its name? Ask before every effect. The first no is the last word."""
        if not self.remaining_s:
            self.lost.set()
        return not self.lost.is_set()

    async def throughout(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this as long as the lease is held; raises LeaseLost when it no longer is."""
        working = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait((working, losing), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise LeaseLost(str(self.epoch))
        finally:
            for task in (working, losing):
                task.cancel()
            await asyncio.wait((working, losing))


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
        self._subject = lease_subject(service, shard)
        self._holder = holder
        self._keeper = secrets.token_hex(8)
        self._life_s = life_s
        self._newest = 0
        """The newest of our writes that was acknowledged; an answer without it is outdated."""
        self._renewing = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def lead(self) -> AsyncGenerator[Lease]:
        """Wait for the lease, hold it during the block, give it back at the end.

        When the lease is lost meanwhile, `lease.lost` is set; leaving is the block's duty.
        """
        lease = await self._acquire()
        log.info("lease.acquired", lease=self._subject, epoch=str(lease.epoch))
        keeping = asyncio.create_task(self._keep(lease), name=f"keep {self._subject}")
        try:
            yield lease
        finally:
            keeping.cancel()
            try:
                # Waited for and not awaited: who is cancelled at this moment must hear of it.
                await asyncio.wait((keeping,))
                if lease.held:
                    await self._release(lease)
            finally:
                lease.lost.set()

    async def _acquire(self) -> Lease:
        waiting = False
        while True:
            try:
                acquired = await self._try_to_acquire()
            except BusError as problem:
                log.debug("lease.unavailable", lease=self._subject, problem=str(problem))
                acquired = None
            if acquired is not None and acquired.held:
                return acquired
            if not waiting:
                waiting = True
                log.info("lease.waiting", lease=self._subject)
            await asyncio.sleep(self._life_s / _RENEWALS_PER_LIFE / 2)

    async def _try_to_acquire(self) -> Lease | None:
        bucket = await self._jetstream.stream_info(LEASES.name)
        last = await self._jetstream.last_message(LEASES.name, self._subject)
        value = None if last is None else _value(last)
        # One of our own: of an earlier attempt whose acknowledgement was lost, or of a process
        # of our name that was killed. What it asked for and we do not know of, our fence finds.
        if value is not None and value.keeper != self._keeper and value.holder != self._holder:
            return None
        asked_at = self._clock.monotonic()
        try:
            revision = await self._write(
                LeaseValue(self._holder, self._keeper),
                expect_last=0 if last is None else last.sequence,
            )
        except WrongLastSequence:
            return None
        # A revision means something only in the bucket that it was written to.
        again = await self._jetstream.stream_info(LEASES.name)
        if again.created != bucket.created:
            return None
        self._newest = revision
        lease = Lease(Epoch(_nanoseconds(bucket.created), revision), self._clock, self._life_s)
        lease.extend(asked_at)
        return lease

    async def _keep(self, lease: Lease) -> None:
        while lease.held:
            try:
                async with asyncio.timeout(lease.remaining_s):
                    await asyncio.sleep(self._life_s / _RENEWALS_PER_LIFE)
                    asked_at = self._clock.monotonic()
                    if not await self._renew(lease):
                        break
            except TimeoutError:
                break
            except BusError as problem:
                log.warning("lease.renewal_failed", lease=self._subject, problem=str(problem))
                continue
            lease.extend(asked_at)
        log.warning("lease.lost", lease=self._subject, epoch=str(lease.epoch))
        lease.lost.set()

    async def note_fence(self, lease: Lease, *, log_created: str, sequence: int) -> None:
        """Write into the lease where the fence of its holder stands; renewals keep it there."""
        lease.fence_log, lease.fence = log_created, sequence
        while True:
            asked_at = self._clock.monotonic()
            try:
                if not await self._renew(lease):
                    lease.lost.set()
                    raise LeaseLost(str(lease.epoch))
            except LeaseLost:
                raise
            except BusError as problem:
                log.info("lease.fence_not_noted", lease=self._subject, problem=str(problem))
                await asyncio.sleep(self._life_s / _RENEWALS_PER_LIFE / 2)
                continue
            lease.extend(asked_at)
            return

    async def _renew(self, lease: Lease) -> bool:
        """Is it still ours, and now for longer? Not knowing is an error, not a no."""
        async with self._renewing:
            return await self._renew_alone(lease)

    async def _renew_alone(self, lease: Lease) -> bool:
        last = await self._jetstream.last_message(LEASES.name, self._subject)
        if last is None or last.sequence < self._newest:
            # Of a server that was replaced, or of a bucket that was made anew.
            raise Unanswered(self._subject, "what stands there is older than what we wrote")
        if not self._is_of(lease, last):
            return False
        value = LeaseValue(
            self._holder, self._keeper, lease.epoch.revision, lease.fence_log, lease.fence
        )
        self._newest = await self._write(value, expect_last=last.sequence)
        return True

    def _is_of(self, lease: Lease, stored: Stored) -> bool:
        value = _value(stored)
        if value is None or value.keeper != self._keeper:
            return False
        return (value.revision or stored.sequence) == lease.epoch.revision

    async def _write(self, value: LeaseValue, *, expect_last: int) -> int:
        ack = await self._publisher.publish(
            self._subject,
            msgspec.json.encode(value),
            expect_last=expect_last,
            # Whole seconds on the server's side, and never fewer than we believe in.
            ttl_s=math.ceil(self._life_s),
        )
        return ack.seq

    async def _release(self, lease: Lease) -> None:
        for _ in range(_RELEASE_ATTEMPTS):
            try:
                last = await self._jetstream.last_message(LEASES.name, self._subject)
                if last is not None and self._is_of(lease, last):
                    await self._publisher.publish(
                        self._subject,
                        b"",
                        headers={_OPERATION: "DEL"},
                        expect_last=last.sequence,
                    )
                    log.info("lease.released", lease=self._subject)
            except WrongLastSequence:
                continue  # a renewal of ours was still on its way
            except BusError as problem:
                log.info("lease.left_to_expire", lease=self._subject, problem=str(problem))
            return


class HeldLease(msgspec.Struct, frozen=True):
    """What somebody who does not hold it reads of a lease."""

    epoch: Epoch
    value: LeaseValue


def held_lease(stored: Stored, bucket_created: str) -> HeldLease | None:
    """The lease that stands under its key; None if nobody holds it."""
    value = _value(stored)
    if value is None:
        return None
    epoch = Epoch(_nanoseconds(bucket_created), value.revision or stored.sequence)
    return HeldLease(epoch, value)


def _value(stored: Stored) -> LeaseValue | None:
    """Who holds it; None if nobody does, or nobody who can be recognised."""
    if _MARKER in stored.headers or stored.headers.get(_OPERATION) in {"DEL", "PURGE"}:
        return None
    try:
        return msgspec.json.decode(stored.payload, type=LeaseValue)
    except msgspec.DecodeError:
        return None


def _nanoseconds(created: str) -> int:
    """RFC 3339 with nanoseconds, which Python's own parser cuts to microseconds."""
    date, _, rest = created.partition(".")
    digits = "".join(c for c in rest if c.isdigit()).ljust(9, "0")[:9] if rest else "0"
    seconds = datetime.fromisoformat(f"{date.removesuffix('Z')}Z").timestamp()
    return int(seconds) * NANOSECONDS + int(digits)
