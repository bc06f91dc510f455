import secrets

import pytest

from stromboli.contracts.streams import LEASES
from stromboli.runtime.bus.confirmed_read import read_confirmed
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.jetstream import JetStream, Stored
from stromboli.testkit.bus_fixtures import Bus
from stromboli.testkit.lease_candidates import keeper

pytestmark = pytest.mark.nats

SUBJECT = "$KV.LEASES.scheduler.-"
PROOF = "$KV.LEASES.gateway.proof"


class FromThePast(JetStream):
    """First says what once stood there, as a leader does that was replaced."""

    def __init__(self, bus: Bus, outdated: list[Stored | None]) -> None:
        super().__init__(bus.connection)
        self.outdated = outdated

    async def last_message(self, stream: str, subject: str) -> Stored | None:
        if self.outdated:
            return self.outdated.pop(0)
        return await super().last_message(stream, subject)


async def confirmed(bus: Bus, *outdated: Stored | None) -> Stored | None:
    past = FromThePast(bus, list(outdated))
    return await read_confirmed(
        past, bus.publisher, stream=LEASES.name, subject=SUBJECT, proof=PROOF
    )


async def test_what_stands_there_is_read(bus: Bus):
    await bus.publisher.publish(SUBJECT, b"first")
    ack = await bus.publisher.publish(SUBJECT, b"second", headers={"Some": "header: value"})

    stored = await confirmed(bus)

    assert stored is not None
    assert (stored.subject, stored.sequence) == (SUBJECT, ack.seq)
    assert (stored.payload, stored.headers) == (b"second", {"Some": "header: value"})


async def test_nothing_is_read_where_nothing_stands(bus: Bus):
    assert await confirmed(bus) is None
    assert await confirmed(bus) is None


async def test_an_answer_from_the_past_is_not_believed(bus: Bus):
    await bus.publisher.publish(SUBJECT, b"old")
    old = await bus.jetstream.last_message(LEASES.name, SUBJECT)
    await bus.publisher.publish(SUBJECT, b"new")

    stored = await confirmed(bus, None, old)

    assert stored is not None
    assert stored.payload == b"new"


async def test_a_message_of_the_greatest_size_is_read(bus: Bus):
    payload = secrets.token_bytes(bus.publisher.max_payload)
    await bus.publisher.publish("vc.state.pod.ns.a", payload)

    stored = await bus.jetstream.last_message("STATE", "vc.state.pod.ns.a")

    assert stored is not None
    assert stored.payload == payload


async def test_a_stream_that_is_not_there_is_no_missing_message(bus: Bus):
    with pytest.raises(BusError, match="stream not found"):
        await bus.jetstream.last_message("NONE", SUBJECT)


async def test_a_holder_is_not_deposed_by_an_answer_from_the_past(bus: Bus):
    first = keeper(bus, "first")
    old = await first._acquire()
    before = await bus.jetstream.last_message(LEASES.name, SUBJECT)
    await first._release(old)
    mine = keeper(bus, "second", life_s=30)
    lease = await mine._acquire()

    mine._jetstream = FromThePast(bus, [before, None])
    for _ in range(2):
        with pytest.raises(BusError, match="older than what we wrote"):
            await mine._renew(lease)

    assert await mine._renew(lease)
