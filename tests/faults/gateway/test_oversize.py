"""What is larger than a message: facts that can't be told, answers that can't be given."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from stromboli.contracts.intents import BINDS_PER_PART
from stromboli.contracts.outcomes import Applied, GangBound, Reason
from stromboli.contracts.records import DEAD_PAYLOAD_LIMIT
from stromboli.kube.wire import Written
from stromboli.testkit.aftermath import answered_in_order
from stromboli.testkit.bus_contents import dead_letters
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import differences, until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


@pytest.fixture(params=[1024 * 1024, 96 * 1024], ids=["usual", "small"])
def max_payload(request: pytest.FixtureRequest) -> int:
    """The usual largest message, and one that no dead letter of full size fits in."""
    return request.param


@pytest.fixture
async def nats_server(max_payload: int, tmp_path: Path) -> AsyncIterator[NatsServer]:
    limit = f"max_payload: {max_payload}\n"
    async with NatsServer(tmp_path / "nats", config=limit) as server:
        yield server


@pytest.fixture
async def large(cluster: ClusterBuilder, max_payload: int) -> AsyncIterator[list[Written]]:
    """Two jobs that are too large for the bus; the API server is rid of them afterwards."""
    padding = "x" * (max_payload + 1000)
    names = ("large-1", "large-2")
    yield [await cluster.job(name, plugins={"env": [padding]}) for name in names]
    for name in await cluster.names("vcjob"):
        if name in names:
            await cluster.delete("vcjob", name)


async def test_an_object_too_large_for_the_bus_is_put_aside_and_everything_else_goes_on(
    join: Join,
    start_gateway: StartGateway,
    cluster: ClusterBuilder,
    large: list[Written],
    max_payload: int,
):
    fits = await cluster.job("fits")
    gateway = start_gateway()
    peer = await join()
    missing = [f"vcjob {cluster.namespace}/large-{number} is not in the view" for number in (1, 2)]
    await until_equal(peer, kube=cluster.kube, allow=missing)

    assert await differences(peer, cluster.kube) == missing
    await eventually(lambda: has_letters(peer, 2), describe="a letter about each")
    for letter in await dead_letters(peer):
        assert letter.arrived_on.startswith(f"vc.state.vcjob.{cluster.namespace}.large-")
        assert str(max_payload) in letter.reason
        assert letter.size > max_payload
        assert 0 < len(letter.payload) <= DEAD_PAYLOAD_LIMIT
    # A write to it is applied all the same, and nobody waits in vain to see it.
    outcome = await peer.ask_and_hear(
        peer.patch(
            "vcjob",
            cluster.namespace,
            "large-1",
            uid=large[0].uid,
            body={"status": {"minAvailable": 1}},
            subresource="status",
        )
    )
    assert isinstance(outcome, Applied)
    await peer.fence()
    # Watched objects that grow too large are put aside too, and the rest still goes on.
    await cluster.label("vcjob", "large-2", touched="yes")
    await cluster.label("vcjob", "fits", touched="yes")
    await cluster.delete("vcjob", "large-1")
    await until_equal(peer, kube=cluster.kube, allow=missing[1:])
    entry = peer.view.get("vcjob", cluster.namespace, "fits")
    assert entry is not None
    assert entry.uid == fits.uid
    assert gateway.running


@pytest.mark.parametrize("max_payload", [96 * 1024], ids=["small"])
async def test_an_answer_too_large_for_the_bus_says_how_each_pod_fared_in_fewer_words(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder, max_payload: int
):
    start_gateway()
    peer = await join("scheduler")
    pod = await cluster.pod("behind")
    nowhere = f"no-such-node-{'x' * 50}"
    nobody = [(f"nobody-{number}", f"uid-{number}", nowhere) for number in range(BINDS_PER_PART)]
    intents = [
        peer.bind(cluster.namespace, "job", nobody),
        peer.evict(cluster.namespace, "behind", uid=pod.uid),
    ]
    for intent in intents:
        await peer.ask(intent)

    gang, applied = await answered_in_order(peer, intents)
    assert isinstance(gang, GangBound)
    assert len(gang.pods) == BINDS_PER_PART
    assert {pod.reason for pod in gang.pods} == {Reason.NOT_FOUND}
    assert nowhere in gang.pods[0].message
    assert isinstance(applied, Applied)
    assert await dead_letters(peer) == []


async def has_letters(peer: BusPeer, count: int) -> bool:
    return len(await dead_letters(peer)) >= count
