"""Kubelets in this process, for tests that look inside; those of a process are killed elsewhere."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from stromboli.api.kinds import POD
from stromboli.kube import KubeClient
from stromboli.kube.paths import object_path
from stromboli.sandbox.kubelets.agent import KubeletAgent
from stromboli.sandbox.kubelets.fleet import NodeGroup
from stromboli.sandbox.kubelets.mounts import PodFiles
from stromboli.sandbox.kubelets.rules import Rule
from stromboli.sandbox.kubelets.runtimes import Processes, Simulated
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

StartKubelet: TypeAlias = Callable[..., Awaitable[str]]


@pytest.fixture
def cluster(kube: KubeClient, namespace: str) -> ClusterBuilder:
    return ClusterBuilder(kube, namespace)


@pytest.fixture
async def start(kube: KubeClient, tmp_path: Path) -> AsyncIterator[StartKubelet]:
    """Starts kubelets for one node of the test's own; returns the node's name."""
    async with AsyncExitStack() as stack:

        async def begin(
            *, process: bool = False, rules: Sequence[Rule] = (), name: str = "", **group: Any
        ) -> str:
            node = NodeGroup(name=name or f"node-{secrets.token_hex(4)}", **group)
            runtime = Processes(PodFiles(kube, tmp_path / "pods")) if process else Simulated(rules)
            agent = KubeletAgent(kube, [node], runtime, heartbeat_s=0.05)
            await stack.enter_async_context(background(agent.run()))
            await eventually(lambda: agent.is_ready, describe="the node is registered")
            return node.name

        yield begin


def command(*words: str, **spec: Any) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "c", "image": "busybox", "command": list(words)}],
        **spec,
    }


def phase(pod: dict[str, Any] | None) -> str:
    return "gone" if pod is None else pod.get("status", {}).get("phase", "")


async def until_phase(cluster: ClusterBuilder, name: str, wanted: str) -> dict[str, Any]:
    async def reached() -> bool:
        return phase(await cluster.fetch("pod", name)) == wanted

    await eventually(reached, deadline_s=20, interval_s=0.05, describe=f"{name} is {wanted}")
    return await cluster.fetch("pod", name) or {}


def exit_code(pod: dict[str, Any]) -> int:
    [status] = pod["status"]["containerStatuses"]
    return status["state"]["terminated"]["exitCode"]


async def logs(kube: KubeClient, namespace: str, name: str, **options: str) -> str:
    path = object_path(POD, namespace, name, "log")
    async with asyncio.timeout(20):
        return (await kube.transport.send("GET", path, query=options)).body.decode()
