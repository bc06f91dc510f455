"""Whose intents are heard, as the leases on a real bus say it."""

import asyncio
import contextlib

import msgspec
import pytest

from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import CONTRACT, Fence
from stromboli.contracts.leases import LeaseValue, lease_subject
from stromboli.contracts.streams import LEASES
from stromboli.gateway import lease_book
from stromboli.gateway.lease_book import FenceIs, LeaseBook
from stromboli.runtime.bus.leases import held_lease
from stromboli.testkit.bus_fixtures import Bus

pytestmark = pytest.mark.nats

SCHEDULER, CONTROLLERS = ("scheduler", "-"), ("controllers", "-")
LOG = "2026-01-01T00:00:00Z"
"""The INTENT that fences stand on."""


class Leases:
    """The leases, written as their holders write them, and the book that reads them."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.book = LeaseBook(bus.jetstream, bus.publisher)

    async def acquire(self, service: str = "scheduler", holder: str = "one") -> Epoch:
        revision = await self._write(service, LeaseValue(holder, f"keeper of {holder}"))
        return await self._epoch(service, revision)

    async def note_fence(
        self, epoch: Epoch, fence: int, *, log: str = LOG, service: str = "scheduler"
    ) -> None:
        """A renewal by the holder, which knows now where its fence stands."""
        value = LeaseValue("one", "keeper of one", epoch.revision, log, fence)
        await self._write(service, value)

    async def release(self, service: str = "scheduler") -> None:
        await self.bus.publisher.publish(
            lease_subject(service), b"", headers={"KV-Operation": "DEL"}
        )

    async def _write(self, service: str, value: LeaseValue) -> int:
        payload = msgspec.json.encode(value)
        return (await self.bus.publisher.publish(lease_subject(service), payload)).seq

    async def _epoch(self, service: str, revision: int) -> Epoch:
        bucket = await self.bus.jetstream.stream_info(LEASES.name)
        stored = await self.bus.jetstream.last_message(LEASES.name, lease_subject(service))
        assert stored is not None
        held = held_lease(stored, bucket.created)
        assert held is not None
        assert held.epoch.revision == revision
        return held.epoch

    async def raised(self, epoch: Epoch, sequence: int, service: str = "scheduler") -> FenceIs:
        self.book.fence_arrived((service, "-"))
        fence = Fence(id="f", key="f", service=service, epoch=epoch, contract=CONTRACT)
        return await self.book.raise_fence((service, "-"), fence, sequence, LOG)

    async def accepts(
        self,
        epoch: Epoch,
        sequence: int = 5,
        *,
        begun: bool = False,
        service: str = "scheduler",
    ) -> bool:
        return await self.book.accepts((service, "-"), epoch, sequence, may_have_begun=begun)


@pytest.fixture
async def leases(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> Leases:
    monkeypatch.setattr(lease_book, "_PATIENCE_S", 0.3)
    return Leases(bus)


# Fences.


async def test_the_fence_that_the_lease_names_is_raised(leases: Leases):
    epoch = await leases.acquire()
    await leases.note_fence(epoch, 10)

    assert await leases.raised(epoch, 10) is FenceIs.RAISED


@pytest.mark.parametrize("revision", [1, 2**62])
async def test_a_fence_of_another_epoch_than_the_leases_is_foreign_however_large(
    leases: Leases, revision: int
):
    epoch = await leases.acquire()
    await leases.note_fence(epoch, 10)
    false = Epoch(epoch.bucket_created_ns, revision + epoch.revision)

    assert await leases.raised(false, 10) is FenceIs.FOREIGN
    assert await leases.accepts(epoch)
    assert not await leases.accepts(false)
    # And the true holder's fence is raised all the same.
    assert await leases.raised(epoch, 10) is FenceIs.RAISED


async def test_a_fence_without_a_lease_is_foreign(leases: Leases):
    assert await leases.raised(Epoch(1, 1), 10) is FenceIs.FOREIGN

    epoch = await leases.acquire()
    await leases.note_fence(epoch, 10)
    await leases.release()

    assert await leases.raised(epoch, 10) is FenceIs.FOREIGN


async def test_the_fence_of_a_deposed_holder_is_foreign(leases: Leases):
    former = await leases.acquire(holder="one")
    await leases.note_fence(former, 10)
    await leases.acquire(holder="two")

    assert await leases.raised(former, 10) is FenceIs.FOREIGN


async def test_a_lease_of_another_service_names_no_fence_of_ours(leases: Leases):
    epoch = await leases.acquire("controllers")
    await leases.note_fence(epoch, 10, service="controllers")

    assert await leases.raised(epoch, 10, "scheduler") is FenceIs.FOREIGN
    assert await leases.raised(epoch, 10, "controllers") is FenceIs.RAISED


async def test_a_fence_that_was_stored_twice_counts_where_the_lease_says(leases: Leases):
    epoch = await leases.acquire()
    await leases.note_fence(epoch, 12)

    assert await leases.raised(epoch, 10) is FenceIs.A_COPY
    assert await leases.raised(epoch, 12) is FenceIs.RAISED
    assert await leases.raised(epoch, 14) is FenceIs.FOREIGN


async def test_a_holder_may_note_its_fence_after_we_have_received_it(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lease_book, "_PATIENCE_S", 10.0)
    epoch = await leases.acquire()
    waiting = asyncio.create_task(leases.raised(epoch, 10))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            await asyncio.shield(waiting)
    assert not waiting.done()

    await leases.note_fence(epoch, 10)

    async with asyncio.timeout(5):
        assert await waiting is FenceIs.RAISED


async def test_a_fence_that_is_never_noted_is_foreign(leases: Leases):
    epoch = await leases.acquire()

    assert await leases.raised(epoch, 10) is FenceIs.FOREIGN


async def test_a_fence_on_another_log_says_nothing_about_this_one(leases: Leases):
    """INTENT was lost and made anew: its sequences begin again."""
    epoch = await leases.acquire()
    await leases.note_fence(epoch, 10, log="2025-01-01T00:00:00Z")

    assert await leases.raised(epoch, 10) is FenceIs.FOREIGN


# Intents.


async def test_the_holder_of_the_lease_is_heard(leases: Leases):
    epoch = await leases.acquire()

    assert await leases.accepts(epoch)
    assert not await leases.accepts(epoch, service="controllers")


async def test_who_is_met_without_a_lease_is_not_heard(leases: Leases):
    assert not await leases.accepts(Epoch(1, 1))


async def test_a_deposed_holder_is_not_heard(leases: Leases):
    former = await leases.acquire(holder="one")
    epoch = await leases.acquire(holder="two")

    assert not await leases.accepts(former)
    assert await leases.accepts(epoch)


async def test_the_book_is_read_anew_when_a_fence_arrives(leases: Leases):
    former = await leases.acquire(holder="one")
    assert await leases.accepts(former)
    epoch = await leases.acquire(holder="two")
    # What came before the new holder's fence is applied, and its answer tells of it.
    assert await leases.accepts(former)
    assert not await leases.accepts(epoch)

    leases.book.fence_arrived(CONTROLLERS)
    assert await leases.accepts(former)

    leases.book.fence_arrived(SCHEDULER)

    assert not await leases.accepts(former)
    assert await leases.accepts(epoch)


async def test_what_may_have_been_begun_before_the_fence_is_finished(leases: Leases):
    former = await leases.acquire(holder="one")
    epoch = await leases.acquire(holder="two")
    await leases.note_fence(epoch, 10)

    assert await leases.accepts(former, 9, begun=True)
    assert not await leases.accepts(former, 9, begun=False)
    assert not await leases.accepts(former, 11, begun=True)


async def test_what_came_behind_a_raised_fence_is_refused(leases: Leases):
    former = await leases.acquire(holder="one")
    epoch = await leases.acquire(holder="two")
    await leases.note_fence(epoch, 10)
    await leases.raised(epoch, 10)

    assert not await leases.accepts(former, 11, begun=True)
    assert await leases.accepts(former, 9, begun=True)
    assert await leases.accepts(epoch, 11)


async def test_what_may_have_been_begun_is_finished_while_no_fence_is_noted(leases: Leases):
    former = await leases.acquire(holder="one")
    await leases.acquire(holder="two")

    assert await leases.accepts(former, 9, begun=True)
    assert not await leases.accepts(former, 9, begun=False)


async def test_what_may_have_been_begun_is_finished_while_nobody_leads(leases: Leases):
    former = await leases.acquire()
    await leases.release()

    assert await leases.accepts(former, 9, begun=True)
    assert not await leases.accepts(former, 9, begun=False)
