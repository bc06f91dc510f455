"""HyperNodes at the API server, and what a running scheduler makes of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder, pod_manifest
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.services import ServiceProcess
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: network-topology-aware}]
"""


@pytest.fixture
async def scheduler(
    tmp_path: Path, nats_server: NatsServer, gateway: GatewayProcess
) -> AsyncIterator[ServiceProcess]:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF)
    process = ServiceProcess(
        "stromboli.scheduler",
        directory=tmp_path,
        name="scheduler",
        env={
            "STROMBOLI_SCHEDULER_BUS__URL": nats_server.url,
            "STROMBOLI_SCHEDULER_HEALTH__PORT": "0",
            "STROMBOLI_SCHEDULER_LEASE_LIFE": "2s",
            "STROMBOLI_SCHEDULER_SCHEDULER_CONF": str(conf),
        },
    )
    try:
        await process.until_ready()
        yield process
    finally:
        process.kill()


async def add_node(cluster: ClusterBuilder, name: str, rack: str) -> None:
    zone = cluster.namespace
    allocatable = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    metadata = {"name": f"{name}-{zone}", "labels": {"zone": zone, "rack": f"{rack}-{zone}"}}
    await cluster.make("node", {"metadata": metadata, "status": {"allocatable": allocatable}})


async def add_rack(cluster: ClusterBuilder, rack: str) -> None:
    name = f"{rack}-{cluster.namespace}"
    selector = {"labelMatch": {"matchLabels": {"rack": name}}}
    spec = {"tier": 1, "members": [{"type": "Node", "selector": selector}]}
    await cluster.make("hypernode", {"metadata": {"name": name}, "spec": spec})


async def add_gang(cluster: ClusterBuilder, name: str, queue: str) -> None:
    """Two pods of a node's size each, in one rack."""
    spec = {
        "minMember": 2,
        "queue": queue,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    await cluster.make("vcpodgroup", {"metadata": {"name": name}, "spec": spec})
    for number in range(2):
        manifest = pod_manifest(
            f"{name}-main-{number}",
            nodeSelector={"zone": cluster.namespace},
            tolerations=[{"operator": "Exists"}],
        )
        manifest["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
        manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
        await cluster.make("pod", manifest)


async def nodes_of(cluster: ClusterBuilder, name: str) -> set[str]:
    pods = [await cluster.fetch("pod", f"{name}-main-{number}") for number in range(2)]
    nodes = {found["spec"].get("nodeName", "") for found in pods if found}
    return {node.removesuffix(f"-{cluster.namespace}") for node in nodes if node}


async def test_a_gang_stands_in_one_rack_or_says_why_it_waits_until_there_is_one(
    scheduler: ServiceProcess, cluster: ClusterBuilder
):
    queue = await cluster.queue()
    for name, rack in (("a1", "ra"), ("b1", "rb"), ("b2", "rb"), ("c1", "rc")):
        await add_node(cluster, name, rack)
    for rack in ("ra", "rb", "rc"):
        await add_rack(cluster, rack)
    await add_gang(cluster, "first", queue)

    async def first_is_bound() -> bool:
        return await nodes_of(cluster, "first") == {"b1", "b2"}

    await eventually(first_is_bound, describe="the first gang stands in the one rack of two nodes")
    await add_gang(cluster, "second", queue)

    async def second_says_why() -> bool:
        group = await cluster.fetch("vcpodgroup", "second")
        conditions = (group or {}).get("status", {}).get("conditions", [])
        told = conditions[-1]["message"] if conditions else ""
        return "In hyperNode r" in told and "TopologyFragmented: it needs 2 pods together" in told

    await eventually(second_says_why, describe="the second gang says that no rack has room")
    assert not await nodes_of(cluster, "second")
    await add_node(cluster, "c2", "rc")

    async def second_is_bound() -> bool:
        return await nodes_of(cluster, "second") == {"c1", "c2"}

    await eventually(second_is_bound, describe="the second gang stands in the rack that has grown")
