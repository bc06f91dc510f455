"""The whole spine on one machine: NATS, an API server, a gateway between them, and a namespace."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from bench.servers import Server, api_server
from stromboli.api import kinds
from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ServerKind
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer

__all__ = ["MANAGER", "Stack", "make_namespace", "running_stack"]

MANAGER = "bench"


@dataclass(frozen=True, slots=True)
class Stack:
    """Everything that runs; `kube` is an administrator's client."""

    nats: NatsServer
    server: Server
    gateway: GatewayProcess
    kube: KubeClient
    cluster: ClusterBuilder

    @property
    def namespace(self) -> str:
        return self.cluster.namespace


async def make_namespace(kube: KubeClient, name: str) -> str:
    await kube.create(kinds.NAMESPACE, None, {"metadata": {"name": name}}, field_manager=MANAGER)
    return name


@contextlib.asynccontextmanager
async def running_stack(kind: ServerKind, directory: Path) -> AsyncGenerator[Stack]:
    """All of it, ready; raises `Unavailable` where the API server can't be had."""
    async with (
        api_server(kind, directory / kind) as server,
        NatsServer(directory / "nats") as nats,
        KubeClient.connect(server.access()) as kube,
    ):
        gateway = GatewayProcess(
            directory / "gateway",
            nats_url=nats.url,
            kubeconfig=server.kubeconfig,
            # A crowded machine must not cost the lease: no take-over is measured here.
            lease_life="10s",
        )
        try:
            await gateway.until_ready(30.0)
            namespace = await make_namespace(kube, "bench")
            yield Stack(nats, server, gateway, kube, ClusterBuilder(kube, namespace))
        finally:
            gateway.kill()
