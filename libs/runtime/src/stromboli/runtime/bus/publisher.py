"""Publish to JetStream with many messages in flight and an answer for each of them.

nats-py's `publish_async` never resolves the future of a refused message, and then stalls for
good. Ours has a private inbox, a bounded window, a deadline per message, and tells apart
"refused" (not stored), "uncertain" (perhaps stored) and "not sent".
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import msgspec
from nats.aio.msg import Msg

from stromboli.contracts.errors import MessageTooLarge
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.errors import (
    BusClosed,
    BusDisconnected,
    BusError,
    PublishRefused,
    PublishUncertain,
    StreamFull,
    WrongLastSequence,
)
from stromboli.runtime.bus.window import Window
from stromboli.runtime.clock import Clock

EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_ON = "Nats-Expected-Last-Subject-Sequence-Subject"
"""The subject that the expected sequence is about, where it is not the message's own."""
MESSAGE_ID = "Nats-Msg-Id"
MESSAGE_TTL = "Nats-TTL"

_WRONG_LAST_SEQUENCE = (10071, 10164)
_FORBIDDEN = 403

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
GIVE_UP_S = 60.0
"""Half of the time for which the server knows a message id; so a repeat is never stored twice."""
_NOT_STORED = 10077
"""For whatever reason; only the description says which."""


class PubAck(msgspec.Struct, frozen=True):
    """The message is stored under this sequence."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct, frozen=True):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


_answers = msgspec.json.Decoder(_Answer)


@dataclass(slots=True)
class _InFlight:
    subject: str
    sent_at: float
    future: "asyncio.Future[PubAck]"


class Publisher:
    """A window of unacknowledged publishes; make one with `publishing`."""

    def __init__(
        self, connection: BusConnection, clock: Clock, *, window: int, deadline_s: float
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._deadline_s = deadline_s
        self._window = Window(window)
        self._in_flight: dict[str, _InFlight] = {}
        self._inbox = connection.new_inbox("pub")
        self._next = 0
        self._closed = False

    @property
    def max_payload(self) -> int:
        """Bytes that one message may have, headers included."""
        return self._connection.max_payload

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        expect_last: int | None = None,
        message_id: str = "",
        ttl_s: int = 0,
    ) -> PubAck:
        """Store one message and wait until the server says so."""
        future = await self.send(
            subject,
            payload,
            headers=headers,
            expect_last=expect_last,
            message_id=message_id,
            ttl_s=ttl_s,
        )
        return await future

    async def publish_until_acked(
        self,
        subject: str,
        payload: bytes,
        *,
        message_id: str,
        headers: dict[str, str] | None = None,
        give_up_s: float = GIVE_UP_S,
    ) -> PubAck:
        """Repeat the same message with the same id until the server says that it is stored.

        Whatever goes wrong, the message may be stored or may be stored later, so nothing but an
        acknowledgement ends this. Only what can never be stored is raised at once, see
        `is_for_good` and `MessageTooLarge`. `PublishUncertain` says that the time was over.
        """
        give_up_at = self._clock.monotonic() + give_up_s
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                async with asyncio.timeout(max(0.0, give_up_at - self._clock.monotonic())):
                    return await self.publish(
                        subject, payload, message_id=message_id, headers=headers
                    )
            except TimeoutError as late:
                raise PublishUncertain(subject, f"none within {give_up_s:g} s") from late
            except BusError as problem:
                if is_for_good(problem):
                    raise
                if self._clock.monotonic() + pause_s >= give_up_at:
                    raise PublishUncertain(subject, f"{problem}, for {give_up_s:g} s") from problem
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def send(
        self,
        subject: str,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        expect_last: int | None = None,
        message_id: str = "",
        ttl_s: int = 0,
    ) -> "asyncio.Future[PubAck]":
        """Put a message on the wire and return its acknowledgement to come.

        Waits only for a place in the window. The future always ends, within the deadline.
        """
        if self._closed:
            raise BusClosed("the publisher was closed")
        all_headers = dict(headers or {})
        if expect_last is not None:
            all_headers[EXPECTED_LAST] = str(expect_last)
        if message_id:
            all_headers[MESSAGE_ID] = message_id
        if ttl_s:
            all_headers[MESSAGE_TTL] = f"{ttl_s}s"
        # The server counts the headers too, and ends the connection of whoever sends more.
        size = len(payload) + _size_on_the_wire(all_headers)
        if size > self._connection.max_payload:
            raise MessageTooLarge(subject, size, self._connection.max_payload)
        await self._window.enter()
        if self._closed:
            self._window.leave()
            raise BusClosed("the publisher was closed")
        self._next += 1
        token = str(self._next)
        future: asyncio.Future[PubAck] = asyncio.get_running_loop().create_future()
        self._in_flight[token] = _InFlight(subject, self._clock.monotonic(), future)
        try:
            await self._connection.publish(
                subject, payload, reply=f"{self._inbox}.{token}", headers=all_headers or None
            )
        except BaseException:
            self._forget(token)
            raise
        return future

    def _forget(self, token: str) -> "asyncio.Future[PubAck] | None":
        entry = self._in_flight.pop(token, None)
        if entry is None:
            return None
        self._window.leave()
        return None if entry.future.done() else entry.future

    async def _on_answer(self, message: Msg) -> None:
        token = message.subject.rpartition(".")[2]
        entry = self._in_flight.get(token)
        future = self._forget(token)
        if entry is None or future is None:
            return
        if not message.data:
            no_stream = PublishRefused(entry.subject, 503, "no stream stores this subject now")
            future.set_exception(no_stream)
            return
        try:
            answer = _answers.decode(message.data)
        except msgspec.DecodeError as problem:
            unclear = PublishUncertain(entry.subject, f"an answer that can't be read: {problem}")
            future.set_exception(unclear)
            return
        if answer.error is None and not answer.seq:
            # Seen with replicas: the first message of this id is still being stored.
            unclear = PublishUncertain(entry.subject, "an acknowledgement without a sequence")
            future.set_exception(unclear)
            return
        if answer.error is None:
            future.set_result(PubAck(answer.stream, answer.seq, answer.duplicate))
            return
        error = answer.error
        future.set_exception(_refusal(error)(entry.subject, error.err_code, error.description))

    def _deny(self, denied: str) -> None:
        """The server forbids a subject (told in lower case) and will not answer."""
        for token, entry in tuple(self._in_flight.items()):
            if entry.subject.lower() == denied and (future := self._forget(token)) is not None:
                forbidden = PublishRefused(
                    entry.subject, _FORBIDDEN, "this service may not publish there"
                )
                future.set_exception(forbidden)

    def _close(self) -> None:
        self._closed = True
        self._fail_all("the publisher was closed")

    def _fail_all(self, detail: str) -> None:
        for token, entry in tuple(self._in_flight.items()):
            if (future := self._forget(token)) is not None:
                future.set_exception(PublishUncertain(entry.subject, detail))

    async def _expire(self) -> None:
        """End what has waited too long; the oldest stand first, so one look is enough."""
        while True:
            await asyncio.sleep(self._deadline_s / 10)
            oldest_allowed = self._clock.monotonic() - self._deadline_s
            for token, entry in tuple(self._in_flight.items()):
                if entry.sent_at > oldest_allowed:
                    break
                if (future := self._forget(token)) is not None:
                    late = PublishUncertain(entry.subject, f"none within {self._deadline_s} s")
                    future.set_exception(late)


def is_for_good(problem: BaseException) -> bool:
    """Would the same message fail again, however often it is sent?

    "No stream", "not the leader", "full", "a duplicate is in process" are not: they pass.
    """
    match problem:
        case PublishRefused(code=code):
            return code == _FORBIDDEN
        case _:
            return isinstance(problem, BusClosed)


def _refusal(error: _Error) -> type[PublishRefused]:
    if error.err_code in _WRONG_LAST_SEQUENCE:
        return WrongLastSequence
    if error.err_code == _NOT_STORED and "maximum bytes" in error.description:
        return StreamFull
    return PublishRefused


def _size_on_the_wire(headers: dict[str, str]) -> int:
    if not headers:
        return 0
    lines = sum(len(key.encode()) + len(value.encode()) + 4 for key, value in headers.items())
    return len("NATS/1.0\r\n\r\n") + lines


@contextlib.asynccontextmanager
async def publishing(
    connection: BusConnection, clock: Clock, *, window: int = 1024, deadline_s: float = 5.0
) -> AsyncGenerator[Publisher]:
    """A publisher that answers every message as long as the block runs."""
    publisher = Publisher(connection, clock, window=window, deadline_s=deadline_s)
    subscription = await connection.subscribe(f"{publisher._inbox}.*", publisher._on_answer)  # noqa: SLF001 (same module)
    stop_watching = connection.watch_link(
        reconnected=lambda: None,
        disconnected=lambda: publisher._fail_all("the connection was lost"),  # noqa: SLF001
        denied=publisher._deny,  # noqa: SLF001
    )
    expiry = asyncio.create_task(publisher._expire(), name="publisher-expiry")  # noqa: SLF001
    try:
        yield publisher
    finally:
        expiry.cancel()
        stop_watching()
        with contextlib.suppress(asyncio.CancelledError):
            await expiry
        publisher._close()  # noqa: SLF001
        with contextlib.suppress(Exception):
            await subscription.unsubscribe()


__all__ = ["BusDisconnected", "PubAck", "Publisher", "is_for_good", "publishing"]
