"""Three NATS servers, of which one lags, is lost, or does not know that it was replaced.

A frozen server keeps its connections and what was sent to it. When it wakes up, it acts on
that first, as the leader that it still believes to be.
"""

import asyncio
import contextlib

import pytest

from stromboli.contracts.streams import INTENT, LEASES, OUTCOME, STATE
from stromboli.runtime.bus.confirmed_read import read_confirmed
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.jetstream import Stored
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.aftermath import no_dead_letters
from stromboli.testkit.bus_fixtures import Bus
from stromboli.testkit.bus_fixtures import join as join_bus
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateway_fixtures import Join, StartGateway
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.lease_candidates import candidates, keeper
from stromboli.testkit.nats_cluster import NatsCluster
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.traffic import traffic
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import witnessing

pytestmark = [pytest.mark.nats, pytest.mark.faults]

SUBJECT = "$KV.LEASES.scheduler.-"
PROOF = "$KV.LEASES.gateway.proof"
LONG_S = 60.0
REPLICATED = {"STROMBOLI_GATEWAY_STREAM_REPLICAS": "3"}


async def make_leases(cluster: NatsCluster) -> NatsServer:
    """The member that leads the leases; all have them, as an operator wanted it later."""
    async with join_bus(cluster) as bus:
        await reconcile(bus.jetstream, [LEASES])
        await reconcile(bus.jetstream, [LEASES], replicas=3)
    await cluster.until_current(LEASES.name)
    return await cluster.leader_of(LEASES.name)


async def until_renewed(bus: Bus, times: int) -> None:
    first = 0

    async def renewed() -> bool:
        nonlocal first
        try:
            stored = await bus.jetstream.last_message(LEASES.name, SUBJECT)
        except BusError:
            return False
        assert stored is not None
        first = first or stored.sequence
        return stored.sequence >= first + times

    await eventually(renewed, deadline_s=LONG_S, interval_s=0.05, describe=f"{times} renewals")


async def until_written(bus: Bus, subject: str, payload: bytes) -> int:
    async def written() -> int:
        try:
            return (await bus.publisher.publish(subject, payload)).seq
        except BusError:
            return 0

    return await eventually(written, deadline_s=LONG_S, interval_s=0.1, describe="a write")


async def test_a_lease_is_kept_while_a_follower_is_frozen_and_when_it_lags(
    nats_cluster: NatsCluster,
):
    leader = await make_leases(nats_cluster)
    follower, _ = await nats_cluster.followers_of(LEASES.name)
    async with join_bus(leader, "scheduler") as bus, keeper(bus, "a", life_s=3).lead() as lease:
        follower.pause()
        await until_renewed(bus, 6)
        follower.resume()
        await until_renewed(bus, 3)

        assert lease.held


async def test_a_lease_that_outlasts_an_election_survives_a_moved_and_a_lost_leader(
    nats_cluster: NatsCluster,
):
    await make_leases(nats_cluster)
    _, stays = await nats_cluster.followers_of(LEASES.name)
    async with join_bus(stays, "scheduler") as bus, keeper(bus, "a", life_s=20).lead() as lease:
        moved_to = await nats_cluster.move_leader(LEASES.name)
        # Not the member that we are connected to: that would be another fault.
        lost = moved_to
        if moved_to is stays:
            lost = await nats_cluster.move_leader(LEASES.name)
        lost.kill()
        await until_renewed(bus, 1)

        assert lease.held


async def test_a_holder_whose_server_was_replaced_does_not_believe_in_its_lease(
    nats_cluster: NatsCluster,
):
    outdated = await make_leases(nats_cluster)
    _, other = await nats_cluster.followers_of(LEASES.name)
    async with candidates(outdated, other, life_s=2) as (a, b):
        await eventually(lambda: a.leads or b.leads, deadline_s=LONG_S, describe="a leader")
        outdated.pause()
        await eventually(lambda: b.leads, deadline_s=LONG_S, describe="the other to lead")
        terms = len(a.terms)
        outdated.resume()
        await eventually(lambda: a.bus.connection.connected, deadline_s=LONG_S)
        await nats_cluster.until_current(LEASES.name)
        await until_renewed(b.bus, 3)

        assert (a.overlaps, b.overlaps) == (0, 0)
        assert not (a.leads and b.leads)
        # The one that was replaced may only come to lead by an epoch that all know.
        epochs = [term.epoch for term in (*a.terms[:terms], *b.terms, *a.terms[terms:])]
        assert len(set(epochs)) == len(epochs)


async def test_a_confirmed_read_is_not_answered_from_the_past_by_a_replaced_leader(
    nats_cluster: NatsCluster,
):
    """Unconfirmed reads are, in four of five tries."""
    outdated = await make_leases(nats_cluster)
    other, _ = await nats_cluster.followers_of(LEASES.name)
    async with join_bus(outdated) as past, join_bus(other) as present:
        await until_written(present, SUBJECT, b"old")
        outdated.pause()
        await nats_cluster.leader_of(LEASES.name)
        await until_written(present, SUBJECT, b"new")

        async def read() -> Stored | None:
            with contextlib.suppress(BusError):
                return await read_confirmed(
                    past.jetstream,
                    past.publisher,
                    stream=LEASES.name,
                    subject=SUBJECT,
                    proof=PROOF,
                )
            return None

        reading = asyncio.create_task(eventually(read, deadline_s=LONG_S, describe="an answer"))
        # The question is with the frozen server before it wakes up.
        await asyncio.sleep(0)
        outdated.resume()

        assert (await reading).payload == b"new"


async def test_intents_and_views_are_right_while_members_lag_are_lost_and_leaders_move(
    join: Join,
    nats_cluster: NatsCluster,
    start_gateway: StartGateway,
    cluster: ClusterBuilder,
):
    start_gateway(env=REPLICATED, lease_life="4s")
    peer = await join()
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        async with traffic(cluster, peer, lives_s=120, insists=True) as flow:
            await flow.more(intents=20, changes=3)
            lagging, lost = await nats_cluster.followers_of(INTENT.name)
            lagging.pause()
            await flow.more(intents=20, changes=3, deadline_s=LONG_S)
            lagging.resume()
            await flow.more(intents=20, changes=3, deadline_s=LONG_S)
            for stream in (INTENT, OUTCOME, STATE, LEASES):
                await nats_cluster.move_leader(stream.name)
                await flow.more(intents=10, changes=2, deadline_s=LONG_S)
            lost.kill()
            await flow.more(intents=20, changes=3, deadline_s=LONG_S)
            await nats_cluster.start_member(lost)
            await flow.more(intents=20, changes=3, deadline_s=LONG_S)

        # An acknowledgement that was lost with its member is made up for after 30 s.
        await flow.check_nothing_lost_or_repeated(witness, LONG_S)
    await until_equal(peer, kube=cluster.kube)
    await no_dead_letters(peer)
