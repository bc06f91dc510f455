import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import pytest

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import DeleteObject, Fence, Verb
from stromboli.contracts.outcomes import AnyOutcome, Applied, FenceAnswered
from stromboli.contracts.partitions import PARTITIONS
from stromboli.contracts.streams import OUTCOME
from stromboli.runtime.bus.asking import FenceRound, ask, outcome_reader
from stromboli.runtime.bus.dead_letters import Unreadable
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.intake import Delivery, IntentIntake
from stromboli.runtime.bus.ordering import Batch
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


@dataclass
class FakeGateway:
    """Answers every fence with a position, unless it is told to ignore it."""

    bus: Bus
    ignores: Callable[[Fence], bool] = lambda _: False
    fences: list[Fence] = field(default_factory=list[Fence])

    async def handle(self, batch: Batch[Delivery]) -> None:
        fence = batch.items[0].payload.intent
        assert isinstance(fence, Fence)
        self.fences.append(fence)
        if self.ignores(fence):
            return
        answer = FenceAnswered(
            intent_id=fence.id,
            service=fence.service,
            shard=fence.shard,
            verb=Verb.FENCE,
            kind="-",
            key=fence.key,
            partition=fence.in_partition,
            epoch=fence.epoch,
            incarnation="log-1" if fence.in_partition % 2 else "log-2",
            state_sequence=100 + fence.in_partition,
        )
        await self.bus.publisher.publish(
            answer.subject(), codec.encode(answer), message_id=f"answer-{fence.id}"
        )

    async def unreadable(self, message: Unreadable, reason: str) -> None:
        raise AssertionError(reason)

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None:
        raise problem


@contextlib.asynccontextmanager
async def answering(bus: Bus, server: NatsServer, gateway: FakeGateway) -> AsyncGenerator[Bus]:
    intake = IntentIntake(bus.connection, bus.clock, gateway, owner="fake")
    async with join(server, "scheduler") as scheduler, background(intake.run()):
        yield scheduler


@contextlib.asynccontextmanager
async def fencing(scheduler: Bus, epoch: Epoch) -> AsyncGenerator[FenceRound]:
    round_ = FenceRound(scheduler.publisher, scheduler.clock, service="scheduler", epoch=epoch)
    reader = outcome_reader(scheduler.connection, scheduler.clock, round_.answer)
    async with background(reader.run()):
        await eventually(lambda: reader.attached, describe="the outcome reader")
        yield round_


async def test_a_fence_is_complete_when_every_partition_has_answered(
    bus: Bus, nats_server: NatsServer
):
    gateway = FakeGateway(bus)
    async with answering(bus, nats_server, gateway) as scheduler:
        async with fencing(scheduler, Epoch(1, 7)) as round_:
            await round_.run(deadline_s=10)

        assert round_.position == {"log-1": 131, "log-2": 130}
    assert {fence.in_partition for fence in gateway.fences} == set(range(PARTITIONS))
    assert len(gateway.fences) == PARTITIONS


async def test_what_stays_silent_is_asked_again(bus: Bus, nats_server: NatsServer):
    seen: set[int] = set()

    def first_time(fence: Fence) -> bool:
        fresh = fence.in_partition not in seen
        seen.add(fence.in_partition)
        return fresh and fence.in_partition in {3, 17}

    gateway = FakeGateway(bus, ignores=first_time)
    async with (
        answering(bus, nats_server, gateway) as scheduler,
        fencing(scheduler, Epoch(1, 7)) as round_,
    ):
        await round_.run(deadline_s=4)

    assert len(gateway.fences) == PARTITIONS + 2
    assert {fence.in_partition for fence in gateway.fences[PARTITIONS:]} == {3, 17}


async def test_a_fence_survives_the_death_of_the_server(bus: Bus, nats_server: NatsServer):
    gateway = FakeGateway(bus, ignores=lambda _: True)
    async with (
        answering(bus, nats_server, gateway) as scheduler,
        fencing(scheduler, Epoch(1, 7)) as round_,
        background(round_.run(deadline_s=12)) as (running,),
    ):
        await eventually(lambda: len(gateway.fences) > 5, describe="some fences")
        nats_server.kill()
        await eventually(lambda: not scheduler.connection.connected, describe="the break")
        gateway.ignores = lambda _: False
        await nats_server.start()

        async with asyncio.timeout(15):
            await running


async def test_a_fence_that_nobody_answers_ends_with_its_deadline(
    bus: Bus, nats_server: NatsServer
):
    gateway = FakeGateway(bus, ignores=lambda _: True)
    async with (
        answering(bus, nats_server, gateway) as scheduler,
        fencing(scheduler, Epoch(1, 7)) as round_,
    ):
        with pytest.raises(TimeoutError):
            await round_.run(deadline_s=0.6)


async def test_answers_to_another_leaders_fence_do_not_count(bus: Bus, nats_server: NatsServer):
    gateway = FakeGateway(bus)
    async with (
        answering(bus, nats_server, gateway) as scheduler,
        fencing(scheduler, Epoch(1, 7)) as mine,
        fencing(scheduler, Epoch(1, 6)) as old,
    ):
        await old.run(deadline_s=10)

        assert mine.position == {}
        assert old.position


def applied(number: int, *, service: str = "scheduler") -> Applied:
    return Applied(
        intent_id=f"i{number}",
        service=service,
        verb=Verb.BIND,
        kind="pod",
        key="vcjob/ns/a",
        name="p",
    )


async def tell(bus: Bus, *outcomes: Applied) -> None:
    for outcome in outcomes:
        async with asyncio.timeout(10):
            while True:
                try:
                    await bus.publisher.publish(
                        outcome.subject(), codec.encode(outcome), message_id=outcome.intent_id
                    )
                    break
                except BusError:
                    await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def hearing(bus: Bus) -> AsyncGenerator[list[str]]:
    heard: list[str] = []

    def hear(outcome: AnyOutcome) -> None:
        heard.append(outcome.intent_id)

    reader = outcome_reader(bus.connection, bus.clock, hear)
    async with background(reader.run()):
        await eventually(lambda: reader.attached, describe="the outcome reader")
        yield heard


async def test_outcomes_are_heard_from_now_on_and_only_our_own(bus: Bus, nats_server: NatsServer):
    await tell(bus, applied(1), applied(2))
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await tell(bus, applied(3), applied(4, service="controllers"), applied(5))
        await eventually(lambda: "i5" in heard, describe="the last outcome")

        assert heard == ["i3", "i5"]


async def test_an_outcome_is_heard_once_across_a_killed_server(bus: Bus, nats_server: NatsServer):
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await tell(bus, applied(1))
        await nats_server.restart(hard=True)
        await tell(bus, applied(2), applied(3))
        await eventually(lambda: "i3" in heard, describe="the last outcome")

        assert heard == ["i1", "i2", "i3"]


async def test_after_a_total_loss_outcomes_are_heard_from_the_beginning(
    bus: Bus, nats_server: NatsServer
):
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await tell(bus, *(applied(number) for number in range(5)))
        await eventually(lambda: len(heard) == 5, describe="five outcomes")
        await nats_server.lose_all_data()
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        await reconcile(bus.jetstream, [OUTCOME])
        await tell(bus, applied(10))

        await eventually(lambda: heard[-1] == "i10", describe="the first outcome of the new log")


async def test_an_unreadable_outcome_does_not_stop_the_others(bus: Bus, nats_server: NatsServer):
    async with join(nats_server, "scheduler") as scheduler, hearing(scheduler) as heard:
        await bus.publisher.publish("vc.outcome.scheduler.bind.pod", b"\xc1")
        await tell(bus, applied(1))

        await eventually(lambda: heard == ["i1"], describe="the readable outcome")


async def test_the_same_intent_is_stored_once(bus: Bus):
    intent = DeleteObject(
        id="the-same",
        key="vcjob/ns/a",
        service="controllers",
        not_after=time.time() + 60,
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
