"""One connection to NATS per process, with the settings our rules need.

`pending_size=0` makes a publish fail at once while disconnected, instead of arriving seconds
later when its decision is stale; what was still in our buffer when the link broke is thrown
away for the same reason. The inbox prefix is the service's own, because the server lets a
service listen nowhere else. Requests are our own as well: nats-py's wait out their whole
timeout when the server dies under them.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from stromboli.contracts.permissions import inbox_prefix
from stromboli.runtime.bus.client import AbruptClient
from stromboli.runtime.bus.errors import BusClosed, BusDisconnected, NotPermitted, Unanswered
from stromboli.runtime.logs import get_logger
from stromboli.runtime.quiet import once_per
from stromboli.runtime.redaction import Secret

log = get_logger(__name__)
quiet_log = once_per(30.0, log)

_RECONNECT_WAIT_S = 0.2
_CONNECT_TIMEOUT_S = 2
_PING_INTERVAL_S = 5
_PINGS_UNANSWERED = 2
_FLUSH_S = 2

# nats-py hands the server's words over in lower case.
_DENIED = re.compile(r'permissions violation for publish to "(?P<subject>[^"]+)"')


class BusSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where NATS is and who we are there."""

    url: Annotated[str, msgspec.Meta(description="NATS server, or several separated by commas")] = (
        "nats://127.0.0.1:4222"
    )
    user: Annotated[str, msgspec.Meta(description="NATS user; empty means no authentication")] = ""
    password: Annotated[Secret, msgspec.Meta(description="NATS password")] = Secret("")


@dataclass(slots=True, eq=False)
class _LinkWatcher:
    reconnected: Callable[[], None]
    disconnected: Callable[[], None]
    denied: Callable[[str], None]


@dataclass(slots=True)
class _Request:
    subject: str
    answer: "asyncio.Future[Msg]"


class BusConnection:
    """A connection that reconnects for ever and tells its listeners when it did."""

    def __init__(self, client: Client, service: str) -> None:
        self._client = client
        self.service = service
        self._inboxes = 0
        self.reconnects = 0
        self.is_leaving = False
        self._watchers: list[_LinkWatcher] = []
        self._requests: dict[str, _Request] = {}
        self._requested = 0
        self._answers = self.new_inbox("ask")

    @property
    def connected(self) -> bool:
        return self._client.is_connected

    @property
    def max_payload(self) -> int:
        """Bytes that one message may have, headers included."""
        return self._client.max_payload

    def new_inbox(self, purpose: str) -> str:
        """A subject that only we may listen to, never used before by any process."""
        self._inboxes += 1
        unique = self._client._nuid.next().decode()  # noqa: SLF001 (no public generator)
        return f"{inbox_prefix(self.service)}.{purpose}.{unique}.{self._inboxes}"

    def watch_link(
        self,
        *,
        reconnected: Callable[[], None],
        disconnected: Callable[[], None],
        denied: Callable[[str], None] = lambda _: None,
    ) -> Callable[[], None]:
        """Be told when the link goes and comes; call the result to stop being told.

        `denied` is told a subject, in lower case, that the server does not let us publish to.
        """
        watcher = _LinkWatcher(reconnected, disconnected, denied)
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    async def subscribe(
        self, subject: str, callback: Callable[[Msg], Awaitable[None]]
    ) -> Subscription:
        # No limits on the client side: JetStream's flow control and max_ack_pending bound
        # what is in flight, and a limit here would drop messages.
        try:
            return await self._client.subscribe(
                subject, cb=callback, pending_msgs_limit=0, pending_bytes_limit=0
            )
        except (nats.errors.ConnectionClosedError, nats.errors.ConnectionDrainingError) as lost:
            raise BusDisconnected(subject) from lost

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Hand a message to the socket, or fail at once."""
        try:
            await self._client.publish(subject, payload, reply=reply, headers=headers)
        except (
            nats.errors.OutboundBufferLimitError,
            nats.errors.ConnectionClosedError,
            nats.errors.ConnectionDrainingError,
        ) as lost:
            raise BusDisconnected(subject) from lost

    async def request(self, subject: str, payload: bytes, *, timeout_s: float = 5.0) -> Msg:
        """Ask and wait for the answer; a link that breaks meanwhile ends the waiting."""
        self._requested += 1
        token = str(self._requested)
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._requests[token] = _Request(subject, answer)
        try:
            await self.publish(subject, payload, reply=f"{self._answers}.{token}")
            async with asyncio.timeout(timeout_s):
                message = await answer
        except TimeoutError as late:
            raise Unanswered(subject, f"none within {timeout_s:g} s") from late
        finally:
            del self._requests[token]
        if not message.data and (message.headers or {}).get("Status") == "503":
            raise Unanswered(subject, "nobody listens there")
        return message

    async def _on_answer(self, message: Msg) -> None:
        request = self._requests.get(message.subject.rpartition(".")[2])
        if request is not None and not request.answer.done():
            request.answer.set_result(message)

    async def _listen_for_answers(self) -> None:
        await self.subscribe(f"{self._answers}.*", self._on_answer)

    async def _on_reconnect(self) -> None:
        self.reconnects += 1
        log.info("bus.reconnected", reconnects=self.reconnects)
        for watcher in tuple(self._watchers):
            watcher.reconnected()

    async def _on_disconnect(self) -> None:
        if not self.is_leaving:
            log.warning("bus.disconnected")
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_exception(Unanswered(request.subject, "the connection was lost"))
        for watcher in tuple(self._watchers):
            watcher.disconnected()

    async def _on_error(self, problem: Exception) -> None:
        text = str(problem) or type(problem).__name__
        quiet_log.warning("bus.error", key=text, problem=text)
        if (denied := _DENIED.search(text)) is None:
            return
        for request in self._requests.values():
            if request.subject.lower() == denied["subject"] and not request.answer.done():
                request.answer.set_exception(NotPermitted(request.subject, self.service))
        for watcher in tuple(self._watchers):
            watcher.denied(denied["subject"])


class _Ending:
    """Ends the block that uses a connection when nats-py gives the connection up."""

    def __init__(self, client: Client, connection: BusConnection) -> None:
        self._client = client
        self._connection = connection
        self._user = asyncio.current_task()
        self._cancelling = 0 if self._user is None else self._user.cancelling()
        self._given_up = False

    async def on_closed(self) -> None:
        if not self._connection.is_leaving and self._user is not None:
            self._given_up = True
            self._user.cancel()

    @contextlib.contextmanager
    def explained(self) -> Any:
        """Turn the cancellation that we asked for into the error that it means."""
        try:
            yield
        except asyncio.CancelledError:
            user = self._user
            if self._given_up and user is not None and user.uncancel() <= self._cancelling:
                raise BusClosed(str(self._client.last_error)) from self._client.last_error
            raise


@contextlib.asynccontextmanager
async def connect(settings: BusSettings, service: str) -> AsyncGenerator[BusConnection]:
    """Connect, waiting for the server as long as it takes; flush and close at the end.

    The block is ended with `BusClosed` if the server refuses us for good.
    """
    client = AbruptClient()
    connection = BusConnection(client, service)
    ending = _Ending(client, connection)
    options: dict[str, Any] = {}
    if settings.user:
        options |= {"user": settings.user, "password": settings.password.reveal()}
    try:
        connecting = client.connect(
            servers=[url.strip() for url in settings.url.split(",")],
            name=f"stromboli-{service}",
            inbox_prefix=inbox_prefix(service),
            pending_size=0,
            allow_reconnect=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=_RECONNECT_WAIT_S,  # pyright: ignore[reportArgumentType]
            connect_timeout=_CONNECT_TIMEOUT_S,
            ping_interval=_PING_INTERVAL_S,
            max_outstanding_pings=_PINGS_UNANSWERED,
            error_cb=connection._on_error,  # noqa: SLF001 (same module)
            reconnected_cb=connection._on_reconnect,  # noqa: SLF001
            disconnected_cb=connection._on_disconnect,  # noqa: SLF001
            closed_cb=ending.on_closed,
            **options,
        )
        await certainly_cancellable(connecting)
        with ending.explained():
            await connection._listen_for_answers()  # noqa: SLF001
            yield connection
    finally:
        connection.is_leaving = True
        await _close(client)


async def certainly_cancellable(work: Coroutine[Any, Any, None]) -> None:
    """Await something that may lose a cancellation.

    `asyncio.wait_for` does until Python 3.12, and a task group until 3.13.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.1)
    await task


async def _close(client: AbruptClient) -> None:
    """What was handed over reaches the server, if it listens; then the socket goes."""
    try:
        if client.is_connected:
            with contextlib.suppress(nats.errors.Error, OSError):
                await client.flush(timeout=_FLUSH_S)
    finally:
        await client.close()
        await client.end_reconnecting()
