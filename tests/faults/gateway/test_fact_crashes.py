"""The gateway is killed between any two steps of publishing facts; the next one goes on.

While nobody leads, objects come, change and go. In the end the view is what the API server
has, whoever was told about it by whom.
"""

import signal
from collections.abc import Awaitable, Callable

import pytest

from stromboli.testkit.aftermath import no_dead_letters
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


def deleted_pods(peer: BusPeer, cluster: ClusterBuilder) -> set[str]:
    return {
        delta.name
        for delta in peer.deltas
        if delta.new is None and (delta.kind, delta.namespace) == ("pod", cluster.namespace)
    }


@pytest.mark.parametrize(
    "point",
    [
        "gateway.list.page",
        "gateway.list.done",
        "gateway.fact.sent",
        "gateway.fact.stored:3",
    ],
)
async def test_a_first_list_that_is_cut_off_promises_nothing_and_is_made_again(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder, point: str
):
    for name in ("stays", "goes", "changes"):
        await cluster.pod(name)
    doomed = start_gateway(crash_at=point)
    peer = await join(synced=False)
    assert await doomed.wait() == -signal.SIGKILL
    unsynced = peer.view.unsynced
    await cluster.delete("pod", "goes")
    await cluster.label("pod", "changes", changed="yes")
    await cluster.pod("comes")
    following = start_gateway()

    await until_equal(peer, kube=cluster.kube)
    assert unsynced, "not everything was listed"
    assert deleted_pods(peer, cluster) <= {"goes"}
    await following.until_ready()
    await no_dead_letters(peer)


@pytest.mark.parametrize("point", ["gateway.fact.sent", "gateway.fact.stored"])
async def test_a_gateway_that_dies_with_a_fact_in_its_hands_leaves_it_to_the_next(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder, point: str
):
    """Each takes over from the positions of the one before it, without a list."""
    gateway = start_gateway()
    for name in ("goes", "changes", "is-replaced"):
        await cluster.pod(name)
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    gateway.kill()
    doomed = start_gateway(crash_at=point)
    await doomed.until_event("lease.acquired")
    await cluster.label("pod", "changes", changed="yes")
    await cluster.delete("pod", "goes")
    await cluster.delete("pod", "is-replaced")
    await cluster.pod("is-replaced")
    await cluster.pod("comes")
    assert await doomed.wait() == -signal.SIGKILL
    following = start_gateway()

    await until_equal(peer, kube=cluster.kube)
    assert deleted_pods(peer, cluster) == {"goes", "is-replaced"}
    await following.until_ready()
    await no_dead_letters(peer)
