import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import DeleteObject, Verb
from stromboli.contracts.outcomes import AnyOutcome, Applied, GatewayTurn, OutcomeMessage
from stromboli.contracts.streams import OUTCOME
from stromboli.runtime.bus.asking import OutcomeListener, ask, outcome_reader
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


FIRST, SECOND = Epoch(1, 1), Epoch(1, 2)


def turn(gateway: Epoch = FIRST, *, service: str = "scheduler") -> GatewayTurn:
    return GatewayTurn(service=service, gateway=gateway)


def applied(number: int, *, service: str = "scheduler", gateway: Epoch = FIRST) -> Applied:
    return Applied(
        intent_id=f"i{number}",
        gateway=gateway,
        service=service,
        verb=Verb.BIND,
        kind="pod",
        key="vcjob/ns/a",
        name="p",
    )


def _id_of(said: OutcomeMessage) -> str:
    return "" if isinstance(said, GatewayTurn) else f"{said.gateway}-{said.intent_id}"


async def tell(bus: Bus, *outcomes: OutcomeMessage) -> None:
    for outcome in outcomes:
        async with asyncio.timeout(10):
            while True:
                try:
                    await bus.publisher.publish(
                        outcome.subject(), codec.encode(outcome), message_id=_id_of(outcome)
                    )
                    break
                except BusError:
                    await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def hearing(bus: Bus) -> AsyncGenerator[list[str]]:
    heard: list[str] = []

    def hear(outcome: AnyOutcome) -> None:
        heard.append(outcome.intent_id)

    reader = outcome_reader(bus.connection, bus.clock, OutcomeListener(hear))
    async with background(reader.run()):
        await eventually(lambda: reader.attached, describe="the outcome reader")
        yield heard


async def test_outcomes_are_heard_from_now_on_and_only_our_own(bus: Bus, nats_server: NatsServer):
    await tell(bus, turn(), applied(1), applied(2))
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await tell(bus, applied(3), applied(4, service="controllers"), applied(5))
        await eventually(lambda: "i5" in heard, describe="the last outcome")

        assert heard == ["i3", "i5"]


async def test_whose_answers_count_is_known_however_long_ago_it_was_said(
    bus: Bus, nats_server: NatsServer
):
    await tell(bus, turn(FIRST), turn(SECOND), *(applied(number) for number in range(50)))
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await tell(bus, applied(60), applied(61, gateway=SECOND))

        await eventually(lambda: heard == ["i61"], describe="the answer that counts")


async def test_a_gateway_whose_turn_is_over_is_not_heard(bus: Bus, nats_server: NatsServer):
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await tell(bus, applied(0), turn(FIRST), applied(1), turn(SECOND), applied(2))
        await tell(bus, applied(3, gateway=SECOND))

        await eventually(lambda: "i3" in heard, describe="the last outcome")
        assert heard == ["i1", "i3"]


async def test_an_outcome_is_heard_once_across_a_killed_server(bus: Bus, nats_server: NatsServer):
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await tell(bus, turn(), applied(1))
        await nats_server.restart(hard=True)
        await tell(bus, applied(2), applied(3))
        await eventually(lambda: "i3" in heard, describe="the last outcome")

        assert heard == ["i1", "i2", "i3"]


async def test_after_a_total_loss_outcomes_are_heard_from_the_beginning(
    bus: Bus, nats_server: NatsServer
):
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await tell(bus, turn(), *(applied(number) for number in range(5)))
        await eventually(lambda: len(heard) == 5, describe="five outcomes")
        await nats_server.lose_all_data()
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        await reconcile(bus.jetstream, [OUTCOME])
        await tell(bus, turn(), applied(10))

        await eventually(lambda: heard[-1] == "i10", describe="the first outcome of the new log")


async def test_an_unreadable_outcome_does_not_stop_the_others(bus: Bus, nats_server: NatsServer):
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await bus.publisher.publish("vc.outcome.scheduler.bind.pod", b"\xc1")
        await tell(bus, turn(), applied(1))

        await eventually(lambda: heard == ["i1"], describe="the readable outcome")


async def test_the_same_intent_is_stored_once(bus: Bus):
    intent = DeleteObject(
        id="the-same",
        key="vcjob/ns/a",
        service="controllers",
        kind="pod",
        namespace="ns",
        name="p",
        uid="u",
    )

    first = await ask(bus.publisher, intent)
    again = await ask(bus.publisher, intent)

    assert not first.duplicate
    assert (again.seq, again.duplicate) == (first.seq, True)
    assert await bus.messages("INTENT") == 1
