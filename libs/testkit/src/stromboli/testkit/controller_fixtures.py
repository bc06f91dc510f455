"""Controllers between a NATS server, a gateway and an API server of the test's own.

Imported by the conftest files of the folders that want them: elsewhere `gateway` and `cluster`
mean other things.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer

__all__ = ["StartControllers", "cluster", "gateway", "start_controllers"]

StartControllers = Callable[..., DeciderProcess]


@pytest.fixture
async def gateway(
    tmp_path: Path, nats_server: NatsServer, own_api_server: ApiServer
) -> AsyncIterator[GatewayProcess]:
    gateway = GatewayProcess(
        tmp_path / "gateway", nats_url=nats_server.url, kubeconfig=own_api_server.kubeconfig
    )
    await gateway.until_ready()
    yield gateway
    gateway.kill()


@pytest.fixture
async def start_controllers(
    tmp_path: Path,
    gateway: GatewayProcess,  # noqa: ARG001 - it must be there first
    nats_server: NatsServer,
) -> AsyncIterator[StartControllers]:
    """Starts controllers, all or those that are named; what still runs at the end is killed."""
    started: list[DeciderProcess] = []

    def start(controllers: str = "*", *, lease_life: str = "2s") -> DeciderProcess:
        process = DeciderProcess(
            "controllers",
            tmp_path / f"controllers-{len(started)}",
            nats_url=nats_server.url,
            lease_life=lease_life,
            env={"STROMBOLI_CONTROLLERS_CONTROLLERS": controllers},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


@pytest.fixture
async def cluster(own_api_server: ApiServer) -> AsyncIterator[ClusterBuilder]:
    async with KubeClient.connect(own_api_server.access()) as kube:
        yield ClusterBuilder(kube, "default")
