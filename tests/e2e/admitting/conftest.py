"""One kube-apiserver for the tests of admission's rules, with our CRDs."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.api_fixtures import kube_binaries
from stromboli.testkit.crds import install_crds
from stromboli.testkit.kube_apiserver import KubeApiServer


async def _started(server: KubeApiServer) -> KubeApiServer:
    await server.start()
    async with KubeClient.connect(server.access()) as client:
        await install_crds(client)
    return server


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """Privileged containers are allowed, as in the clusters that Volcano runs in."""
    server = KubeApiServer(
        tmp_path_factory.mktemp("admitting"),
        binaries=kube_binaries(),
        flags=("--allow-privileged=true",),
    )
    try:
        yield asyncio.run(_started(server))
    finally:
        server.destroy()


@pytest.fixture
async def real_kube(real_server: KubeApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient.connect(real_server.access()) as client:
        yield client
