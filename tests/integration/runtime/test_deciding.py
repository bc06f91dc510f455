"""The shell around a core, between a real NATS server and a stand-in for the gateway."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from stromboli.contracts import codec
from stromboli.contracts.facts import KindSynced
from stromboli.contracts.intents import AnyIntent, CreateObject, Fence, PatchObject, Verb
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    FenceAnswered,
    Reason,
    Refused,
    refused,
)
from stromboli.contracts.stimuli import (
    Instruction,
    OutcomeHeard,
    Ready,
    Stimulus,
    Unanswered,
    WakeAt,
    WokeUp,
)
from stromboli.contracts.streams import STATE
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.dead_letters import Unreadable
from stromboli.runtime.bus.intake import Delivery, IntentIntake, UnknownIntent
from stromboli.runtime.bus.ordering import Batch
from stromboli.runtime.deciding import DecidingShell
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

KEY = "vcjob/ns/job"


def creation(name: str, *, size: int = 0) -> CreateObject:
    return CreateObject(
        id=f"create-{name}-{time.monotonic_ns()}",
        key=KEY,
        service="controllers",
        not_after=0.0,
        kind="pod",
        namespace="ns",
        name=name,
        manifest=b"x" * size,
    )


def patch(name: str) -> PatchObject:
    return PatchObject(
        id=f"patch-{name}-{time.monotonic_ns()}",
        key=KEY,
        service="controllers",
        not_after=0.0,
        kind="vcjob",
        namespace="ns",
        name=name,
        uid="uid",
        patch=b"{}",
    )


@dataclass
class Gateway:
    """Answers every fence, and anything else as the test likes."""

    bus: Bus
    incarnation: str
    answer: Callable[[AnyIntent], AnyOutcome]
    asked: list[AnyIntent] = field(default_factory=list[AnyIntent])

    async def handle(self, batch: Batch[Delivery]) -> None:
        for item in batch.items:
            intent = item.payload.intent
            assert not isinstance(intent, UnknownIntent)
            outcome = self._outcome(intent)
            await self.bus.publisher.publish(outcome.subject(), codec.encode(outcome))

    def _outcome(self, intent: AnyIntent) -> AnyOutcome:
        if not isinstance(intent, Fence):
            self.asked.append(intent)
            return self.answer(intent)
        return FenceAnswered(
            intent_id=intent.id,
            service=intent.service,
            verb=Verb.FENCE,
            kind=CLUSTER,
            key=intent.key,
            partition=intent.in_partition,
            epoch=intent.epoch,
            incarnation=self.incarnation,
            state_sequence=1,
        )

    async def unreadable(self, message: Unreadable, reason: str) -> None:
        raise AssertionError(f"{message.subject}: {reason}")

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None:
        raise problem


@dataclass
class Script:
    """A core that asks once per turn for what the test wants, and remembers what it was told."""

    wanted: Callable[[], list[Instruction]]
    heard: list[Stimulus]
    insists: bool = False
    """Asks again now and then, and at once when nobody has heard it."""
    waits_for_others: bool = False

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        self.heard.append(stimulus)
        if self.insists and isinstance(stimulus, Ready | WokeUp | Unanswered):
            return [*self.wanted(), WakeAt(now + 0.05)]
        if isinstance(stimulus, Ready):
            return self.wanted()
        return []


def applied(intent: AnyIntent) -> AnyOutcome:
    assert isinstance(intent, CreateObject | PatchObject)
    return Applied(
        intent_id=intent.id,
        service=intent.service,
        verb=intent.verb,
        kind=intent.kind,
        key=intent.key,
        name=intent.name,
    )


@asynccontextmanager
async def deciding(
    bus: Bus,
    server: NatsServer,
    wanted: Callable[[], list[Instruction]],
    *,
    answer: Callable[[AnyIntent], AnyOutcome] = applied,
    insists: bool = False,
    waits: bool = False,
) -> AsyncGenerator[tuple[Gateway, list[Stimulus]]]:
    """A shell with a core that wants this, and a gateway that answers like that."""
    info = await bus.jetstream.stream_info(STATE.name)
    marker = KindSynced(kind="queue", incarnation=info.created, resource_version="1", count=0)
    await bus.publisher.publish(marker.subject(), codec.encode(marker))
    gateway = Gateway(bus, info.created, answer)
    intake = IntentIntake(bus.connection, bus.clock, gateway, owner="test")
    heard: list[Stimulus] = []
    async with join(server, "controllers") as service:
        shell = DecidingShell(
            service="controllers",
            kinds=("queue",),
            make_core=lambda: Script(wanted, heard, insists, waits),
            connection=service.connection,
            publisher=service.publisher,
            clock=service.clock,
            holder="test",
        )
        async with background(intake.run(), shell.run()):
            yield gateway, heard


def outcomes(heard: list[Stimulus]) -> list[AnyOutcome]:
    return [stimulus.outcome for stimulus in heard if isinstance(stimulus, OutcomeHeard)]


async def test_creations_go_out_together_and_the_status_after_them(
    bus: Bus, nats_server: NatsServer
):
    wanted: list[Instruction] = [*(creation(f"pod-{i}") for i in range(20)), patch("job")]
    async with deciding(bus, nats_server, lambda: wanted) as (gateway, heard):
        await eventually(lambda: len(outcomes(heard)) == 21, deadline_s=20)

    names = [intent.name for intent in gateway.asked if not isinstance(intent, Fence)]
    assert sorted(names[:20]) == sorted(f"pod-{i}" for i in range(20))
    assert names[20] == "job"


async def test_an_intent_too_large_for_the_bus_is_refused_and_the_others_go_out(
    bus: Bus, nats_server: NatsServer
):
    """Nobody else could answer it, and the service must not end because of it."""
    wanted: list[Instruction] = [creation("huge", size=1 << 20), creation("small"), patch("job")]
    async with deciding(bus, nats_server, lambda: wanted) as (_, heard):
        await eventually(lambda: len(outcomes(heard)) == 3, deadline_s=20)

    refusals = [outcome for outcome in outcomes(heard) if isinstance(outcome, Refused)]
    assert [(refusal.name, refusal.reason) for refusal in refusals] == [("huge", Reason.INVALID)]
    assert "over the bus limit" in refusals[0].message


async def test_who_is_fenced_off_while_leading_fences_again_and_decides_anew(
    bus: Bus, nats_server: NatsServer
):
    refusals = iter([True, False])

    def answer(intent: AnyIntent) -> AnyOutcome:
        if next(refusals, False):
            return refused(intent, Reason.FENCED, "fence anew", at=0.0)
        return applied(intent)

    async with deciding(bus, nats_server, lambda: [patch("job")], answer=answer) as (_, heard):
        await eventually(
            lambda: any(isinstance(outcome, Applied) for outcome in outcomes(heard)),
            deadline_s=20,
        )

    assert sum(isinstance(stimulus, Ready) for stimulus in heard) == 2


async def test_nothing_is_decided_over_and_over_while_there_is_no_bus(
    bus: Bus, nats_server: NatsServer
):
    async with deciding(bus, nats_server, lambda: [patch("job")], insists=True) as (_, heard):
        await eventually(lambda: len(outcomes(heard)) > 3, deadline_s=20)
        nats_server.kill()
        await eventually(lambda: not bus.connection.connected)
        before = len(heard)
        await asyncio.sleep(1.0)

        assert len(heard) - before < 5
        await nats_server.start()


async def test_a_core_that_waits_for_others_does_not_hold_up_the_loop(
    bus: Bus, nats_server: NatsServer
):
    """What it waits for runs on the loop that would be stuck."""
    loop = asyncio.get_running_loop()

    async def answer() -> list[Instruction]:
        await asyncio.sleep(0)
        return [patch("job")]

    def ask() -> list[Instruction]:
        return asyncio.run_coroutine_threadsafe(answer(), loop).result(timeout=20)

    async with deciding(bus, nats_server, ask, waits=True) as (gateway, heard):
        await eventually(lambda: len(outcomes(heard)) == 1, deadline_s=20)

    assert [intent.name for intent in gateway.asked if not isinstance(intent, Fence)] == ["job"]
