"""Receive all intents, in order per key, each until it has ended.

Who owns INTENT deletes its predecessor's consumer and makes its own, because only then do
unacknowledged intents come back in order. An intent is acknowledged after its handler has
returned, that is after its OUTCOME is stored. Nothing is ever nak'ed: that would send it behind
its successors. One that waits here for longer than the server's patience is delivered again,
and recognised by its sequence.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from stromboli.contracts import codec
from stromboli.contracts.errors import Undecodable, UnknownTag
from stromboli.contracts.intents import AnyIntent, BindGang, Fence
from stromboli.contracts.streams import INTENT, INTENT_CONSUMER
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.dead_letters import Unreadable
from stromboli.runtime.bus.delivery import place_of
from stromboli.runtime.bus.errors import BusError, JetStreamError
from stromboli.runtime.bus.jetstream import NANOSECONDS, JetStream
from stromboli.runtime.bus.ordering import Batch, Item, KeyedQueue, Parts, Run
from stromboli.runtime.bus.publisher import MESSAGE_ID
from stromboli.runtime.bus.runs import run_of
from stromboli.runtime.clock import Clock
from stromboli.runtime.crashpoints import declare, reach
from stromboli.runtime.logs import get_logger

log = get_logger(__name__)

ANSWERED = declare("bus.intent.answered", "its outcome is stored, it is not acknowledged yet")

_HEARTBEAT_S = 2.0
_SILENCE_S = 3 * _HEARTBEAT_S
_TICK_S = 0.5
_RETRY_S = 0.25
_ATTEMPTS = 3
_UNANSWERED = "an intent was not answered"


@dataclass(slots=True, frozen=True)
class UnknownIntent:
    """An intent of a type that only another release knows."""

    tag: str
    envelope: codec.AnyEnvelope


@dataclass(slots=True)
class Delivery:
    """One intent as it was delivered."""

    intent: AnyIntent | UnknownIntent
    reply: str
    source: Unreadable
    may_have_begun: bool
    """Whether a former owner may have begun to work on it.

    A server lets an owner have `max_ack_pending` unacknowledged messages, the oldest ones. So
    what a dead owner had begun is among as many messages, the first that its successor gets of
    those that were there before it came.
    """


class IntentHandler(Protocol):
    """Who applies intents. It publishes the outcome of each before it returns."""

    async def handle(self, batch: Batch[Delivery]) -> None: ...

    def arrived(self, delivery: Delivery) -> None:
        """It was delivered, and will be handed out in its turn."""
        ...

    async def unreadable(self, message: Unreadable, reason: str, *, intent_id: str) -> None:
        """It can't be decoded; `intent_id` is what its sender called it, or empty."""
        ...

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None:
        """`handle` kept raising: put the batch aside, so that its successors go on."""
        ...


@dataclass(slots=True)
class _Consumer:
    """One consumer's life: from its creation until something does not add up."""

    incarnation: str
    taken_over_at: int
    """The last sequence when nobody consumed any more; what comes later is nobody's but ours."""
    heard_at: float
    queue: KeyedQueue[Delivery] = field(default_factory=KeyedQueue[Delivery])
    delivered: int = 0
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""

    def breaks(self, reason: str) -> None:
        """Nothing more is taken from this consumer: its owner makes another one."""
        if not self.broken.is_set():
            self.reason = reason
            self.broken.set()


class IntentIntake:
    """Feeds a handler with the intents of all services; `run` ends only by cancellation."""

    _group: asyncio.TaskGroup
    """There while `run` runs; nothing is delivered before."""

    def __init__(
        self, connection: BusConnection, clock: Clock, handler: IntentHandler, *, owner: str
    ) -> None:
        self._connection = connection
        self._jetstream = JetStream(connection)
        self._clock = clock
        self._handler = handler
        self._owner = owner
        self._consumers = 0
        self._consumer: _Consumer | None = None
        self._busy = 0
        self._idle = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Intents that were delivered and have not ended."""
        return 0 if self._consumer is None else len(self._consumer.queue)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._tick(), name="intake tick")
            group.create_task(self._serve(), name="intake")

    async def _serve(self) -> None:
        """Own INTENT, taking it over again whenever the consumer is lost."""
        while True:
            try:
                reason = await self._own()
            except BusError as problem:
                log.debug("intake.waiting", problem=str(problem))
                await asyncio.sleep(_RETRY_S)
            else:
                log.info("intake.reset", reason=reason)
                if reason == _UNANSWERED:
                    await asyncio.sleep(_RETRY_S)

    async def _own(self) -> str:
        # What is being worked on ends first: an intent must never overtake its predecessor.
        # The wait has no deadline of its own because every intent has a life.
        if self._busy:
            await self._idle.wait()
        await self._remove_predecessors()
        info = await self._jetstream.stream_info(INTENT.name)
        consumer = _Consumer(info.created, info.state.last_seq, self._clock.monotonic())
        self._consumer = consumer
        inbox = self._connection.new_inbox("intents")

        async def deliver(message: Msg) -> None:
            consumer.heard_at = self._clock.monotonic()
            if not consumer.broken.is_set() and (message.headers or {}).get("Status") != "100":
                self._receive(consumer, message)

        stop_watching = self._connection.watch_link(
            reconnected=lambda: consumer.breaks("reconnected"),
            disconnected=lambda: consumer.breaks("disconnected"),
        )
        subscription: Subscription | None = None
        try:
            subscription = await self._connection.subscribe(inbox, deliver)
            await self._jetstream.create_consumer(INTENT.name, self._config(inbox))
            await consumer.broken.wait()
        finally:
            consumer.breaks("stopped")
            stop_watching()
            if subscription is not None:
                with contextlib.suppress(Exception):
                    await subscription.unsubscribe()
        return consumer.reason

    def _config(self, inbox: str) -> dict[str, object]:
        self._consumers += 1
        return {
            "name": f"{INTENT_CONSUMER.name_prefix}{self._owner}-{self._consumers}",
            "deliver_subject": inbox,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(INTENT_CONSUMER.ack_wait_s * NANOSECONDS),
            "max_ack_pending": INTENT_CONSUMER.max_ack_pending,
            "max_deliver": -1,
            "filter_subject": INTENT_CONSUMER.filter_subject,
            "idle_heartbeat": int(_HEARTBEAT_S * NANOSECONDS),
            "inactive_threshold": 3600 * NANOSECONDS,
        }

    async def _remove_predecessors(self) -> None:
        """Whatever consumes INTENT: a work queue has one owner."""
        for name in await self._jetstream.consumer_names(INTENT.name):
            with contextlib.suppress(JetStreamError):
                await self._jetstream.delete_consumer(INTENT.name, name)

    def _receive(self, consumer: _Consumer, message: Msg) -> None:
        headers = message.headers or {}
        sequence = place_of(message.reply).stream_sequence
        source = Unreadable(
            INTENT.name, consumer.incarnation, message.subject, sequence, message.data
        )
        consumer.delivered += 1
        is_early = consumer.delivered <= INTENT_CONSUMER.max_ack_pending
        may_have_begun = is_early and sequence <= consumer.taken_over_at
        try:
            item = self._item(message, source, may_have_begun=may_have_begun)
        except Undecodable as problem:
            intent_id = headers.get(MESSAGE_ID, "")
            self._spawn(self._put_aside(consumer, source, str(problem), message.reply, intent_id))
            return
        self._handler.arrived(item.payload)
        self._hand_out(consumer, consumer.queue.accept(item))

    async def _put_aside(
        self, consumer: _Consumer, source: Unreadable, reason: str, reply: str, intent_id: str
    ) -> None:
        try:
            await self._handler.unreadable(source, reason, intent_id=intent_id)
            await self._acknowledge(reply)
        except BusError as problem:
            log.warning("intent.not_put_aside", sequence=source.sequence, problem=str(problem))
            consumer.breaks(_UNANSWERED)
        finally:
            self._end()

    def _item(self, message: Msg, source: Unreadable, *, may_have_begun: bool) -> Item[Delivery]:
        parts: Parts | None = None
        run: Run | None = None
        try:
            intent: AnyIntent | UnknownIntent = codec.intents.decode(message.data)
        except UnknownTag as unknown:
            envelope = codec.envelope_of(message.data)
            intent = UnknownIntent(unknown.tag, envelope)
        else:
            envelope = intent
            if isinstance(intent, BindGang) and intent.parts > 1:
                parts = Parts(f"{intent.attempt}/{intent.name}", intent.part, intent.parts)
            run = run_of(intent)
        return Item(
            source.sequence,
            envelope.key,
            Delivery(intent, message.reply, source, may_have_begun),
            self._clock.monotonic() + envelope.lives_s,
            parts,
            sender=(envelope.service, envelope.shard),
            run=run,
            is_fence=isinstance(intent, Fence),
        )

    def _hand_out(self, consumer: _Consumer, batches: list[Batch[Delivery]]) -> None:
        if consumer.broken.is_set():
            return  # all of it comes again, to the next consumer
        for batch in batches:
            self._spawn(self._work(consumer, batch))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._busy += 1
        self._idle.clear()
        try:
            self._group.create_task(work)
        except RuntimeError:
            # The group is ending: what was not acknowledged comes to the next owner.
            work.close()
            self._end()

    def _end(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._idle.set()

    async def _work(self, consumer: _Consumer, batch: Batch[Delivery]) -> None:
        try:
            await self._handle(batch)
            reach(ANSWERED)
            for item in batch.items:
                await self._acknowledge(item.payload.reply)
        except BusError as problem:
            # Without a bus there is no outcome. It will come again, and its successors must
            # not overtake it: taking over anew returns everything unacknowledged in order.
            log.warning("intent.unanswered", key=batch.key, problem=str(problem))
            consumer.breaks(_UNANSWERED)
        finally:
            freed = consumer.queue.finish(batch)
            self._end()
        self._hand_out(consumer, freed)

    async def _handle(self, batch: Batch[Delivery]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._handler.handle(batch)
            except BusError:
                raise
            except Exception as problem:
                log.exception("intent.failed", key=batch.key, attempt=attempt)
                if attempt == _ATTEMPTS:
                    await self._handler.failed(batch, problem)
                    return
                await asyncio.sleep(_RETRY_S * attempt)
            else:
                return

    async def _acknowledge(self, reply: str) -> None:
        await self._connection.publish(reply, b"+ACK")

    async def _tick(self) -> None:
        """Give up on missing parts, and notice silence."""
        while True:
            await asyncio.sleep(_TICK_S)
            consumer = self._consumer
            if consumer is None or consumer.broken.is_set():
                continue
            now = self._clock.monotonic()
            if now - consumer.heard_at > _SILENCE_S:
                consumer.breaks(f"nothing heard for {_SILENCE_S:g} s")
            else:
                self._hand_out(consumer, consumer.queue.overdue(now))
