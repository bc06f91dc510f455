from base64 import b64decode

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.records import DEAD_PAYLOAD_LIMIT, DeadLetter
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


def bad(sequence: int = 3, *, incarnation: str = "2030", payload: bytes = b"rubbish") -> Unreadable:
    return Unreadable("STATE", incarnation, "vc.state.pod.ns.a", sequence, payload)


async def newest_letter(bus: Bus) -> DeadLetter:
    answer = await bus.connection.request(
        "$JS.API.STREAM.MSG.GET.DEAD", msgspec.json.encode({"last_by_subj": "vc.dead.STATE"})
    )
    return codec.dead.decode(b64decode(msgspec.json.decode(answer.data)["message"]["data"]))


async def test_a_dead_letter_says_what_it_was_and_why(bus: Bus):
    office = DeadLetterOffice(bus.publisher, bus.clock, "gateway")

    await office.put_aside(bad(), "not a fact")

    letter = await newest_letter(bus)
    assert (letter.stream, letter.arrived_on, letter.sequence) == ("STATE", "vc.state.pod.ns.a", 3)
    assert (letter.service, letter.reason) == ("gateway", "not a fact")
    assert (letter.payload, letter.size) == (b"rubbish", 7)


async def test_several_readers_of_one_bad_message_make_one_letter(
    bus: Bus, nats_server: NatsServer
):
    async with join(nats_server, "scheduler") as scheduler:
        await DeadLetterOffice(bus.publisher, bus.clock, "gateway").put_aside(bad(), "bad")
        office = DeadLetterOffice(scheduler.publisher, scheduler.clock, "scheduler")
        await office.put_aside(bad(), "bad")
        await nats_server.restart(hard=True)
        await eventually(lambda: scheduler.connection.reconnects, describe="the reconnect")
        await office.put_aside(bad(), "bad again, after a restart")
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        assert await bus.messages("DEAD") == 1

        await office.put_aside(bad(4), "another message")
        await office.put_aside(bad(3, incarnation="2031"), "the same place in another log")

    assert await bus.messages("DEAD") == 3


async def test_a_letter_about_a_huge_message_still_fits_on_the_bus(bus: Bus):
    huge = bytes(bus.connection.max_payload)

    await DeadLetterOffice(bus.publisher, bus.clock, "gateway").put_aside(bad(payload=huge), "big")

    letter = await newest_letter(bus)
    assert (len(letter.payload), letter.size) == (DEAD_PAYLOAD_LIMIT, len(huge))


async def test_without_a_bus_a_letter_is_only_logged(
    bus: Bus, nats_server: NatsServer, capsys: pytest.CaptureFixture[str]
):
    nats_server.kill()
    await eventually(lambda: not bus.connection.connected, describe="the link to break")

    await DeadLetterOffice(bus.publisher, bus.clock, "gateway").put_aside(bad(), "unreadable")

    assert "message.dead_unstored" in capsys.readouterr().out
