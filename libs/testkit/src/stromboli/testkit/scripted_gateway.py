"""A gateway that a test plays: it takes intents off the real bus and answers as it is told.

It announces its turn, answers fences, and acknowledges after it has answered. Everything else is
the test's business: what it answers, whether it answers, and how far it says that STATE is.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from msgspec.structs import replace
from nats.aio.msg import Msg

from stromboli.contracts import codec
from stromboli.contracts.epochs import NO_EPOCH, Epoch
from stromboli.contracts.facts import Fact, KindSynced
from stromboli.contracts.intents import AnyIntent, Fence, Verb
from stromboli.contracts.outcomes import (
    AnyOutcome,
    AssumedPod,
    FenceAnswered,
    GatewayTurn,
    OutcomeMessage,
)
from stromboli.contracts.streams import INTENT, INTENT_CONSUMER, STATE
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.delivery import place_of
from stromboli.testkit.bus_fixtures import Bus

__all__ = ["ScriptedGateway", "scripted_gateway"]

Answer = Callable[[AnyIntent], AnyOutcome | None]


@dataclass
class ScriptedGateway:
    """Make one with `scripted_gateway`."""

    bus: Bus
    service: str
    answer: Answer
    answer_fence: Answer | None = None
    epoch: Epoch = NO_EPOCH
    versions: dict[str, str] = field(default_factory=dict[str, str])
    """What it answers fences with."""
    assumed: tuple[AssumedPod, ...] = ()
    fences: list[tuple[Fence, int]] = field(default_factory=list[tuple[Fence, int]])
    """With their sequences."""
    asked: list[AnyIntent] = field(default_factory=list[AnyIntent])

    async def take_turn(self, epoch: Epoch) -> None:
        """From here on only answers of this epoch count."""
        self.epoch = epoch
        await self.say(GatewayTurn(service=self.service, gateway=epoch))

    async def say(self, outcome: OutcomeMessage) -> None:
        await self.bus.publisher.publish(outcome.subject(), codec.encode(outcome))

    async def tell(self, fact: Fact) -> None:
        await self.bus.publisher.publish(fact.subject(), codec.encode(fact))

    async def is_complete_up_to(self, version: int, *kinds: str) -> None:
        """These kinds are on STATE up to this version."""
        incarnation = (await self.bus.jetstream.stream_info(STATE.name)).created
        for kind in kinds:
            await self.tell(
                KindSynced(
                    kind=kind, incarnation=incarnation, resource_version=str(version), count=0
                )
            )

    async def handle(self, message: Msg) -> None:
        intent = codec.intents.decode(message.data)
        if isinstance(intent, Fence):
            self.fences.append((intent, place_of(message.reply).stream_sequence))
            answer = self.answer_fence or self._fence_answered
        else:
            self.asked.append(intent)
            answer = self.answer
        outcome = answer(intent)
        if outcome is not None:
            await self.say(_signed(outcome, self.epoch))
        await self.bus.connection.publish(message.reply, b"+ACK")

    def _fence_answered(self, fence: AnyIntent) -> AnyOutcome:
        return FenceAnswered(
            intent_id=fence.id,
            service=fence.service,
            shard=fence.shard,
            verb=Verb.FENCE,
            kind=CLUSTER,
            key=fence.key,
            epoch=fence.epoch,
            versions=self.versions,
            assumed=self.assumed,
        )


def _signed(outcome: AnyOutcome, gateway: Epoch) -> AnyOutcome:
    return replace(outcome, gateway=gateway)


@contextlib.asynccontextmanager
async def scripted_gateway(
    bus: Bus, service: str, answer: Answer
) -> AsyncGenerator[ScriptedGateway]:
    """It takes intents of this one service, in order, as long as the block runs."""
    gateway = ScriptedGateway(bus, service, answer)
    await gateway.take_turn(Epoch(1, 1))
    inbox = bus.connection.new_inbox("scripted")
    waiting: asyncio.Queue[Msg] = asyncio.Queue()
    subscription = await bus.connection.subscribe(inbox, waiting.put)
    await bus.jetstream.create_consumer(
        INTENT.name,
        {
            "name": f"scripted-{service}",
            "deliver_subject": inbox,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": 60 * 1_000_000_000,
            "max_ack_pending": INTENT_CONSUMER.max_ack_pending,
            "filter_subject": INTENT_CONSUMER.filter_subject,
        },
    )

    async def work() -> None:
        while True:
            await gateway.handle(await waiting.get())

    working = asyncio.create_task(work(), name="scripted gateway")
    try:
        yield gateway
    finally:
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
        with contextlib.suppress(Exception):
            await subscription.unsubscribe()
