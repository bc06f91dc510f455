"""An object that comes back when its end was forgotten, before the server has dropped it."""

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.facts import TOMBSTONE_LIFE_S, Fact, ObjectGone, ObjectSeen
from stromboli.contracts.streams import STREAMS
from stromboli.gateway.own_sequences import OwnSequences
from stromboli.gateway.published import Published
from stromboli.gateway.room import Room
from stromboli.gateway.writing import FactWriter
from stromboli.runtime.bus.dead_letters import DeadLetterOffice
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


def writer_to(bus: Bus, published: Published) -> FactWriter:
    return FactWriter(
        bus.publisher,
        bus.jetstream,
        published,
        DeadLetterOffice(bus.publisher, bus.clock, "gateway"),
        journal=None,
        room=Room(),
        own=OwnSequences(0),
        may_write=lambda: True,
        compare_again=lambda _: None,
    )


def fact(made: type[ObjectSeen | ObjectGone], name: str, *, uid: str, version: int) -> Fact:
    return made(
        kind="pod",
        namespace="ns",
        name=name,
        uid=uid,
        resource_version=str(version),
        projection=msgspec.Raw(msgspec.msgpack.encode({})),
    )


async def written(writer: FactWriter, published: Published, one: Fact) -> None:
    await writer.write(one)
    await eventually(lambda: not published.is_in_flight(one.subject()), describe="it stands")


async def test_an_object_that_comes_back_replaces_an_end_that_was_forgotten(
    nats_server: NatsServer,
):
    now_s = 0.0
    published = Published(lambda _: None, monotonic=lambda: now_s)
    async with join(nats_server) as bus:
        await reconcile(bus.jetstream, STREAMS)
        writer = writer_to(bus, published)

        async with background(writer.run()):
            for one in (
                fact(ObjectSeen, "a", uid="u1", version=1),
                fact(ObjectGone, "a", uid="u1", version=2),
            ):
                await written(writer, published, one)
            now_s = TOMBSTONE_LIFE_S + 1.0
            await written(writer, published, fact(ObjectSeen, "b", uid="u2", version=3))
            assert published.standing("pod", ("ns", "a")) is None

            back = fact(ObjectSeen, "a", uid="u3", version=4)
            await written(writer, published, back)

        stored = await bus.jetstream.last_message("STATE", "vc.state.pod.ns.a")
        assert stored is not None
        assert stored.payload == codec.encode(back)
        assert published.last_sequence(back) == stored.sequence
