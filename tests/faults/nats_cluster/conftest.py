"""The fixtures of the gateway's fault tests, on a cluster instead of one server."""

import pytest

from stromboli.testkit.gateway_fixtures import cluster, join, start_gateway
from stromboli.testkit.nats_cluster import NatsCluster

__all__ = ["cluster", "join", "start_gateway"]


@pytest.fixture
async def nats_server(nats_cluster: NatsCluster) -> NatsCluster:
    return nats_cluster
