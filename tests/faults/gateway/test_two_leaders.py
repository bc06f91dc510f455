"""Two gateways that both believe to lead, and the hand-over from one to the next.

A leader that is frozen does not know that time goes on. When it wakes up, another leads, and
everything it still wanted to do must come to nothing.
"""

import time
from collections.abc import Awaitable, Callable

import pytest

from stromboli.testkit.aftermath import no_dead_letters
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.traffic import traffic
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import witnessing

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


def went_back(peer: BusPeer) -> list[str]:
    """Objects of which the view was shown an older state after a newer one."""
    newest: dict[tuple[str, str, str], int] = {}
    found: list[str] = []
    for delta in peer.deltas:
        entry = delta.new or delta.ended
        assert entry is not None
        place = (delta.kind, delta.namespace, delta.name)
        version = int(entry.resource_version)
        if version < newest.get(place, 0):
            found.append(f"{place}: {newest[place]}, then {version}")
        newest[place] = max(version, newest.get(place, 0))
    return found


async def test_a_leader_that_wakes_up_after_its_lease_does_nothing_any_more(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    first = start_gateway()
    peer = await join()
    second = start_gateway()
    await second.until_event("lease.waiting")
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        async with traffic(cluster, peer, jobs=12) as flow:
            await flow.more(intents=36, changes=4)
            first.pause()
            await second.until_event("lease.acquired")
            await flow.more(intents=36, changes=4)
            first.resume()
            await first.until_event("lease.lost")
            await flow.more(intents=36, changes=4)
            # And back again, so that each has been both.
            second.pause()
            await eventually(
                lambda: len(first.events("lease.acquired")) > 1, describe="the first to lead again"
            )
            await flow.more(intents=36, changes=4)
            second.resume()
            await second.until_event("lease.lost")
            await flow.more(intents=36, changes=4)

        await flow.check_nothing_lost_or_repeated(witness)
    await until_equal(peer, kube=cluster.kube)
    assert went_back(peer) == []
    assert first.running
    assert second.running
    await no_dead_letters(peer)


async def test_a_gateway_that_stops_hands_over_at_once(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """Its lease would have lasted for another ten seconds."""
    first = start_gateway(lease_life="10s")
    peer = await join()
    second = start_gateway(lease_life="10s")
    await second.until_event("lease.waiting")
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        async with traffic(cluster, peer) as flow:
            await flow.more(intents=40, changes=5)
            stopped_at = time.monotonic()
            assert await first.terminate() == 0
            await second.until_event("lease.acquired")
            handed_over_s = time.monotonic() - stopped_at
            await flow.more(intents=40, changes=5)

        await flow.check_nothing_lost_or_repeated(witness)
    assert handed_over_s < 4
    assert first.events("lease.released")
    # The successor watches on from the positions: it has no need of a list. Only of the one
    # ConfigMap it can't know that its predecessor followed the same.
    assert {line["kind"] for line in second.events("list.started")} <= {"configmap"}
    await until_equal(peer, kube=cluster.kube)
    assert went_back(peer) == []
    await no_dead_letters(peer)


async def test_a_leader_that_is_killed_again_and_again_loses_and_repeats_nothing(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    gateway = start_gateway()
    peer = await join()
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        async with traffic(cluster, peer) as flow:
            for _ in range(2):
                await flow.more(intents=20, changes=3)
                gateway.kill()
                gateway = start_gateway()
                await gateway.until_event("lease.acquired", 20)

        await flow.check_nothing_lost_or_repeated(witness)
    await until_equal(peer, kube=cluster.kube)
    assert went_back(peer) == []
    await no_dead_letters(peer)
