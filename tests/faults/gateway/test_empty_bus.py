"""An empty bus is not an empty cluster."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from stromboli.contracts.streams import STATE
from stromboli.testkit.bus_contents import make_streams, stored_messages
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import EVERY_KIND, until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


def deletions(peer: BusPeer) -> list[str]:
    return [f"{d.kind} {d.namespace}/{d.name}" for d in peer.deltas if d.new is None]


async def test_a_service_that_starts_before_any_gateway_waits_and_decides_nothing(
    nats_server: NatsServer, start_gateway: StartGateway, cluster: ClusterBuilder
):
    await cluster.pod("there")
    peer = BusPeer("controllers", nats_server.url, kinds=EVERY_KIND)
    entering = asyncio.create_task(peer.__aenter__())
    try:
        await eventually(lambda: hasattr(peer, "jetstream"), describe="the peer to be connected")
        assert peer.view.unsynced == EVERY_KIND
        start_gateway()
        await asyncio.wait_for(entering, 20)

        await until_equal(peer, kube=cluster.kube)
        assert deletions(peer) == []
    finally:
        entering.cancel()
        await peer.__aexit__(None, None, None)


async def test_streams_without_facts_make_no_view_synced(
    join: Join, nats_server: NatsServer, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """The streams may be made by hand, or by a gateway that gets no further."""
    await cluster.pod("there")
    await make_streams(nats_server.url)
    peer = await join(synced=False)  # attached, and the replay of nothing is over

    assert peer.view.unsynced == EVERY_KIND
    start_gateway()
    await until_equal(peer, kube=cluster.kube)
    assert deletions(peer) == []


async def test_facts_without_their_marker_make_no_view_synced(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """A gateway that dies between its list and the marker leaves facts, and no promise."""
    await cluster.pod("there")
    doomed = start_gateway(crash_at="gateway.list.done")
    peer = await join(synced=False)
    assert await doomed.wait() == -signal.SIGKILL
    stored = await stored_messages(peer.connection, STATE.name)
    reached = max((message.sequence for message in stored), default=0)
    await eventually(lambda: peer.view.sequence >= reached, describe="the view to read it all")

    assert peer.view.unsynced == EVERY_KIND
    start_gateway()
    await until_equal(peer, kube=cluster.kube)
    assert deletions(peer) == []


async def test_a_view_keeps_its_objects_while_the_bus_is_empty_again(
    join: Join, nats_server: NatsServer, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """All data is lost; what was deleted meanwhile goes when the new marker says so."""
    gateway = start_gateway()
    for name in ("stays", "goes"):
        await cluster.pod(name)
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    before = peer.view.incarnation
    known = {kind: dict(peer.view.objects(kind)) for kind in EVERY_KIND}
    peer.deltas.clear()
    gateway.pause()
    await nats_server.lose_all_data()
    await cluster.delete("pod", "goes")
    await make_streams(nats_server.url)
    await eventually(
        lambda: peer.view.incarnation not in {"", before}, describe="the view to meet the new log"
    )

    assert peer.view.unsynced == EVERY_KIND
    assert {kind: dict(peer.view.objects(kind)) for kind in EVERY_KIND} == known
    assert deletions(peer) == []
    gateway.resume()
    await until_equal(peer, kube=cluster.kube)
    assert deletions(peer) == [f"pod {cluster.namespace}/goes"]
