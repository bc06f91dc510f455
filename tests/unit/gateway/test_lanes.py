"""Facts on their way to one subject, when the right to write them is lost."""

import asyncio
from typing import cast

import msgspec

from stromboli.contracts import codec
from stromboli.contracts.facts import ObjectGone, ObjectSeen
from stromboli.gateway.own_sequences import OwnSequences
from stromboli.gateway.positions import Positions, Ticket
from stromboli.gateway.published import Published
from stromboli.gateway.room import Room
from stromboli.gateway.writing import FactWriter
from stromboli.runtime.bus.dead_letters import DeadLetterOffice
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.publisher import PubAck, Publisher
from stromboli.testkit.clock import ManualClock
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually


class Slow(Publisher):
    """It acknowledges when the test says so."""

    def __init__(self) -> None:
        self.sent: list[asyncio.Future[PubAck]] = []
        self.payloads: list[bytes] = []

    async def send(
        self,
        subject: str,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        expect_last: int | None = None,
        message_id: str = "",
        ttl_s: int = 0,
    ) -> "asyncio.Future[PubAck]":
        self.payloads.append(payload)
        self.sent.append(asyncio.get_running_loop().create_future())
        return self.sent[-1]

    def acknowledge(self) -> None:
        for sequence, future in enumerate(self.sent, 1):
            if not future.done():
                future.set_result(PubAck("STATE", sequence))


class Leader:
    """A writer, and the lease that it may write in the name of."""

    def __init__(self) -> None:
        self.leads = True
        self.room = Room(limit=10_000)
        self.publisher = Slow()
        self.published = Published(lambda _: None)
        self.track = Positions(ManualClock()).follow("pod", None)
        self.writer = FactWriter(
            self.publisher,
            cast("JetStream", None),
            self.published,
            cast("DeadLetterOffice", None),
            journal=None,
            room=self.room,
            own=OwnSequences(0),
            may_write=lambda: self.leads,
            compare_again=lambda _: None,
        )

    async def write(self, fact: ObjectSeen | ObjectGone) -> Ticket:
        """As a feed does it: the event's own share of its ticket is done at once."""
        ticket = self.track.event(int(fact.resource_version))
        await self.writer.write(fact, ticket)
        ticket.done()
        return ticket

    async def until_at_rest(self, fact: ObjectSeen | ObjectGone) -> None:
        await eventually(
            lambda: not self.published.is_in_flight(fact.subject()), describe="the lane's end"
        )


def pod(version: int) -> ObjectSeen:
    return ObjectSeen(
        kind="pod",
        namespace="ns",
        name="a",
        uid="u1",
        resource_version=str(version),
        projection=msgspec.Raw(msgspec.msgpack.encode({})),
    )


async def test_a_fact_that_may_not_be_written_any_more_ends_its_lane_and_stops_its_kind():
    leader = Leader()
    async with background(leader.writer.run()):
        leader.leads = False
        ticket = await leader.write(pod(1))
        await leader.until_at_rest(pod(1))

        # Nothing of the lane is left that a later fact could get stuck behind.
        again = await leader.write(pod(2))
        await leader.until_at_rest(pod(2))

    assert leader.publisher.sent == []
    assert not ticket.is_done
    assert not again.is_done
    assert leader.track.reached == 0
    assert leader.published.expected("pod", ("ns", "a")) is None


async def test_what_waits_for_a_fact_on_the_wire_is_given_up_with_the_lease():
    leader = Leader()
    async with background(leader.writer.run()):
        await asyncio.sleep(0)
        first, second = [await leader.write(pod(version)) for version in (1, 2)]
        leader.leads = False
        leader.publisher.acknowledge()

        await leader.until_at_rest(pod(2))

    assert len(leader.publisher.sent) == 1
    assert first.is_done
    assert not second.is_done
    assert leader.track.reached == 1
    standing = leader.published.standing("pod", ("ns", "a"))
    assert standing is not None
    assert standing.resource_version == "1"


def end(version: int) -> ObjectGone:
    return ObjectGone(
        kind="pod",
        namespace="ns",
        name="a",
        uid="u1",
        resource_version=str(version),
        projection=msgspec.Raw(msgspec.msgpack.encode({})),
    )


async def test_a_new_object_waits_while_state_is_nearly_full_and_holds_up_nobody():
    leader = Leader()
    leader.room.measured(9_600)
    async with background(leader.writer.run()):
        await asyncio.sleep(0)
        ticket = await leader.write(pod(1))

        assert not ticket.is_done
        assert leader.publisher.sent == []
        assert "STATE is full: 9600 of 10000 bytes" in leader.room.problem

        leader.room.measured(9_000)
        await eventually(lambda: leader.publisher.sent, describe="the pod on its way")
        leader.publisher.acknowledge()
        await eventually(lambda: ticket.is_done, describe="it stands")
    assert leader.room.problem == ""


async def test_what_ended_while_it_waited_for_room_is_written_as_its_end_only():
    leader = Leader()
    leader.room.measured(9_600)
    async with background(leader.writer.run()):
        await asyncio.sleep(0)
        tickets = [await leader.write(fact) for fact in (pod(1), pod(2), end(3))]

        leader.room.measured(9_600)
        await eventually(lambda: leader.publisher.sent, describe="the end on its way")
        leader.publisher.acknowledge()
        await leader.until_at_rest(end(3))

    assert all(ticket.is_done for ticket in tickets)
    assert leader.publisher.payloads == [codec.encode(end(3))]
    assert leader.room.problem == ""


async def test_new_objects_stop_before_the_limit_also_between_two_measurements():
    leader = Leader()
    leader.room.measured(9_000)
    async with background(leader.writer.run()):
        await asyncio.sleep(0)
        for number in range(10):
            await leader.write(msgspec.structs.replace(pod(1), name=f"pod-{number}"))

        assert 0 < len(leader.publisher.sent) < 5
        assert leader.room.problem


async def test_a_fact_that_a_newer_one_replaced_is_done_when_that_one_stands():
    """What the kind has reached is never ahead of what STATE shows, nor stuck behind it."""
    leader = Leader()
    async with background(leader.writer.run()):
        await asyncio.sleep(0)
        tickets = [await leader.write(pod(version)) for version in (1, 2, 3)]
        leader.publisher.acknowledge()
        await eventually(lambda: len(leader.publisher.sent) == 2, describe="the newest state")

        assert [ticket.is_done for ticket in tickets] == [True, False, False]
        assert leader.track.reached == 1
        leader.publisher.acknowledge()
        await leader.until_at_rest(pod(3))

    assert all(ticket.is_done for ticket in tickets)
    assert leader.track.reached == 3
