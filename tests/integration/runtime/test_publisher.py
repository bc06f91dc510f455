import asyncio
import time

import pytest

from stromboli.contracts.errors import MessageTooLarge
from stromboli.runtime.bus.errors import (
    BusClosed,
    BusDisconnected,
    BusError,
    PublishRefused,
    PublishUncertain,
    WrongLastSequence,
)
from stromboli.runtime.bus.publisher import PubAck, publishing
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.nats_wire import nats_wire
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


async def ended(future: "asyncio.Future[PubAck]", within_s: float = 2.0) -> PubAck | BaseException:
    """How it ended: its acknowledgement, or its problem."""
    async with asyncio.timeout(within_s):
        await asyncio.wait([future])
    return future.exception() or future.result()


async def test_a_message_is_acknowledged_with_its_place(bus: Bus):
    first = await bus.publisher.publish("vc.history.a.b", b"one")
    second = await bus.publisher.publish("vc.history.a.b", b"two")

    assert first == PubAck("HISTORY", 1)
    assert second == PubAck("HISTORY", 2)


async def test_thousands_are_in_flight_and_all_are_stored_in_order(bus: Bus):
    futures = [await bus.publisher.send(f"vc.state.pod.a.p{n}", b"x" * 200) for n in range(5000)]

    async with asyncio.timeout(30):
        await asyncio.wait(futures)
    assert [future.result().seq for future in futures] == list(range(1, 5001))
    assert bus.publisher.in_flight == 0


async def test_no_more_than_the_window_is_in_flight(nats_server: NatsServer):
    async with join(nats_server, window=8) as bus:
        nats_server.pause()
        sent = [await bus.publisher.send("vc.history.a.b", b"") for _ in range(8)]
        ninth = asyncio.create_task(bus.publisher.send("vc.history.a.b", b""))
        await asyncio.sleep(0)

        assert bus.publisher.in_flight == 8
        assert not ninth.done()

        nats_server.resume()
        assert all([isinstance(await ended(future), PublishRefused) for future in sent])
        assert isinstance(await ended(await ninth), PublishRefused)


async def test_a_wrong_expectation_is_refused_and_says_so(bus: Bus):
    ack = await bus.publisher.publish("vc.state.pod.a.b", b"one", expect_last=0)

    with pytest.raises(WrongLastSequence):
        await bus.publisher.publish("vc.state.pod.a.b", b"two", expect_last=ack.seq + 7)
    with pytest.raises(WrongLastSequence):
        await bus.publisher.publish("vc.state.pod.a.b", b"two", expect_last=0)

    stored = await bus.jetstream.last_message("STATE", "vc.state.pod.a.b")
    assert stored is not None
    assert stored.payload == b"one"


async def test_more_refusals_than_the_window_do_not_stall_the_publisher(
    bus: Bus, nats_server: NatsServer
):
    async with publishing(bus.connection, bus.clock, window=16) as publisher:
        refused = [await publisher.send("vc.state.pod.a.b", b"", expect_last=99) for _ in range(40)]
        assert all([isinstance(await ended(future), WrongLastSequence) for future in refused])

        good = [await publisher.publish("vc.state.pod.a.b", b"") for _ in range(40)]

    assert len({ack.seq for ack in good}) == 40


async def test_a_message_id_is_stored_once(bus: Bus):
    first = await bus.publisher.publish("vc.history.a.b", b"", message_id="same")
    again = await bus.publisher.publish("vc.history.a.b", b"", message_id="same")

    assert (again.seq, again.duplicate) == (first.seq, True)


async def test_a_subject_without_a_stream_is_refused(bus: Bus):
    with pytest.raises(PublishRefused, match="no stream"):
        await bus.publisher.publish("vc.nothing.here", b"")


async def test_a_message_over_the_limit_is_refused_before_it_is_sent(bus: Bus):
    limit = bus.connection.max_payload

    with pytest.raises(MessageTooLarge):
        await bus.publisher.publish("vc.history.a.b", bytes(limit + 1))
    await bus.publisher.publish("vc.history.a.b", bytes(limit))
    assert bus.publisher.in_flight == 0


async def test_headers_count_towards_the_limit(bus: Bus):
    """The server ends the connection of whoever sends more, so it must not be tried."""
    limit = bus.connection.max_payload
    head = len("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n")

    with pytest.raises(MessageTooLarge):
        await bus.publisher.publish("vc.state.pod.a.b", bytes(limit - head + 1), expect_last=0)
    await bus.publisher.publish("vc.state.pod.a.b", bytes(limit - head), expect_last=0)
    assert bus.connection.connected


async def test_what_is_in_flight_when_the_server_dies_is_uncertain(
    bus: Bus, nats_server: NatsServer
):
    nats_server.pause()
    sent = [await bus.publisher.send("vc.history.a.b", b"%d" % n) for n in range(50)]
    nats_server.kill()

    ends = [await ended(future) for future in sent]

    assert all(isinstance(end, PublishUncertain) for end in ends), ends
    assert bus.publisher.in_flight == 0


async def test_an_acknowledged_message_survives_the_kill(bus: Bus, nats_server: NatsServer):
    sent = [await bus.publisher.send("vc.history.a.b", b"%d" % n) for n in range(3000)]
    await eventually(lambda: sum(future.done() for future in sent) > 500, describe="some answers")
    nats_server.kill()
    ends = [await ended(future) for future in sent]
    await nats_server.start()
    await eventually(lambda: bus.connection.reconnects, describe="the reconnect")

    stored = sum(isinstance(end, PubAck) for end in ends)
    assert 500 < stored <= await bus.messages("HISTORY") <= 3000


async def test_while_disconnected_a_publish_fails_at_once_and_nothing_comes_late(
    bus: Bus, nats_server: NatsServer
):
    nats_server.kill()
    await eventually(lambda: not bus.connection.connected, describe="the link to break")
    since = time.monotonic()
    for number in range(20):
        with pytest.raises(BusDisconnected):
            await bus.publisher.publish("vc.history.a.b", b"%d" % number)
    assert time.monotonic() - since < 0.5

    await nats_server.start()
    await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
    ack = await bus.publisher.publish("vc.history.a.b", b"after")

    assert ack.seq == 1
    assert await bus.messages("HISTORY") == 1


async def test_a_silent_server_makes_a_publish_uncertain_within_the_deadline(
    nats_server: NatsServer,
):
    async with join(nats_server, deadline_s=0.4) as bus:
        nats_server.pause()
        since = time.monotonic()

        with pytest.raises(PublishUncertain, match=r"none within 0\.4 s"):
            await bus.publisher.publish("vc.history.a.b", b"")

        assert 0.4 <= time.monotonic() - since < 1.5
        nats_server.resume()


async def test_a_late_answer_to_a_message_that_was_given_up_is_ignored(bus: Bus):
    async with publishing(bus.connection, bus.clock, window=1, deadline_s=0.05) as publisher:
        for _ in range(20):
            sent = await publisher.send("vc.history.a.b", b"")
            publisher._fail_all("given up")
            assert isinstance(await ended(sent), PublishUncertain)

        assert (await publisher.publish("vc.history.a.b", b"")).seq > 0


async def test_a_cancelled_publish_gives_its_place_back(bus: Bus, nats_server: NatsServer):
    async with publishing(bus.connection, bus.clock, window=1) as publisher:
        nats_server.pause()
        impatient = asyncio.create_task(publisher.publish("vc.history.a.b", b""))
        await eventually(lambda: publisher.in_flight, describe="the message to be sent")
        impatient.cancel()
        nats_server.resume()

        async with asyncio.timeout(2):
            await publisher.publish("vc.history.a.b", b"")


async def test_every_future_ends_when_the_publisher_is_closed(bus: Bus, nats_server: NatsServer):
    async with publishing(bus.connection, bus.clock) as publisher:
        nats_server.pause()
        sent = [await publisher.send("vc.history.a.b", b"") for _ in range(10)]

    assert all(future.done() for future in sent)
    assert all(isinstance(future.exception(), BusError) for future in sent)
    nats_server.resume()


async def test_a_message_whose_acknowledgement_is_lost_is_repeated_and_stored_once(
    bus: Bus, nats_server: NatsServer
):
    async with nats_wire(nats_server.port) as wire, join(wire) as behind:
        wire.lose_answers()
        publishing_it = asyncio.create_task(
            behind.publisher.publish_until_acked("vc.intent.0.a.b.c", b"one", message_id="same")
        )
        await eventually(lambda: bus.messages("INTENT"), describe="the message is stored")
        assert not publishing_it.done()
        wire.cut()
        ack = await ended(publishing_it, within_s=20)

    assert isinstance(ack, PubAck)
    assert (ack.seq, ack.duplicate) == (1, True)
    assert await bus.messages("INTENT") == 1


async def test_a_duplicate_is_acknowledged_with_the_sequence_of_the_first(bus: Bus):
    first = await bus.publisher.publish_until_acked("vc.history.a.b", b"1", message_id="same")
    await bus.publisher.publish("vc.history.a.b", b"2")
    again = await bus.publisher.publish_until_acked("vc.history.a.b", b"1", message_id="same")

    assert (again.seq, again.duplicate) == (first.seq, True)


async def test_a_server_that_is_away_is_waited_for(bus: Bus, nats_server: NatsServer):
    nats_server.kill()
    publishing_it = asyncio.create_task(
        bus.publisher.publish_until_acked("vc.history.a.b", b"", message_id="one")
    )
    await eventually(lambda: not bus.connection.connected, describe="the link is gone")
    await nats_server.start()

    assert isinstance(await ended(publishing_it, within_s=20), PubAck)


async def test_a_stream_that_is_full_or_not_there_is_waited_for(bus: Bus):
    publishing_it = asyncio.create_task(
        bus.publisher.publish_until_acked("only.later", b"", message_id="one")
    )
    await eventually(lambda: bus.publisher.in_flight, describe="the first try")
    await eventually(lambda: not bus.publisher.in_flight, describe="the first refusal")
    config = {
        "name": "LATER",
        "subjects": ["only.later"],
        "max_msgs": 1,
        "discard": "new",
    }
    await bus.jetstream.create_stream(config)
    assert isinstance(await ended(publishing_it, within_s=20), PubAck)

    with pytest.raises(PublishUncertain, match="maximum messages"):
        await bus.publisher.publish_until_acked("only.later", b"", message_id="two", give_up_s=0.5)
    assert await bus.messages("LATER") == 1


async def test_who_repeats_gives_up_when_the_time_is_over(bus: Bus, nats_server: NatsServer):
    nats_server.kill()
    began = time.monotonic()

    with pytest.raises(PublishUncertain):
        await bus.publisher.publish_until_acked(
            "vc.history.a.b", b"", message_id="one", give_up_s=0.5
        )
    assert time.monotonic() - began < 5
    await nats_server.start()


async def test_what_can_never_be_stored_is_raised_at_once(bus: Bus):
    with pytest.raises(MessageTooLarge):
        await bus.publisher.publish_until_acked(
            "vc.history.a.b", bytes(bus.connection.max_payload + 1), message_id="one"
        )


async def test_a_publisher_that_was_closed_does_not_go_on_trying(bus: Bus):
    async with publishing(bus.connection, bus.clock) as publisher:
        pass

    with pytest.raises(BusClosed):
        await publisher.publish_until_acked("vc.history.a.b", b"", message_id="one")
