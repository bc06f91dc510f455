"""Gangs are bound while the streams' leaders move between the servers of a cluster."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from stromboli.api.wellknown import GROUP_NAME, SCHEDULER_NAME
from stromboli.contracts.streams import INTENT, LEASES, OUTCOME, STATE
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_cluster import NatsCluster
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]

_NODES = 4
_CPUS = 4
_GANGS = 6
_SIZE = 3
_WHOLE = _NODES * _CPUS // _SIZE
"""So many gangs fit; the last one waits, and no pod of it may be bound."""


async def make_gang(cluster: ClusterBuilder, name: str, queue: str) -> None:
    group = {
        "metadata": {"name": name, "namespace": cluster.namespace},
        "spec": {"minMember": _SIZE, "queue": queue},
    }
    await cluster.make("vcpodgroup", group)
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    for index in range(_SIZE):
        pod = {
            "metadata": {
                "name": f"{name}-{index}",
                "namespace": cluster.namespace,
                "annotations": {GROUP_NAME: name},
            },
            "spec": {
                "schedulerName": SCHEDULER_NAME,
                "containers": [container],
                # The API server is shared with other tests, and may taint every new node.
                "nodeSelector": {"zone": cluster.namespace},
                "tolerations": [{"operator": "Exists"}],
            },
        }
        await cluster.make("pod", pod)


async def bound(cluster: ClusterBuilder) -> dict[str, str]:
    """Pod → its node; no node has more than it can have."""
    found: dict[str, str] = {}
    for name in await cluster.names("pod"):
        pod = await cluster.fetch("pod", name)
        if pod is not None and (node := pod["spec"].get("nodeName")):
            found[name] = node
    assert max(Counter(found.values()).values(), default=0) <= _CPUS
    return found


async def test_no_node_is_over_committed_while_leaders_move_in_the_middle_of_gang_binds(
    tmp_path: Path,
    nats_cluster: NatsCluster,
    start_gateway: StartGateway,
    cluster: ClusterBuilder,
):
    offered = {"cpu": str(_CPUS), "memory": "8Gi", "pods": "110"}
    for number in range(_NODES):
        name = f"{cluster.namespace}-{number}"
        status = {"allocatable": offered, "capacity": offered}
        labels = {"zone": cluster.namespace}
        await cluster.make("node", {"metadata": {"name": name, "labels": labels}, "status": status})
    queue = await cluster.queue()
    start_gateway(env={"STROMBOLI_GATEWAY_STREAM_REPLICAS": "3"}, lease_life="4s")
    scheduler = DeciderProcess(
        "scheduler", tmp_path / "scheduler", nats_url=nats_cluster.url, lease_life="4s"
    )
    try:
        await scheduler.until_ready(60)
        async with asyncio.TaskGroup() as group:
            for number in range(_GANGS):
                group.create_task(make_gang(cluster, f"gang-{number}", queue))
            for stream in (INTENT, OUTCOME, STATE, LEASES, INTENT):
                await nats_cluster.move_leader(stream.name)
                await bound(cluster)

        async def all_that_fit() -> bool:
            whole = Counter(name.rpartition("-")[0] for name in await bound(cluster))
            return sorted(whole.values()) == [_SIZE] * _WHOLE

        await eventually(all_that_fit, deadline_s=120, describe="whole gangs on all nodes")
    finally:
        scheduler.kill()
