"""Pytest fixtures for API servers: the same test on the sandbox and on the real one.

- `api_server`: one server of each kind for the whole run, with our CRDs; a test may restart
  it, but must leave it running. The id is `sandbox` or `kube-apiserver`; the latter is
  marked `e2e`.
- `own_api_server`: fresh for the test, for those that hurt it.
- `kube`, `namespace`: a client of `api_server` and a fresh namespace on it.

Where the real server can't be had, its tests are skipped with the reason. In CI (CI=true) that is a
failure, unless SKIP_E2E=1 says that it is meant.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from stromboli.kube import KubeClient, Resource
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.crds import CRD_FOLDER, install_crds
from stromboli.testkit.kube_apiserver import KubeApiServer, KubeBinaries, KubeBinariesMissing
from stromboli.testkit.sandbox_server import SandboxServer

__all__ = ["api_server", "kube", "namespace", "own_api_server"]

NAMESPACES: Final = Resource("", "v1", "namespaces", namespaced=False)

SERVERS: Final = [
    pytest.param("sandbox", id="sandbox"),
    pytest.param("kube-apiserver", id="kube-apiserver", marks=pytest.mark.e2e),
]


def kube_binaries(environ: Mapping[str, str] | None = None) -> KubeBinaries:
    """The binaries; without them the test is skipped, or in CI failed, with the reason."""
    environ = os.environ if environ is None else environ
    if environ.get("SKIP_E2E") == "1":
        pytest.skip("SKIP_E2E=1: not run on kube-apiserver")
    try:
        return KubeBinaries(environ)
    except KubeBinariesMissing as missing:
        if environ.get("CI") == "true":
            pytest.fail(f"{missing} (SKIP_E2E=1 skips these tests on purpose)", pytrace=False)
        pytest.skip(str(missing))


def _server(kind: str, directory: Path) -> ApiServer:
    if kind == "sandbox":
        return SandboxServer(directory, crds=CRD_FOLDER)
    return KubeApiServer(directory, binaries=kube_binaries())


async def _started(server: ApiServer) -> ApiServer:
    await server.start()
    if isinstance(server, KubeApiServer):
        async with KubeClient.connect(server.access()) as client:
            await install_crds(client)
    return server


@pytest.fixture(scope="session", params=SERVERS)
def api_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """One server for the whole run, with our CRDs."""
    server = _server(request.param, tmp_path_factory.mktemp(request.param))
    try:
        yield asyncio.run(_started(server))
    finally:
        server.destroy()


@pytest.fixture(params=SERVERS)
async def own_api_server(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[ApiServer]:
    """A server of the test's own, with our CRDs."""
    server = _server(request.param, tmp_path / request.param)
    try:
        yield await _started(server)
    finally:
        server.destroy()


@pytest.fixture
async def kube(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    """An administrator's client."""
    if not api_server.running:  # a test that failed half way may have left it dead
        await api_server.start()
    async with KubeClient.connect(api_server.access()) as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> str:
    """A namespace that no other test uses; it is left behind, as nobody would finish its end."""
    name = f"test-{secrets.token_hex(4)}"
    await kube.create(NAMESPACES, None, {"metadata": {"name": name}}, field_manager="testkit")
    return name
