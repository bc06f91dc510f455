"""A webhook server of the test's own, and the configurations that point at it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.webhook_registry import Registry
from stromboli.testkit.webhook_server import WebhookServer, webhook_server


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[WebhookServer]:
    async with webhook_server(tmp_path) as server:
        yield server


@pytest.fixture
async def registry(
    kube: KubeClient, hook: WebhookServer, namespace: str
) -> AsyncIterator[Registry]:
    async with AsyncExitStack() as stack:
        yield Registry(stack, kube, hook, namespace)
