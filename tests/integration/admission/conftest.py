"""Admission between a NATS server, a gateway and an API server that is led to it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.admissions import AdmissionStack
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer


@pytest.fixture
def webhook_settings() -> dict[str, str]:
    """Overridden by tests that want other lifetimes."""
    return {}


@pytest.fixture
async def stack(
    tmp_path: Path,
    nats_server: NatsServer,
    own_api_server: ApiServer,
    webhook_settings: dict[str, str],
) -> AsyncIterator[AdmissionStack]:
    stack = AdmissionStack(tmp_path, nats_server, own_api_server, webhook_settings)
    stack.start_gateway()
    stack.start_admission()
    try:
        await stack.gateway.until_ready(40)
        await stack.admission.until_ready(40)
        yield stack
    finally:
        stack.admission.kill()
        stack.gateway.kill()


@pytest.fixture
async def cluster(stack: AdmissionStack) -> AsyncIterator[ClusterBuilder]:
    async with KubeClient.connect(stack.api.access()) as kube:
        yield ClusterBuilder(kube, "default")
