"""Facts on their way to one subject, when the right to write them is lost."""

import asyncio
from typing import cast

import msgspec

from stromboli.contracts import codec
from stromboli.contracts.facts import KindSynced, ObjectGone, ObjectSeen
from stromboli.gateway.published import Published
from stromboli.gateway.room import Room
from stromboli.gateway.settling import OwnWrites
from stromboli.gateway.writing import FactWriter
from stromboli.runtime.bus.dead_letters import DeadLetterOffice
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.publisher import PubAck, Publisher
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
        self.writer = FactWriter(
            self.publisher,
            cast("JetStream", None),
            self.published,
            OwnWrites(frozenset({"pod"}), lambda *_: False),
            cast("DeadLetterOffice", None),
            journal=None,
            room=self.room,
            may_write=lambda: self.leads,
            compare_again=lambda _: None,
        )

    async def flush(self, kind: str) -> bool:
        async with asyncio.timeout(5):
            return await self.writer.flush(kind)


def pod(version: int) -> ObjectSeen:
    return ObjectSeen(
        kind="pod",
        namespace="ns",
        name="a",
        uid="u1",
        resource_version=str(version),
        projection=msgspec.Raw(msgspec.msgpack.encode({})),
    )


async def test_a_fact_that_may_not_be_written_any_more_keeps_no_flush_waiting():
    leader = Leader()
    async with background(leader.writer.run()):
        leader.leads = False
        await leader.writer.write(pod(1))

        await leader.flush("pod")
        await leader.writer.write(
            KindSynced(kind="pod", incarnation="i", resource_version="1", count=1)
        )
        await leader.flush("pod")

    assert leader.publisher.sent == []
    assert not leader.published.is_planned("pod", ("ns", "a"))


async def test_what_waits_for_a_fact_on_the_wire_is_given_up_with_the_lease():
    leader = Leader()
    async with background(leader.writer.run()):
        await asyncio.sleep(0)
        for version in (1, 2):
            await leader.writer.write(pod(version))
        leader.leads = False
        leader.publisher.acknowledge()

        await leader.flush("pod")

    assert len(leader.publisher.sent) == 1
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
        await leader.writer.write(pod(1))

        assert not await leader.flush("pod")
        assert leader.publisher.sent == []
        assert "STATE is full: 9600 of 10000 bytes" in leader.room.problem

        leader.room.measured(9_000)
        await eventually(lambda: leader.publisher.sent, describe="the pod on its way")
        leader.publisher.acknowledge()
        await eventually(lambda: leader.flush("pod"), describe="everything on STATE")
    assert leader.room.problem == ""


async def test_what_ended_while_it_waited_for_room_is_written_as_its_end_only():
    leader = Leader()
    leader.room.measured(9_600)
    async with background(leader.writer.run()):
        await asyncio.sleep(0)
        for fact in (pod(1), pod(2), end(3)):
            await leader.writer.write(fact)

        leader.room.measured(9_600)
        await eventually(lambda: leader.publisher.sent, describe="the end on its way")
        leader.publisher.acknowledge()
        await eventually(lambda: leader.flush("pod"), describe="everything on STATE")

    assert leader.publisher.payloads == [codec.encode(end(3))]
    assert leader.room.problem == ""


async def test_new_objects_stop_before_the_limit_also_between_two_measurements():
    leader = Leader()
    leader.room.measured(9_000)
    async with background(leader.writer.run()):
        await asyncio.sleep(0)
        for number in range(10):
            fact = msgspec.structs.replace(pod(1), name=f"pod-{number}")
            await leader.writer.write(fact)

        assert 0 < len(leader.publisher.sent) < 5
        assert not await leader.flush("pod")
