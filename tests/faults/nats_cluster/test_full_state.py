"""A STATE near its limit, kept by three servers: full, they refuse even what makes room."""

import pytest

from stromboli.contracts.streams import STATE
from stromboli.testkit.gateway_fixtures import Join, StartGateway
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_cluster import NatsCluster
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults]

REPLICATED = {"STROMBOLI_GATEWAY_STREAM_REPLICAS": "3"}
LONG_S = 60.0
_TOLERATIONS = [{"key": f"example.com/taint-{n}", "operator": "Exists"} for n in range(25)]
"""What makes the specs large: ends are without."""


@pytest.mark.timeout(180)
async def test_deletions_go_through_while_new_pods_wait_for_room(
    nats_cluster: NatsCluster, start_gateway: StartGateway, join: Join, cluster: ClusterBuilder
):
    first = start_gateway(env=REPLICATED, lease_life="4s")
    peer = await join()
    holds = (await peer.jetstream.stream_info(STATE.name)).state.bytes
    await first.terminate()
    limit = {"STROMBOLI_GATEWAY_STATE_MAX_BYTES": str(holds + 80 * 1500)}
    gateway = start_gateway(env={**REPLICATED, **limit}, lease_life="4s")
    await gateway.until_ready(deadline_s=LONG_S)
    names = {f"pod-{number}" for number in range(80)}
    for name in sorted(names):
        await cluster.pod(name, tolerations=_TOLERATIONS)
    await gateway.until_event("state.filling", deadline_s=LONG_S)

    def shown() -> set[str]:
        return {name for space, name in peer.view.objects("pod") if space == cluster.namespace}

    finished = shown()
    assert finished < names
    for name in finished:
        await cluster.delete("pod", name)

    await eventually(
        lambda: shown() and not shown() & finished,
        deadline_s=LONG_S,
        describe="the deletions, and pods that waited for room, in the view",
    )
    for name in names - finished:
        await cluster.delete("pod", name)
    await eventually(lambda: not shown(), deadline_s=LONG_S, describe="an empty view")
    await gateway.until_ready(deadline_s=LONG_S)
