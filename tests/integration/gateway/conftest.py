"""A gateway between a NATS server of the test's own and each of the two API servers."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_fixtures import bus
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer

__all__ = ["bus"]

StartGateway = Callable[..., GatewayProcess]


@pytest.fixture
async def start_gateway(
    tmp_path: Path, nats_server: NatsServer, api_server: ApiServer
) -> AsyncIterator[StartGateway]:
    """Starts gateways; those that still run at the end are killed."""
    started: list[GatewayProcess] = []

    def start(**options: Any) -> GatewayProcess:
        gateway = GatewayProcess(
            tmp_path / f"gateway-{len(started)}",
            nats_url=nats_server.url,
            kubeconfig=api_server.kubeconfig,
            **options,
        )
        started.append(gateway)
        return gateway

    yield start
    for gateway in started:
        gateway.kill()


@pytest.fixture
async def gateway(start_gateway: StartGateway) -> GatewayProcess:
    gateway = start_gateway()
    await gateway.until_ready()
    return gateway


@pytest.fixture
async def scheduler(gateway: GatewayProcess, nats_server: NatsServer) -> AsyncIterator[BusPeer]:
    async with BusPeer("scheduler", nats_server.url) as peer:
        await peer.until_synced()
        yield peer


@pytest.fixture
async def controllers(gateway: GatewayProcess, nats_server: NatsServer) -> AsyncIterator[BusPeer]:
    async with BusPeer("controllers", nats_server.url) as peer:
        await peer.until_synced()
        yield peer


@pytest.fixture
def cluster(kube: KubeClient, namespace: str) -> ClusterBuilder:
    return ClusterBuilder(kube, namespace)
