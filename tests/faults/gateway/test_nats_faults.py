"""NATS dies, freezes and loses its data while facts and intents flow."""

from collections.abc import Awaitable, Callable

import pytest

from stromboli.contracts.outcomes import Applied
from stromboli.contracts.streams import STREAMS
from stromboli.testkit.aftermath import no_dead_letters
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.traffic import traffic
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import witnessing

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


def led_again(gateway: GatewayProcess) -> bool:
    """Has it led more than once, each time with a higher epoch?

    How often, the machine decides: one that stands still for a second takes a lease away.
    """
    epochs = [
        tuple(map(int, event["epoch"].split("."))) for event in gateway.events("lease.acquired")
    ]
    return len(epochs) > 1 and epochs == sorted(set(epochs))


async def test_nats_killed_and_restarted_loses_and_repeats_nothing(
    join: Join, nats_server: NatsServer, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        async with traffic(cluster, peer) as flow:
            await flow.more(intents=40, changes=5)
            await nats_server.restart(hard=True)
            await flow.more(intents=40, changes=5)
            nats_server.kill()
            await flow.more(changes=5)
            await nats_server.start()
            await flow.more(intents=40, changes=5)

        await flow.check_nothing_lost_or_repeated(witness)
    assert flow.unstored  # the peer knows of those that it could not ask
    await until_equal(peer, kube=cluster.kube)
    await no_dead_letters(peer)


async def test_everything_comes_back_after_all_nats_data_is_lost(
    join: Join, nats_server: NatsServer, start_gateway: StartGateway, cluster: ClusterBuilder
):
    gateway = start_gateway()
    pod = await cluster.pod("survivor")
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    lease = peer.lease
    before = (peer.view.incarnation, lease.epoch)
    nats_server.kill()
    nats_server.wipe()
    await cluster.pod("newcomer")
    await cluster.delete("pod", "survivor")
    replaced = await cluster.pod("survivor")
    await nats_server.start()

    await until_equal(peer, kube=cluster.kube)
    await eventually(lambda: not lease.held, deadline_s=60, describe="the lost lease")
    await peer.lead()
    for spec in STREAMS:
        await peer.jetstream.stream_info(spec.name)
    assert peer.view.incarnation not in {"", before[0]}
    assert peer.epoch > before[1]
    assert led_again(gateway)
    assert [d.ended.uid for d in peer.deltas if d.name == "survivor" and d.ended] == [pod.uid]
    body = {"metadata": {"annotations": {"after": "yes"}}}
    outcome = await peer.ask_and_hear(
        peer.patch("pod", cluster.namespace, "survivor", uid=replaced.uid, body=body)
    )
    assert isinstance(outcome, Applied)
    await until_equal(peer, kube=cluster.kube)
    await gateway.until_ready()


async def test_a_gateway_that_hears_nothing_from_a_frozen_nats_stands_down_and_comes_back(
    join: Join, nats_server: NatsServer, start_gateway: StartGateway, cluster: ClusterBuilder
):
    gateway = start_gateway()
    peer = await join()
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        async with traffic(cluster, peer) as flow:
            await flow.more(intents=20, changes=5)
            nats_server.pause()
            await gateway.until_event("lease.lost")
            await flow.more(changes=5)
            nats_server.resume()
            await flow.more(intents=20, changes=5)

        await flow.check_nothing_lost_or_repeated(witness)
    await until_equal(peer, kube=cluster.kube)
    await no_dead_letters(peer)
    assert led_again(gateway)


async def test_a_stream_that_was_deleted_by_hand_is_made_again(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """Nobody loses the connection here, so nothing else tells the gateway."""
    start_gateway()
    pod = await cluster.pod("survivor")
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    before = peer.view.incarnation
    for name in ("STATE", "INTENT", "OUTCOME"):
        await peer.connection.request(f"$JS.API.STREAM.DELETE.{name}", b"")
    await eventually(
        lambda: peer.view.incarnation not in {"", before},
        deadline_s=25,
        describe="the view to meet a new log",
    )

    await until_equal(peer, kube=cluster.kube, deadline_s=25)
    outcome = await peer.ask_and_hear(
        peer.delete("pod", cluster.namespace, "survivor", uid=pod.uid)
    )
    assert isinstance(outcome, Applied)
