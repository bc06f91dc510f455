"""A STATE that reaches its size limit: it is said, nothing is lost, and ends make room again."""

from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from stromboli.contracts.streams import STATE
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import EVERY_KIND
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

StartGateway = Callable[..., GatewayProcess]
_MANY = 80
_TOLERATIONS = [
    {"key": f"example.com/taint-{number}", "operator": "Exists"} for number in range(25)
]
"""What makes the specs large: ends are without."""


async def page(gateway: GatewayProcess, path: str) -> str:
    url = await gateway.health_url()
    async with aiohttp.ClientSession() as session, session.get(f"{url}{path}") as response:
        return await response.text()


async def limited(
    start_gateway: StartGateway, nats_server: NatsServer, **options: Any
) -> GatewayProcess:
    """A gateway whose STATE has room for most of the pods to come, and not for all."""
    first = start_gateway()
    await first.until_ready()
    async with BusPeer("scheduler", nats_server.url, kinds=EVERY_KIND) as peer:
        await peer.until_synced()
        holds = (await peer.jetstream.stream_info(STATE.name)).state.bytes
    await first.terminate()
    limit = {"STROMBOLI_GATEWAY_STATE_MAX_BYTES": str(holds + _MANY * 1500)}
    gateway = start_gateway(env=limit, **options)
    await gateway.until_ready()
    return gateway


async def fill(gateway: GatewayProcess, cluster: ClusterBuilder) -> set[str]:
    """More pods than STATE has room for; returns their names."""
    names = {f"pod-{number}" for number in range(_MANY)}
    for name in sorted(names):
        await cluster.pod(name, tolerations=_TOLERATIONS)

    async def is_full() -> bool:
        return "STATE is full" in await page(gateway, "/readyz?verbose")

    await eventually(is_full, deadline_s=15, describe="the gateway says that STATE is full")
    return names


def pods(peer: BusPeer, cluster: ClusterBuilder) -> set[str]:
    return {name for space, name in peer.view.objects("pod") if space == cluster.namespace}


@pytest.mark.parametrize("relist_every", ["30m", "1s"])
async def test_a_full_state_is_told_and_deletions_make_room_for_the_rest(
    start_gateway: StartGateway,
    nats_server: NatsServer,
    cluster: ClusterBuilder,
    relist_every: str,
):
    gateway = await limited(start_gateway, nats_server, relist_every=relist_every)
    async with BusPeer("scheduler", nats_server.url) as peer:
        await peer.until_synced()
        names = await fill(gateway, cluster)
        hidden = names - pods(peer, cluster)
        assert hidden

        told = await page(gateway, "/readyz?verbose")
        limit = (await peer.jetstream.stream_info(STATE.name)).config["max_bytes"]
        assert f"of {limit} bytes; raise state_max_bytes or delete" in told
        assert f"stromboli_state_limit_bytes {float(limit)}" in await page(gateway, "/metrics")
        await gateway.until_event("state.filling", limit=limit)

        finished = names - hidden
        for name in finished:
            await cluster.delete("pod", name)
        await eventually(
            lambda: pods(peer, cluster) == names - finished,
            deadline_s=20,
            describe="the deletions, and the pods that waited for room, in the view",
        )
        await gateway.until_ready()


async def test_raising_the_limit_brings_what_waited(
    start_gateway: StartGateway, nats_server: NatsServer, cluster: ClusterBuilder
):
    gateway = await limited(start_gateway, nats_server)
    names = await fill(gateway, cluster)
    await gateway.terminate()

    await start_gateway().until_ready()

    async with BusPeer("scheduler", nats_server.url) as peer:
        await eventually(lambda: pods(peer, cluster) == names, describe="all pods in the view")
