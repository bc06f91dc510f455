"""Gateways that can be hurt, and peers on the bus that see what comes of it.

Imported by the conftest files of the folders that want them: elsewhere `cluster` means another
thing. Where `nats_server` is a whole cluster, they use all its members.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import EVERY_KIND
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_cluster import NatsCluster
from stromboli.testkit.nats_server import NatsServer

__all__ = ["Join", "StartGateway", "cluster", "join", "start_gateway"]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


@pytest.fixture
async def start_gateway(
    tmp_path: Path, nats_server: NatsServer | NatsCluster, api_server: ApiServer
) -> AsyncIterator[StartGateway]:
    """Starts gateways with short leases; those that still run at the end are killed."""
    started: list[GatewayProcess] = []

    def start(**options: Any) -> GatewayProcess:
        settings: dict[str, Any] = {
            "lease_life": "1s",
            "kubeconfig": api_server.kubeconfig,
            "name": f"gateway-{len(started)}",
            **options,
        }
        gateway = GatewayProcess(tmp_path / settings["name"], nats_url=nats_server.url, **settings)
        started.append(gateway)
        return gateway

    yield start
    for gateway in started:
        gateway.kill()


@pytest.fixture
async def join(nats_server: NatsServer | NatsCluster) -> AsyncIterator[Join]:
    """Joins the bus as a service that reads every kind; returns when its view is synced."""
    async with contextlib.AsyncExitStack() as stack:

        async def enter(service: str = "controllers", *, synced: bool = True) -> BusPeer:
            peer = BusPeer(service, nats_server.url, kinds=EVERY_KIND)
            await stack.enter_async_context(peer)
            if synced:
                await peer.until_synced()
            return peer

        yield enter


@pytest.fixture
def cluster(kube: KubeClient, namespace: str) -> ClusterBuilder:
    return ClusterBuilder(kube, namespace)
