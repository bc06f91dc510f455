import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from stromboli.contracts.streams import JOURNAL, STREAMS
from stromboli.runtime.bus.journal import STATE_INCARNATION, STATE_SEQUENCE, Journal
from stromboli.runtime.bus.publisher import PubAck
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    """The place of a gateway that keeps a journal."""
    async with join(nats_server) as member:
        await reconcile(member.jetstream, (*STREAMS, JOURNAL))
        yield member


class Deltas:
    """Everything that stands in JOURNAL, as (STATE sequence, subject, payload)."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str, bytes]] = []
        self.incarnations: set[str] = set()

    def attach(self, position: LogPosition) -> int:
        return 1

    def apply(self, message: LogMessage) -> None:
        self.incarnations.add(message.headers[STATE_INCARNATION])
        sequence = int(message.headers[STATE_SEQUENCE])
        self.found.append((sequence, message.subject, message.payload))

    def caught_up(self) -> None: ...


async def write(bus: Bus, journal: Journal, subject: str, payload: bytes, *, ttl_s: int = 0) -> int:
    """Write a fact as the gateway does: expecting what stands there, then noted."""
    stored = await bus.jetstream.last_message("STATE", subject)
    expect = 0 if stored is None else stored.sequence
    ack = await bus.publisher.publish(subject, payload, expect_last=expect, ttl_s=ttl_s)
    journal.note(subject, payload, incarnation="i1", sequence=ack.seq)
    return ack.seq


async def test_the_journal_has_every_delta_while_state_has_the_newest(bus: Bus):
    journal, deltas = Journal(bus.publisher), Deltas()
    reader = LogReader(bus.connection, bus.clock, stream="JOURNAL", listener=deltas)
    expected: list[tuple[int, str, bytes]] = []
    async with background(journal.run(), reader.run()):
        for payload in (b"a", b"b", b"c"):
            for name in ("one", "two"):
                sequence = await write(bus, journal, f"vc.state.pod.ns.{name}", payload)
                expected.append((sequence, f"vc.journal.pod.ns.{name}", payload))
        # A tombstone has a time to live, which JOURNAL would refuse.
        gone = await write(bus, journal, "vc.state.pod.ns.one", b"gone", ttl_s=60)
        back = await write(bus, journal, "vc.state.pod.ns.one", b"back")
        expected += [
            (gone, "vc.journal.pod.ns.one", b"gone"),
            (back, "vc.journal.pod.ns.one", b"back"),
        ]
        await eventually(lambda: len(deltas.found) >= len(expected), describe="all deltas")

    assert deltas.found == expected
    assert deltas.incarnations == {"i1"}
    assert await bus.messages("STATE") == 2


async def test_what_was_noted_while_the_server_was_down_is_stored_once(
    bus: Bus, nats_server: NatsServer
):
    journal = Journal(bus.publisher)
    sequence = await write(bus, journal, "vc.state.pod.ns.one", b"a")
    async with background(journal.run()):
        nats_server.kill()
        await eventually(lambda: not bus.connection.connected, describe="the link to break")
        journal.note("vc.state.pod.ns.one", b"b", incarnation="i1", sequence=sequence + 1)
        journal.note("vc.state.pod.ns.one", b"b", incarnation="i1", sequence=sequence + 1)
        await nats_server.start()

        journal.note("vc.state.pod.ns.one", b"c", incarnation="i1", sequence=sequence + 2)

        async def third() -> bool:
            if not bus.connection.connected:
                return False
            newest = await bus.jetstream.last_message("JOURNAL", "vc.journal.pod.ns.one")
            return newest is not None and newest.payload == b"c"

        await eventually(third, describe="the third delta")

    assert await bus.messages("JOURNAL") == 3


async def test_a_full_journal_does_not_stop_the_facts(bus: Bus):
    journal = Journal(bus.publisher, capacity=1)

    for sequence in (1, 2, 3):
        journal.note("vc.state.pod.ns.one", b"x", incarnation="i1", sequence=sequence)

    async with background(journal.run()):

        async def has_one() -> bool:
            return await bus.messages("JOURNAL") == 1

        await eventually(has_one, describe="the one delta that found room")


async def test_only_subjects_of_state_can_be_noted(bus: Bus):
    with pytest.raises(ValueError, match=r"vc\.intent"):
        Journal(bus.publisher).note("vc.intent.0.x", b"", incarnation="i1", sequence=1)


async def test_the_journal_keeps_pace_with_a_list_of_thousands(bus: Bus):
    journal, stored = Journal(bus.publisher, capacity=4000), 0

    def note(subject: str, answer: "asyncio.Future[PubAck]") -> None:
        nonlocal stored
        stored += 1
        journal.note(subject, b"x" * 300, incarnation="i1", sequence=answer.result().seq)

    async with background(journal.run()):
        for number in range(10_000):
            subject = f"vc.state.pod.ns.p{number}"
            answer = await bus.publisher.send(subject, b"x" * 300, expect_last=0)
            answer.add_done_callback(partial(note, subject))
        await eventually(lambda: stored == 10_000, deadline_s=30, describe="all facts")

        async def complete() -> bool:
            return await bus.messages("JOURNAL") == 10_000

        await eventually(complete, deadline_s=30, interval_s=0.1, describe="all deltas")
