"""A real scheduler process beside a real gateway, a NATS server of the test's own and a sandbox."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.services import ServiceProcess


@pytest.fixture
async def gateway(
    tmp_path: Path, nats_server: NatsServer, api_server: ApiServer
) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(
        tmp_path / "gateway", nats_url=nats_server.url, kubeconfig=api_server.kubeconfig
    )
    try:
        await process.until_ready()
        yield process
    finally:
        process.kill()


@pytest.fixture
async def scheduler(
    tmp_path: Path, nats_server: NatsServer, gateway: GatewayProcess
) -> AsyncIterator[ServiceProcess]:
    process = ServiceProcess(
        "stromboli.scheduler",
        directory=tmp_path,
        name="scheduler",
        env={
            "STROMBOLI_SCHEDULER_BUS__URL": nats_server.url,
            "STROMBOLI_SCHEDULER_HEALTH__PORT": "0",
            "STROMBOLI_SCHEDULER_LEASE_LIFE": "2s",
        },
    )
    try:
        await process.until_ready()
        yield process
    finally:
        process.kill()


@pytest.fixture
def cluster(kube: KubeClient, namespace: str) -> ClusterBuilder:
    return ClusterBuilder(kube, namespace)
