"""Receive the intents of some partitions, in order per key, each until it has ended.

The owner of a partition deletes its predecessor's consumer and makes its own, because only
then do unacknowledged intents come back in order. An intent is acknowledged after its
handler has returned, that is after its OUTCOME is stored; until then the server is told that
it is in progress. Nothing is ever nak'ed: that would send it behind its successors.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from stromboli.contracts import codec
from stromboli.contracts.errors import Undecodable, UnknownTag
from stromboli.contracts.intents import AnyIntent, BindGang, Fence
from stromboli.contracts.streams import INTENT, PARTITION_CONSUMERS, PartitionConsumer
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.dead_letters import Unreadable
from stromboli.runtime.bus.delivery import place_of
from stromboli.runtime.bus.errors import BusError, JetStreamError
from stromboli.runtime.bus.jetstream import NANOSECONDS, JetStream
from stromboli.runtime.bus.ordering import Batch, Item, KeyedQueue, Parts, Run
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
    """An intent of a type that only a newer gateway knows."""

    tag: str
    envelope: codec.AnyEnvelope


@dataclass(slots=True)
class Delivery:
    """One intent as it was delivered."""

    intent: AnyIntent | UnknownIntent
    partition: int
    headers: dict[str, str]
    reply: str
    redelivered: bool
    source: Unreadable
    touched_at: float
    abandoned: asyncio.Event
    """Set when the partition is taken over anew: who only waits should stop, it comes again."""


class IntentHandler(Protocol):
    """Who applies intents. It publishes the outcome of each before it returns."""

    async def handle(self, batch: Batch[Delivery]) -> None: ...

    async def unreadable(self, message: Unreadable, reason: str) -> None: ...

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None:
        """`handle` kept raising: put the batch aside, so that its successors go on."""
        ...


@dataclass(slots=True)
class _Partition:
    consumer: PartitionConsumer
    queue: KeyedQueue[Delivery] = field(default_factory=KeyedQueue[Delivery])
    incarnation: str = ""
    heard_at: float = 0.0
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    busy: int = 0

    def breaks(self, reason: str) -> None:
        """Nothing more is taken from this consumer: the partition is taken over anew."""
        if not self.broken.is_set():
            self.reason = reason
            self.broken.set()

    def begin(self) -> None:
        self.busy += 1
        self.idle.clear()

    def end(self) -> None:
        self.busy -= 1
        if not self.busy:
            self.idle.set()


class IntentIntake:
    """Feeds a handler with the intents of its partitions; `run` ends only by cancellation."""

    _group: asyncio.TaskGroup
    """There while `run` runs; nothing is delivered before."""

    def __init__(
        self,
        connection: BusConnection,
        clock: Clock,
        handler: IntentHandler,
        *,
        owner: str,
        partitions: Sequence[int] = range(len(PARTITION_CONSUMERS)),
    ) -> None:
        self._connection = connection
        self._jetstream = JetStream(connection)
        self._clock = clock
        self._handler = handler
        self._owner = owner
        self._partitions = [_Partition(PARTITION_CONSUMERS[index]) for index in partitions]
        self._generation = 0

    @property
    def waiting(self) -> int:
        """Intents that were delivered and have not ended."""
        return sum(len(partition.queue) for partition in self._partitions)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._tick(), name="intake tick")
            for partition in self._partitions:
                name = f"partition {partition.consumer.partition}"
                group.create_task(self._serve(partition), name=name)

    async def _serve(self, partition: _Partition) -> None:
        """Own one partition, taking it over again whenever its consumer is lost."""
        while True:
            index = partition.consumer.partition
            try:
                await self._own(partition)
            except BusError as problem:
                log.debug("partition.waiting", partition=index, problem=str(problem))
                await asyncio.sleep(_RETRY_S)
            else:
                log.info("partition.reset", partition=index, reason=partition.reason)
                if partition.reason == _UNANSWERED:
                    await asyncio.sleep(_RETRY_S)

    async def _own(self, partition: _Partition) -> None:
        consumer = partition.consumer
        # What is being worked on ends first: an intent must never overtake its predecessor.
        # The wait has no deadline of its own because every intent has one.
        if partition.busy:
            await partition.idle.wait()
        info = await self._jetstream.stream_info(INTENT.name)
        await self._remove_predecessors(consumer)
        partition.queue = KeyedQueue()
        partition.incarnation = info.created
        partition.broken.clear()
        partition.heard_at = self._clock.monotonic()
        inbox = self._connection.new_inbox("intents")

        async def deliver(message: Msg) -> None:
            partition.heard_at = self._clock.monotonic()
            if not partition.broken.is_set() and (message.headers or {}).get("Status") != "100":
                self._receive(partition, message)

        stop_watching = self._connection.watch_link(
            reconnected=lambda: partition.breaks("reconnected"),
            disconnected=lambda: partition.breaks("disconnected"),
        )
        subscription: Subscription | None = None
        try:
            subscription = await self._connection.subscribe(inbox, deliver)
            await self._jetstream.create_consumer(INTENT.name, self._config(consumer, inbox))
            await partition.broken.wait()
        finally:
            partition.breaks("stopped")
            stop_watching()
            if subscription is not None:
                with contextlib.suppress(Exception):
                    await subscription.unsubscribe()

    def _config(self, consumer: PartitionConsumer, inbox: str) -> dict[str, object]:
        self._generation += 1
        return {
            "name": f"{consumer.name_prefix}{self._owner}-{self._generation}",
            "deliver_subject": inbox,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(consumer.ack_wait_s * NANOSECONDS),
            "max_ack_pending": consumer.max_ack_pending,
            "max_deliver": -1,
            "filter_subject": consumer.filter_subject,
            "idle_heartbeat": int(_HEARTBEAT_S * NANOSECONDS),
            "inactive_threshold": 3600 * NANOSECONDS,
        }

    async def _remove_predecessors(self, consumer: PartitionConsumer) -> None:
        for name in await self._jetstream.consumer_names(INTENT.name):
            if name.startswith(consumer.name_prefix):
                with contextlib.suppress(JetStreamError):
                    await self._jetstream.delete_consumer(INTENT.name, name)

    def _receive(self, partition: _Partition, message: Msg) -> None:
        place = place_of(message.reply)
        source = Unreadable(
            INTENT.name,
            partition.incarnation,
            message.subject,
            place.stream_sequence,
            message.data,
        )
        try:
            item = self._item(partition, message, source, redelivered=place.deliveries > 1)
        except Undecodable as problem:
            self._spawn(partition, self._put_aside(partition, source, str(problem), message.reply))
            return
        self._hand_out(partition, partition.queue.accept(item))

    async def _put_aside(
        self, partition: _Partition, source: Unreadable, reason: str, reply: str
    ) -> None:
        try:
            await self._handler.unreadable(source, reason)
            await self._acknowledge(reply)
        except BusError as problem:
            log.warning("intent.not_put_aside", sequence=source.sequence, problem=str(problem))
            partition.breaks(_UNANSWERED)
        finally:
            partition.end()

    def _item(
        self, partition: _Partition, message: Msg, source: Unreadable, *, redelivered: bool
    ) -> Item[Delivery]:
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
        delivery = Delivery(
            intent,
            partition.consumer.partition,
            message.headers or {},
            message.reply,
            redelivered,
            source,
            self._clock.monotonic(),
            partition.broken,
        )
        return Item(
            source.sequence,
            envelope.key,
            delivery,
            envelope.not_after,
            parts,
            sender=(envelope.service, envelope.shard),
            run=run,
            is_fence=isinstance(intent, Fence),
        )

    def _hand_out(self, partition: _Partition, batches: list[Batch[Delivery]]) -> None:
        if partition.broken.is_set():
            return  # all of it comes again, to the next consumer
        for batch in batches:
            self._spawn(partition, self._work(partition, partition.queue, batch))

    def _spawn(self, partition: _Partition, work: Coroutine[Any, Any, None]) -> None:
        partition.begin()
        try:
            self._group.create_task(work)
        except RuntimeError:
            # The group is ending: what was not acknowledged comes to the next owner.
            work.close()
            partition.end()

    async def _work(
        self, partition: _Partition, queue: KeyedQueue[Delivery], batch: Batch[Delivery]
    ) -> None:
        try:
            await self._handle(batch)
            reach(ANSWERED)
            for item in batch.items:
                await self._acknowledge(item.payload.reply)
        except BusError as problem:
            # Without a bus there is no outcome. It will come again, and its successors must
            # not overtake it: taking over anew returns everything unacknowledged in order.
            log.warning("intent.unanswered", key=batch.key, problem=str(problem))
            partition.breaks(_UNANSWERED)
        finally:
            freed = queue.finish(batch)
            partition.end()
        if queue is partition.queue:
            self._hand_out(partition, freed)

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
        """Tell the server that work goes on, give up on missing parts, notice silence."""
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._clock.monotonic()
            for partition in self._partitions:
                if partition.broken.is_set():
                    continue
                if now - partition.heard_at > _SILENCE_S:
                    partition.breaks(f"nothing heard for {_SILENCE_S:g} s")
                    continue
                with contextlib.suppress(BusError):
                    await self._report_progress(partition, now)
                overdue = partition.queue.overdue(self._clock.now().timestamp())
                self._hand_out(partition, overdue)

    async def _report_progress(self, partition: _Partition, now: float) -> None:
        due = now - partition.consumer.ack_wait_s / 3
        for item in tuple(partition.queue.items):
            if item.payload.touched_at < due:
                item.payload.touched_at = now
                await self._connection.publish(item.payload.reply, b"+WPI")
