import asyncio
import contextlib
import time

import msgspec
import pytest

from stromboli.contracts.epochs import Epoch
from stromboli.contracts.leases import LeaseValue
from stromboli.contracts.streams import LEASES
from stromboli.runtime.bus.errors import BusError, LeaseLost
from stromboli.runtime.bus.leases import Lease
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.clock import ManualClock
from stromboli.testkit.lease_candidates import Candidate, candidates, keeper
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

SUBJECT = "$KV.LEASES.scheduler.-"


async def stored_value(bus: Bus) -> tuple[LeaseValue, int]:
    stored = await bus.jetstream.last_message(LEASES.name, SUBJECT)
    assert stored is not None
    assert stored.payload, "nobody holds it"
    return msgspec.json.decode(stored.payload, type=LeaseValue), stored.sequence


async def cut_off(bus: Bus) -> None:
    """Break this member's link, and let it stay broken."""
    client = bus.connection._client
    client.options["reconnect_time_wait"] = 60
    await client._process_op_err(ConnectionResetError("cut by the test"))


async def test_one_of_two_leads(bus: Bus, nats_server: NatsServer):
    # A life that a busy machine does not use up between two renewals.
    async with candidates(nats_server, life_s=3) as (a, b):
        await eventually(lambda: a.leads or b.leads, describe="a leader")
        leader, other = (a, b) if a.leads else (b, a)
        renewed = (await stored_value(bus))[1]

        async def outlived() -> bool:
            assert not other.leads
            return (await stored_value(bus))[1] > renewed + 5

        # More renewals than one life has, so the lease would have run out.
        await eventually(outlived, interval_s=0.05, describe="six renewals")
        assert leader.leads
        assert (len(leader.terms), len(other.terms)) == (1, 0)


async def test_renewals_keep_the_epoch(bus: Bus):
    async with keeper(bus, "a", life_s=3).lead() as lease:
        bucket = await bus.jetstream.stream_info(LEASES.name)
        first = lease.epoch.revision

        async def renewed() -> bool:
            return (await stored_value(bus))[1] >= first + 3

        await eventually(renewed, interval_s=0.05, describe="three renewals")

        value, _ = await stored_value(bus)
        assert lease.epoch.revision == first == value.revision
        assert str(lease.epoch.bucket_created_ns)[-9:].startswith(
            bucket.created.partition(".")[2].rstrip("Z").rstrip("0")
        )


async def test_a_dead_holder_is_replaced_when_its_life_is_over(bus: Bus, nats_server: NatsServer):
    async with join(nats_server, "scheduler") as other:
        dead = await keeper(bus, "dead")._acquire()
        since = time.monotonic()

        async with keeper(other, "heir").lead() as lease:
            waited_s = time.monotonic() - since
            assert not dead.held
            assert lease.epoch > dead.epoch

    assert 0.9 < waited_s < 3.5


async def test_a_released_lease_is_handed_over_at_once(bus: Bus, nats_server: NatsServer):
    async with join(nats_server, "scheduler") as other:
        heir = Candidate(other, "heir", life_s=10)
        async with contextlib.AsyncExitStack() as stack:
            async with keeper(bus, "a", life_s=10).lead() as lease:
                await stack.enter_async_context(background(heir.run()))
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await eventually(lambda: heir.terms)
            assert not lease.held

            await eventually(lambda: heir.leads, deadline_s=3, describe="the heir")
            assert heir.terms[0].epoch > lease.epoch


async def test_a_lease_survives_a_quick_restart_of_the_server(bus: Bus, nats_server: NatsServer):
    async with keeper(bus, "a", life_s=5).lead() as lease:
        await nats_server.restart(hard=True)
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        _, before = await stored_value(bus)

        async def renewed() -> bool:
            return (await stored_value(bus))[1] > before

        await eventually(renewed, interval_s=0.05, describe="a renewal")
        assert lease.held


async def test_a_dead_holders_lease_runs_out_across_a_restart_of_the_server(
    bus: Bus, nats_server: NatsServer
):
    dead = await keeper(bus, "dead")._acquire()
    await nats_server.restart(hard=True)
    async with (
        join(nats_server, "scheduler") as other,
        asyncio.timeout(6),
        keeper(other, "heir").lead() as lease,
    ):
        assert not dead.held
        assert lease.epoch > dead.epoch


async def test_after_a_total_loss_the_next_epoch_is_still_greater(
    bus: Bus, nats_server: NatsServer
):
    async with candidates(nats_server) as (a, b):
        await eventually(lambda: a.leads or b.leads, describe="a leader")
        old = (a.terms or b.terms)[0]
        await nats_server.lose_all_data()
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        await reconcile(bus.jetstream, [LEASES])

        await eventually(lambda: len(a.terms) + len(b.terms) == 2, describe="the next leader")
        new = max((*a.terms, *b.terms), key=lambda term: term.epoch)

        assert new is not old
        await eventually(lambda: not old.held, deadline_s=3, describe="the old one to give up")
        assert new.held
        assert new.epoch.revision <= old.epoch.revision + 1, "revisions count from 1 again"


async def test_an_old_revision_does_not_steal_a_lease_in_a_new_bucket(
    bus: Bus, nats_server: NatsServer
):
    """The new holder's write may well have the number that the old holder expects."""
    async with join(nats_server, "scheduler") as one, join(nats_server, "scheduler") as two:
        old_keeper = keeper(one, "old", life_s=30)
        old = await old_keeper._acquire()
        await nats_server.lose_all_data()
        await eventually(lambda: two.connection.reconnects, describe="the reconnect")
        await reconcile(bus.jetstream, [LEASES])
        new = await keeper(two, "new", life_s=30)._acquire()
        assert new.epoch.revision == old.epoch.revision
        await eventually(lambda: one.connection.reconnects, describe="the old one's reconnect")

        assert not await old_keeper._renew(old)

        value, _ = await stored_value(bus)
        assert value.holder == "new"
        assert new.epoch > old.epoch


async def test_a_holder_that_is_cut_off_stops_believing_before_another_acquires(
    bus: Bus, nats_server: NatsServer
):
    async with candidates(nats_server) as (a, b):
        await eventually(lambda: a.leads or b.leads, describe="a leader")
        leader, other = (a, b) if a.leads else (b, a)
        old = leader.terms[0]
        await cut_off(leader.bus)

        await eventually(lambda: other.leads, deadline_s=4, describe="the other to lead")
        assert other.overlaps == 0
        assert not old.held
        async with asyncio.timeout(2):
            await old.lost.wait()

    assert len(leader.terms) == 1


async def test_a_frozen_server_ends_the_belief_in_time(bus: Bus, nats_server: NatsServer):
    async with contextlib.AsyncExitStack() as stack:
        lease = await stack.enter_async_context(keeper(bus, "a").lead())
        nats_server.pause()
        since = time.monotonic()

        async with asyncio.timeout(3):
            await lease.lost.wait()

        assert time.monotonic() - since < 2.5
        nats_server.resume()


async def test_a_lease_that_was_seen_to_be_over_is_not_brought_back_by_a_late_renewal():
    clock = ManualClock()
    lease = Lease(Epoch(1, 1), clock, 4.0)
    lease.extend(clock.monotonic())
    asked_at = clock.monotonic()
    await clock.advance(4.1)
    assert not lease.held

    lease.extend(asked_at + 1)

    assert not lease.held
    assert lease.lost.is_set()


async def test_a_lease_that_nobody_has_seen_over_goes_on_with_its_renewal():
    clock = ManualClock()
    lease = Lease(Epoch(1, 1), clock, 4.0)
    lease.extend(clock.monotonic())
    asked_at = clock.monotonic() + 1
    await clock.advance(4.1)

    lease.extend(asked_at)

    assert lease.held


async def test_a_lost_acknowledgement_of_a_renewal_does_not_depose(bus: Bus):
    mine = keeper(bus, "a")
    async with mine.lead() as lease:
        for _ in range(4):
            # What the keeper would have written; it never hears that it was stored.
            value, last = await stored_value(bus)
            await bus.publisher.publish(
                SUBJECT,
                msgspec.json.encode(
                    LeaseValue("a", mine._keeper, value.revision or lease.epoch.revision)
                ),
                expect_last=last,
                ttl_s=1,
            )

            async def renewed(beyond: int = last + 1) -> bool:
                return (await stored_value(bus))[1] > beyond

            await eventually(renewed, interval_s=0.02, describe="the next renewal")
        assert lease.held
        assert not lease.lost.is_set()


async def test_a_lost_acknowledgement_of_an_acquisition_costs_no_life(bus: Bus):
    mine = keeper(bus, "a", life_s=30)
    first = await mine._acquire()

    async with asyncio.timeout(2), mine.lead() as lease:
        assert lease.epoch > first.epoch


async def test_who_finds_its_own_name_takes_the_lease_at_once(bus: Bus):
    """Its former process was killed, and has a long time to live yet."""
    killed = await keeper(bus, "same", life_s=30)._acquire()
    since = time.monotonic()

    async with keeper(bus, "same", life_s=30).lead() as lease:
        assert time.monotonic() - since < 5
        assert lease.epoch > killed.epoch


async def test_a_process_whose_name_another_took_over_loses_the_lease(
    bus: Bus, nats_server: NatsServer
):
    async with join(nats_server, "scheduler") as other, contextlib.AsyncExitStack() as stack:
        frozen = await stack.enter_async_context(keeper(bus, "same", life_s=2).lead())
        again = await stack.enter_async_context(keeper(other, "same", life_s=2).lead())

        async with asyncio.timeout(10):
            await frozen.lost.wait()
        assert again.held


async def test_renewals_keep_the_fence(bus: Bus):
    one = keeper(bus, "a")
    async with one.lead() as lease:
        await one.note_fence(lease, log_created="a log", sequence=7)
        value, noted = await stored_value(bus)
        assert (value.fence, value.fence_log) == (7, "a log")
        assert value.revision == lease.epoch.revision

        async def renewed() -> bool:
            return (await stored_value(bus))[1] >= noted + 3

        await eventually(renewed, interval_s=0.05, describe="three renewals")
        assert (await stored_value(bus))[0] == value

    async with keeper(bus, "b").lead():
        value, _ = await stored_value(bus)
        assert (value.fence, value.fence_log) == (0, ""), "a fence is of one holder"


async def test_what_is_done_throughout_a_lease_ends_with_it(bus: Bus):
    async with keeper(bus, "a").lead() as lease:
        assert await lease.throughout(asyncio.sleep(0, "done")) == "done"
        lease.lost.set()
        with pytest.raises(LeaseLost):
            async with asyncio.timeout(5):
                await lease.throughout(asyncio.sleep(3600))


async def test_a_lease_of_another_is_never_released(bus: Bus):
    old_keeper = keeper(bus, "old")
    old = await old_keeper._acquire()
    await eventually(lambda: not old.held, describe="the end of its life")
    async with keeper(bus, "new", life_s=5).lead() as new:
        await old_keeper._release(old)

        value, _ = await stored_value(bus)
        assert value.holder == "new"
        assert new.held


async def test_a_lease_waits_until_its_bucket_is_there(nats_server: NatsServer):
    async with join(nats_server, "scheduler") as bus:
        candidate = Candidate(bus, "a")
        async with background(candidate.run()):
            with pytest.raises(BusError):
                await candidate.keeper._try_to_acquire()
            await reconcile(bus.jetstream, [LEASES])

            await eventually(lambda: candidate.leads, describe="the lease")


async def test_a_lease_life_is_never_shorter_on_the_server_than_for_its_holder(bus: Bus):
    await keeper(bus, "a", life_s=1.4)._acquire()

    stored = await bus.jetstream.last_message(LEASES.name, SUBJECT)

    assert stored is not None
    assert stored.headers["Nats-TTL"] == "2s"
