"""One connection to NATS per process, with the settings our rules need.

`pending_size=0` makes a publish fail at once while disconnected, instead of arriving seconds
later when its decision is stale. The inbox prefix is the service's own, because the server
lets a service listen nowhere else.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Any

import msgspec
import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from stromboli.contracts.permissions import inbox_prefix
from stromboli.runtime.bus.errors import BusDisconnected, BusError
from stromboli.runtime.logs import get_logger
from stromboli.runtime.redaction import Secret

log = get_logger(__name__)

_RECONNECT_WAIT_S = 0.2
_DRAIN_S = 5


class BusSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where NATS is and who we are there."""

    url: Annotated[str, msgspec.Meta(description="NATS server, or several separated by commas")] = (
        "nats://127.0.0.1:4222"
    )
    user: Annotated[str, msgspec.Meta(description="NATS user; empty means no authentication")] = ""
    password: Annotated[Secret, msgspec.Meta(description="NATS password")] = Secret("")


class BusConnection:
    """A connection that reconnects for ever and tells its listeners when it did."""

    def __init__(self, client: Client, service: str) -> None:
        self._client = client
        self.service = service
        self._inboxes = 0
        self.reconnects = 0
        self._reconnected: set[Callable[[], None]] = set()
        self._disconnected: set[Callable[[], None]] = set()

    @property
    def connected(self) -> bool:
        return self._client.is_connected

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    def new_inbox(self, purpose: str) -> str:
        """A subject that only we may listen to, never used before by any process."""
        self._inboxes += 1
        unique = self._client._nuid.next().decode()  # noqa: SLF001 (no public generator)
        return f"{inbox_prefix(self.service)}.{purpose}.{unique}.{self._inboxes}"

    def watch_link(
        self, *, reconnected: Callable[[], None], disconnected: Callable[[], None]
    ) -> Callable[[], None]:
        """Be told when the link goes and comes; call the result to stop being told."""
        self._reconnected.add(reconnected)
        self._disconnected.add(disconnected)

        def stop() -> None:
            self._reconnected.discard(reconnected)
            self._disconnected.discard(disconnected)

        return stop

    async def subscribe(
        self, subject: str, callback: Callable[[Msg], Awaitable[None]]
    ) -> Subscription:
        # No limits on the client side: JetStream's flow control and max_ack_pending bound
        # what is in flight, and a limit here would drop messages.
        return await self._client.subscribe(
            subject, cb=callback, pending_msgs_limit=0, pending_bytes_limit=0
        )

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
        except (nats.errors.OutboundBufferLimitError, nats.errors.ConnectionClosedError) as lost:
            raise BusDisconnected(subject) from lost

    async def request(self, subject: str, payload: bytes, *, timeout_s: float = 5.0) -> Msg:
        try:
            return await self._client.request(subject, payload, timeout=timeout_s)
        except (
            nats.errors.OutboundBufferLimitError,
            nats.errors.ConnectionClosedError,
            nats.errors.ConnectionReconnectingError,
        ) as lost:
            raise BusDisconnected(subject) from lost
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError) as silent:
            raise BusError(f"no answer from NATS to {subject}: {silent!r}") from silent

    async def _on_reconnect(self) -> None:
        self.reconnects += 1
        log.info("bus.reconnected", reconnects=self.reconnects)
        for listener in tuple(self._reconnected):
            listener()

    async def _on_disconnect(self) -> None:
        log.warning("bus.disconnected")
        for listener in tuple(self._disconnected):
            listener()


async def _on_error(problem: Exception) -> None:
    log.warning("bus.error", problem=str(problem) or type(problem).__name__)


@contextlib.asynccontextmanager
async def connect(settings: BusSettings, service: str) -> AsyncGenerator[BusConnection]:
    """Connect, waiting for the server as long as it takes; drain and close at the end."""
    client = Client()
    connection = BusConnection(client, service)
    options: dict[str, Any] = {}
    if settings.user:
        options |= {"user": settings.user, "password": settings.password.reveal()}
    while True:
        try:
            await client.connect(
                servers=[url.strip() for url in settings.url.split(",")],
                name=f"stromboli-{service}",
                inbox_prefix=inbox_prefix(service),
                pending_size=0,
                allow_reconnect=True,
                max_reconnect_attempts=-1,
                reconnect_time_wait=_RECONNECT_WAIT_S,  # pyright: ignore[reportArgumentType]
                connect_timeout=2,
                ping_interval=5,
                max_outstanding_pings=2,
                drain_timeout=_DRAIN_S,
                error_cb=_on_error,
                reconnected_cb=connection._on_reconnect,  # noqa: SLF001 (same module)
                disconnected_cb=connection._on_disconnect,  # noqa: SLF001 (same module)
                **options,
            )
            break
        except (OSError, nats.errors.Error) as problem:
            log.warning("bus.waiting", url=settings.url, problem=str(problem))
            await asyncio.sleep(1.0)
    try:
        yield connection
    finally:
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await client.drain()
        if not client.is_closed:
            await client.close()
