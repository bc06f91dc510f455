"""Read a stream from a known position, for ever, without missing or inventing anything.

An ephemeral push consumer with a fresh name for every attempt, a short heartbeat, and a reset
whenever something does not add up: a gap in the consumer's sequence, silence, a reconnect, a
stream made anew. nats-py's ordered consumer needs up to 19 s to notice a restarted server, and
skips messages when the stream was recreated; this one asks the listener where to start each
time, and the listener knows which incarnation of the log it has read.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.delivery import place_of
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.jetstream import NANOSECONDS, JetStream
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger

log = get_logger(__name__)

_RETRY_S = 0.25
_SILENT_HEARTBEATS = 3
_CONSUMER_OUTLIVES_US_S = 10


class LogMessage(msgspec.Struct, frozen=True, gc=False):
    """One message of a stream, with its place in it."""

    subject: str
    sequence: int
    payload: bytes
    headers: dict[str, str]
    pending: int
    """How many messages of those we read come after it, as far as the server knew."""
    timestamp: float


class LogPosition(msgspec.Struct, frozen=True):
    """What the stream is at the moment we attach to it."""

    incarnation: str
    """The stream's time of creation: another one is another log."""
    last_sequence: int
    away_s: float
    """For how long we have heard nothing from the stream."""


class LogListener(Protocol):
    """Who reads the log. All calls are synchronous: a listener decides, it does not wait."""

    def attach(self, position: LogPosition) -> int:
        """The first sequence to deliver; 1 replays everything.

        0 is for the last message of every subject, and from then on whatever is new.
        """
        ...

    def apply(self, message: LogMessage) -> None: ...

    def caught_up(self) -> None:
        """Everything that was in the stream when we attached has been applied."""
        ...


class _Attachment:
    """One consumer's life: from its creation until something does not add up."""

    def __init__(self, listener: LogListener, clock: Clock) -> None:
        self._listener = listener
        self._clock = clock
        self.broken = asyncio.Event()
        self.reason = ""
        self.failure: Exception | None = None
        self.heard_at = clock.monotonic()
        self.has_heard = False
        self._consumer_sequence = 0
        self._waiting_to_catch_up = True

    def hears(self) -> None:
        self.heard_at = self._clock.monotonic()
        self.has_heard = True

    def breaks(self, reason: str) -> None:
        if not self.broken.is_set():
            self.reason = reason
            self.broken.set()

    def started(self, pending: int) -> None:
        if pending == 0:
            self._catch_up()

    def _catch_up(self) -> None:
        if self._waiting_to_catch_up:
            self._waiting_to_catch_up = False
            self._listener.caught_up()

    def on_control(self, message: Msg, headers: dict[str, str]) -> str:
        """Handle heartbeat and flow control; the result is the subject to answer, if any."""
        stalled = headers.get("Nats-Consumer-Stalled", "")
        last = headers.get("Nats-Last-Consumer")
        if last is not None:
            if int(last) > self._consumer_sequence:
                self.breaks("a heartbeat tells of messages that did not arrive")
            elif not stalled:
                # The server is idle and we have all it sent. `pending` may never have been 0:
                # the last messages of a replay can expire before they are delivered.
                self._catch_up()
        return stalled or message.reply

    def on_data(self, message: Msg, headers: dict[str, str]) -> None:
        place = place_of(message.reply)
        if place.consumer_sequence != self._consumer_sequence + 1:
            self.breaks("messages are missing")
            return
        self._consumer_sequence = place.consumer_sequence
        self._listener.apply(
            LogMessage(
                subject=message.subject,
                sequence=place.stream_sequence,
                payload=message.data,
                headers=headers,
                pending=place.pending,
                timestamp=place.timestamp_ns / NANOSECONDS,
            )
        )
        if place.pending == 0:
            self._catch_up()


class LogReader:
    """Feeds one listener from one stream; `run` ends by cancellation, or as the listener fails."""

    def __init__(
        self,
        connection: BusConnection,
        clock: Clock,
        *,
        stream: str,
        filters: Sequence[str] = (),
        listener: LogListener,
        heartbeat_s: float = 1.0,
    ) -> None:
        self._connection = connection
        self._jetstream = JetStream(connection)
        self._clock = clock
        self._stream = stream
        self._filters = tuple(filters)
        self._listener = listener
        self._heartbeat_s = heartbeat_s
        self._heard_at: float | None = None
        self.resets = 0
        self.attached = False

    async def run(self) -> None:
        while True:
            try:
                reason = await self._read_until_broken()
            except BusError as problem:
                log.debug("reader.waiting", stream=self._stream, problem=str(problem))
                await asyncio.sleep(_RETRY_S)
            else:
                self.resets += 1
                log.info("reader.reset", stream=self._stream, reason=reason, resets=self.resets)

    def _away_s(self) -> float:
        return 0.0 if self._heard_at is None else self._clock.monotonic() - self._heard_at

    async def _read_until_broken(self) -> str:
        info = await self._jetstream.stream_info(self._stream)
        position = LogPosition(info.created, info.state.last_seq, self._away_s())
        start = self._listener.attach(position)
        attachment = _Attachment(self._listener, self._clock)
        inbox = self._connection.new_inbox("read")

        async def deliver(message: Msg) -> None:
            attachment.hears()
            if attachment.broken.is_set():
                return
            headers: dict[str, str] = message.headers or {}
            try:
                if headers.get("Status") != "100":
                    attachment.on_data(message, headers)
                elif answer := attachment.on_control(message, headers):
                    with contextlib.suppress(BusError):
                        await self._connection.publish(answer, b"")
            except Exception as problem:  # noqa: BLE001 (nats-py would log it and go on)
                attachment.failure = problem
                attachment.breaks("the listener failed")

        stop_watching = self._connection.watch_link(
            reconnected=lambda: attachment.breaks("reconnected"),
            disconnected=lambda: attachment.breaks("disconnected"),
        )
        subscription: Subscription | None = None
        name = "".join(inbox.rsplit(".", 2)[1:])
        try:
            subscription = await self._connection.subscribe(inbox, deliver)
            consumer = await self._jetstream.create_consumer(
                self._stream, self._consumer_config(name, inbox, start)
            )
            # The stream may have been made anew between the look and the consumer.
            again = await self._jetstream.stream_info(self._stream)
            if again.created == info.created:
                attachment.started(consumer.num_pending)
                self.attached = True
            else:
                attachment.breaks("the stream was recreated")
            await self._watch(attachment)
            if attachment.failure is not None:
                raise attachment.failure
            return attachment.reason
        finally:
            self.attached = False
            if attachment.has_heard:
                self._heard_at = attachment.heard_at
            stop_watching()
            # Nobody listens any more, so the server removes the consumer by itself.
            if subscription is not None:
                with contextlib.suppress(Exception):
                    await subscription.unsubscribe()

    async def _watch(self, attachment: _Attachment) -> None:
        """Return when the attachment is broken or has been silent for too long."""
        limit = self._heartbeat_s * _SILENT_HEARTBEATS
        while not attachment.broken.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await attachment.broken.wait()
            if self._clock.monotonic() - attachment.heard_at > limit:
                attachment.breaks(f"nothing heard for {limit} s")

    def _consumer_config(self, name: str, inbox: str, start: int) -> dict[str, object]:
        config: dict[str, object] = {
            "name": name,
            "deliver_subject": inbox,
            "ack_policy": "none",
            "max_deliver": 1,
            "replay_policy": "instant",
            "flow_control": True,
            "idle_heartbeat": int(self._heartbeat_s * NANOSECONDS),
            "inactive_threshold": _CONSUMER_OUTLIVES_US_S * NANOSECONDS,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if start:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": start}
        else:
            config["deliver_policy"] = "last_per_subject"
        if len(self._filters) == 1:
            config["filter_subject"] = self._filters[0]
        elif self._filters:
            config["filter_subjects"] = list(self._filters)
        return config
