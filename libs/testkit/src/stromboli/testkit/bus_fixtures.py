"""One member of the bus for a test: a connection, a publisher, and the JetStream API.

`bus` is the gateway on a server of the test's own, with every stream there. Tests that need
several members, or other rights, make them with `join`.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

import pytest

from stromboli.contracts.streams import STREAMS
from stromboli.runtime.bus.connection import BusConnection, BusSettings, connect
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.publisher import Publisher, publishing
from stromboli.runtime.bus.streams import reconcile
from stromboli.runtime.clock import Clock, SystemClock
from stromboli.runtime.redaction import Secret
from stromboli.testkit.nats_cluster import NatsCluster
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.nats_wire import NatsWire

__all__ = ["Bus", "bus", "join"]


@dataclass(slots=True, frozen=True)
class Bus:
    """A member of the bus and what it can do there."""

    connection: BusConnection
    jetstream: JetStream
    publisher: Publisher
    clock: Clock

    async def messages(self, stream: str) -> int:
        """How many messages a stream holds."""
        return (await self.jetstream.stream_info(stream)).state.messages


@contextlib.asynccontextmanager
async def join(
    server: NatsServer | NatsCluster | NatsWire,
    service: str = "gateway",
    *,
    password: str = "",
    window: int = 1024,
    deadline_s: float = 5.0,
) -> AsyncGenerator[Bus]:
    """Join as this service; with a password also as this service's user."""
    settings = BusSettings(
        url=server.url, user=service if password else "", password=Secret(password)
    )
    clock = SystemClock()
    async with (
        connect(settings, service) as connection,
        publishing(connection, clock, window=window, deadline_s=deadline_s) as publisher,
    ):
        yield Bus(connection, JetStream(connection), publisher, clock)


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    """The gateway's place on a fresh bus with all streams."""
    async with join(nats_server) as member:
        await reconcile(member.jetstream, STREAMS)
        yield member
