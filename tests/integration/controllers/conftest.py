"""The controllers, and a scheduler's seat on the bus beside them."""

from collections.abc import AsyncIterator

import pytest

from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.controller_fixtures import (
    StartControllers,
    cluster,
    gateway,
    start_controllers,
)
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.nats_server import NatsServer

__all__ = ["cluster", "gateway", "start_controllers"]


@pytest.fixture
async def controllers(start_controllers: StartControllers) -> DeciderProcess:
    process = start_controllers()
    await process.until_ready()
    return process


@pytest.fixture
async def scheduler(gateway: GatewayProcess, nats_server: NatsServer) -> AsyncIterator[BusPeer]:
    async with BusPeer("scheduler", nats_server.url) as peer:
        await peer.until_synced()
        yield peer
