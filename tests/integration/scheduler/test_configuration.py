"""The configuration file of a running scheduler, and what it changes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder, pod_manifest
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.services import ServiceProcess
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

PATIENT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
PREEMPTING = PATIENT.replace("backfill", "backfill, preempt")
BAD = PATIENT.replace("gang", "gnag")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.conf"
    path.write_text(PATIENT)
    return path


@pytest.fixture
async def configured(
    tmp_path: Path, nats_server: NatsServer, gateway: GatewayProcess, conf: Path
) -> AsyncIterator[ServiceProcess]:
    process = ServiceProcess(
        "stromboli.scheduler",
        directory=tmp_path,
        name="scheduler",
        env={
            "STROMBOLI_SCHEDULER_BUS__URL": nats_server.url,
            "STROMBOLI_SCHEDULER_HEALTH__PORT": "0",
            "STROMBOLI_SCHEDULER_LEASE_LIFE": "2s",
            "STROMBOLI_SCHEDULER_SCHEDULER_CONF": str(conf),
            "STROMBOLI_SCHEDULER_RELOAD_EVERY": "200ms",
        },
    )
    try:
        await process.until_ready()
        yield process
    finally:
        process.kill()


async def add_job(cluster: ClusterBuilder, name: str, *, queue: str, priority: str = "") -> None:
    spec = {"minMember": 1, "queue": queue, "priorityClassName": priority}
    await cluster.make("vcpodgroup", {"metadata": {"name": name}, "spec": spec})
    manifest = pod_manifest(
        f"{name}-main-0",
        nodeSelector={"zone": cluster.namespace},
        tolerations=[{"operator": "Exists"}],
    )
    manifest["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
    manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    await cluster.make("pod", manifest)


async def test_a_bad_file_changes_nothing_and_a_good_one_is_used_at_once(
    configured: ServiceProcess, conf: Path, cluster: ClusterBuilder
):
    namespace = cluster.namespace
    queue = await cluster.queue()
    await cluster.make(
        "node",
        {
            "metadata": {"name": f"node-{namespace}", "labels": {"zone": namespace}},
            "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
        },
    )
    high = f"high-{namespace}"
    await cluster.make("priorityclass", {"metadata": {"name": high}, "value": 1000})
    await add_job(cluster, "low", queue=queue)

    async def node_of(name: str) -> str:
        found = await cluster.fetch("pod", name)
        return found["spec"].get("nodeName", "") if found else ""

    async def low_is_bound() -> str:
        return await node_of("low-main-0")

    await eventually(low_is_bound, describe="the first job is bound")
    await add_job(cluster, "high", queue=queue, priority=high)
    await asyncio.to_thread(conf.write_text, BAD)

    line = await configured.until_event("configuration.refused")
    assert "did you mean 'gang'" in str(line["problem"])
    assert await low_is_bound()

    await asyncio.to_thread(conf.write_text, PREEMPTING)

    async def low_is_leaving() -> bool:
        found = await cluster.fetch("pod", "low-main-0")
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    await eventually(low_is_leaving, describe="the job of low priority makes room")

    async def low_says_why() -> bool:
        found = await cluster.fetch("pod", "low-main-0")
        conditions = found["status"]["conditions"] if found else []
        told = {one["type"]: (one["status"], one.get("reason")) for one in conditions}
        return (
            told.get("DisruptionTarget") == ("True", "PreemptionByScheduler")
            and told.get("Ready") == ("False", "Evict")
            and "PodScheduled" in told
        )

    await eventually(low_says_why, describe="the pod that goes says that it was told to")


async def test_an_extender_has_a_say_in_a_running_scheduler(
    configured: ServiceProcess, conf: Path, cluster: ClusterBuilder
):
    """One that is slow and refuses a node: the scheduler stays ready, and takes the other."""
    namespace = cluster.namespace
    first, second = f"a-{namespace}", f"b-{namespace}"

    async def judge(request: web.Request) -> web.Response:
        await asyncio.sleep(0.2)
        node = (await request.json())["node"]["Name"]
        return web.json_response({"status": "too warm"} if node == first else {})

    app = web.Application()
    app.router.add_post("/predicate", judge)
    queue = await cluster.queue()
    for name in (first, second):
        allocatable = {"cpu": "2", "memory": "4Gi", "pods": "10"}
        metadata = {"name": name, "labels": {"zone": namespace}}
        await cluster.make("node", {"metadata": metadata, "status": {"allocatable": allocatable}})
    async with TestServer(app, host="127.0.0.1") as server:
        arguments = {
            "extender.urlPrefix": str(server.make_url("/")),
            "extender.predicateVerb": "predicate",
        }
        document = yaml.safe_load(PATIENT)
        document["tiers"][1]["plugins"].append({"name": "extender", "arguments": arguments})
        await asyncio.to_thread(conf.write_text, yaml.safe_dump(document))
        await configured.until_event("configuration.changed")
        await add_job(cluster, "warm", queue=queue)

        async def is_bound() -> bool:
            found = await cluster.fetch("pod", "warm-main-0")
            return found is not None and found["spec"].get("nodeName", "") == second

        await eventually(is_bound, describe="the job is on the node that is not refused")

    await configured.until_ready()
