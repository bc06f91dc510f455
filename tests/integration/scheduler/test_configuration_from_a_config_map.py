"""A ConfigMap as the configuration of a running scheduler: from kubectl's side to a decision."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api import kinds
from stromboli.api.kinds import EVENT
from stromboli.kube import KubeClient
from stromboli.kube.wire import PatchType
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.services import ServiceProcess
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

NAME = "volcano-scheduler-configmap"
KEY = "volcano-scheduler.conf"
GOOD = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
BAD = GOOD.replace("gang", "gnag")


@pytest.fixture
async def following(
    tmp_path: Path, nats_server: NatsServer, api_server: ApiServer, namespace: str
) -> AsyncIterator[GatewayProcess]:
    """A gateway that follows the ConfigMap of this test's namespace."""
    process = GatewayProcess(
        tmp_path / "gateway",
        nats_url=nats_server.url,
        kubeconfig=api_server.kubeconfig,
        env={"STROMBOLI_GATEWAY_SCHEDULER_CONFIGMAP": f"{namespace}/{NAME}"},
    )
    try:
        await process.until_ready()
        yield process
    finally:
        process.kill()


@pytest.fixture
async def configured(
    tmp_path: Path, nats_server: NatsServer, following: GatewayProcess, namespace: str
) -> AsyncIterator[ServiceProcess]:
    process = ServiceProcess(
        "stromboli.scheduler",
        directory=tmp_path,
        name="scheduler",
        env={
            "STROMBOLI_SCHEDULER_BUS__URL": nats_server.url,
            "STROMBOLI_SCHEDULER_HEALTH__PORT": "0",
            "STROMBOLI_SCHEDULER_LEASE_LIFE": "2s",
            "STROMBOLI_SCHEDULER_SCHEDULER_CONF_CONFIGMAP": f"{namespace}/{NAME}",
        },
    )
    try:
        await process.until_ready()
        yield process
    finally:
        process.kill()


async def events_of(kube: KubeClient, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async for page in kube.list_pages(EVENT, namespace=namespace):
        found += [msgspec.json.decode(item) for item in page.items]
    return [event for event in found if event["involvedObject"]["kind"] == "ConfigMap"]


async def test_a_bad_config_map_is_told_by_an_event_and_a_good_one_is_used(
    configured: ServiceProcess, kube: KubeClient, cluster: ClusterBuilder
):
    namespace = cluster.namespace
    await cluster.make("configmap", {"metadata": {"name": NAME}, "data": {KEY: GOOD}})
    line = await configured.until_event("configuration.changed")
    assert line["actions"] == ["enqueue", "allocate"]

    async def says(text: str) -> None:
        await kube.patch(
            kinds.CONFIG_MAP,
            namespace,
            NAME,
            {"data": {KEY: text}},
            patch_type=PatchType.MERGE,
            field_manager="test",
        )

    async def reasons() -> list[str]:
        return sorted(event["reason"] for event in await events_of(kube, namespace))

    await says(BAD)
    refusal = await configured.until_event("configuration.refused")
    assert "did you mean 'gang'" in str(refusal["problem"])

    async def refused() -> bool:
        return await reasons() == ["ConfigurationRefused"]

    await eventually(refused, describe="the event about the bad ConfigMap")
    (event,) = await events_of(kube, namespace)
    assert event["involvedObject"]["name"] == NAME
    assert "did you mean 'gang'" in event["message"]

    await says(GOOD)

    async def accepted() -> bool:
        return await reasons() == ["ConfigurationAccepted", "ConfigurationRefused"]

    await eventually(accepted, describe="the event that it is good again")


async def test_no_other_config_map_is_on_the_bus(
    following: GatewayProcess, nats_server: NatsServer, cluster: ClusterBuilder
):
    for name in ("private", NAME, "also-private"):
        await cluster.make("configmap", {"metadata": {"name": name}, "data": {KEY: name}})

    async with BusPeer("scheduler", nats_server.url, kinds=("configmap",), leads=False) as peer:
        await peer.until_synced()

        async def is_there() -> bool:
            return (cluster.namespace, NAME) in peer.view.objects("configmap")

        await eventually(is_there, describe="the ConfigMap that was named")
        assert list(peer.view.objects("configmap")) == [(cluster.namespace, NAME)]
