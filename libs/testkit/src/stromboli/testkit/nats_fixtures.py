"""Pytest fixtures for a real NATS server, and its log when a test fails.

`nats_server` is fresh for each test: such a test may kill, pause or wipe it.
`shared_nats_server` lives for the whole run: quicker, for tests that only use it and pick
stream names of their own. `nats_cluster` is three servers that are one, fresh for each test.
Mark tests that use any of them with `@pytest.mark.nats`.
"""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

from stromboli.testkit.nats_cluster import NatsCluster
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.processes import fallen_children, forget_fallen, living_children

__all__ = ["nats_cluster", "nats_server", "pytest_runtest_makereport", "shared_nats_server"]


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A server of the test's own, with JetStream and an empty store."""
    async with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def nats_cluster(tmp_path: Path) -> AsyncIterator[NatsCluster]:
    """Three servers of the test's own that are one cluster, with an empty store."""
    async with NatsCluster(tmp_path / "nats") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One server for the whole run; do not hurt it."""
    server = NatsServer(tmp_path_factory.mktemp("shared-nats"), name="shared-nats-server")
    asyncio.run(server.start())
    try:
        yield server
    finally:
        server.kill()


def pytest_runtest_setup() -> None:
    forget_fallen()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the servers and services of a failed test have logged."""
    report = yield
    if report.failed:
        for child in fallen_children():
            title = f"log of {child.name} (pid {child.pid}, ended with code {child.returncode})"
            report.sections.append((title, child.log_tail()))
        for child in living_children():
            report.sections.append((f"log of {child.name} (pid {child.pid})", child.log_tail()))
    return report
