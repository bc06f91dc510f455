"""A fence is answered when everything before it has ended and stands on STATE.

That is what lets a new leader decide: at the positions in the answers, its view shows all
that was done in its predecessor's name.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stromboli.api import kinds
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Applied, FenceAnswered, GangBound, Reason, Refused
from stromboli.contracts.partitions import PARTITIONS
from stromboli.contracts.streams import FENCE_SUBJECT
from stromboli.runtime.bus.asking import FenceRound
from stromboli.testkit.aftermath import answers_of
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_contents import dead_letters, stored_outcomes
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder, owned_by, pod_manifest
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


async def until_reached(peer: BusPeer, fences: FenceRound) -> None:
    (position,) = fences.position.items()
    await eventually(lambda: peer.view.reached(*position), describe="the view to be that new")


def unseen(peer: BusPeer, intents: list[AnyIntent]) -> list[str]:
    """Which of these intents' writes the view does not show."""
    asked = {intent.id for intent in intents}
    missing: list[str] = []
    for outcome in peer.outcomes:
        if outcome.intent_id not in asked:
            continue
        if isinstance(outcome, GangBound):
            pods = peer.view.objects("pod")
            missing += [
                f"bind {bound.name}"
                for bound in outcome.pods
                if pods[outcome.namespace, bound.name].object.spec.node_name != bound.node
            ]
        elif isinstance(outcome, Applied):
            entry = peer.view.get(outcome.kind, outcome.namespace, outcome.name)
            what = f"{outcome.verb} {outcome.name}"
            if not outcome.resource_version:
                missing += [what] if entry is not None and entry.uid == outcome.uid else []
            elif entry is None or int(entry.resource_version) < int(outcome.resource_version):
                missing.append(what)
    return missing


async def work_of_a_leader(peer: BusPeer, cluster: ClusterBuilder) -> list[AnyIntent]:
    """All that controllers do, for six jobs, twice of it in vain."""
    intents: list[AnyIntent] = []
    for number in range(6):
        job_name = f"job-{number}"
        job = await cluster.job(job_name)
        old = await cluster.pod(f"old-{number}")
        manifest = pod_manifest(f"new-{number}", namespace=cluster.namespace)
        status = {"status": {"minAvailable": number, "state": {"phase": "Pending"}}}
        intents += [
            peer.create(
                "pod", owned_by(manifest, job, kinds.VC_JOB), owner_uid=job.uid, job=job_name
            ),
            peer.patch(
                "vcjob",
                cluster.namespace,
                job_name,
                uid=job.uid,
                body=status,
                job=job_name,
                subresource="status",
            ),
            peer.delete("pod", cluster.namespace, old.name, uid=old.uid, job=job_name),
            peer.delete("pod", cluster.namespace, old.name, uid=old.uid, job=job_name),
            peer.delete("pod", cluster.namespace, "never-was", uid="x", job=job_name),
        ]
    return intents


async def test_all_partitions_answer_after_earlier_intents_ended_and_their_writes_show(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    intents = await work_of_a_leader(peer, cluster)
    for intent in intents:
        await peer.ask(intent)
    fences = await peer.fence()
    await until_reached(peer, fences)

    assert unseen(peer, intents) == []
    stored = await stored_outcomes(peer)
    assert len([o for o in stored if isinstance(o, FenceAnswered)]) == PARTITIONS
    for intent in intents:
        order = [
            o.intent_id if not isinstance(o, FenceAnswered) else "fence"
            for o in stored
            if o.intent_id == intent.id
            or (isinstance(o, FenceAnswered) and o.partition == intent.partition)
        ]
        assert order == [intent.id, "fence"]


async def test_a_gang_that_was_bound_shows_when_the_fence_is_answered(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join("scheduler")
    node = await cluster.node()
    pods = [await cluster.pod(f"gang-{number}") for number in range(20)]
    binds = [(pod.name, pod.uid, node) for pod in pods]
    intents: list[AnyIntent] = [
        peer.bind(cluster.namespace, "gang", binds, attempt="1"),
        peer.bind(cluster.namespace, "gang", binds, attempt="2"),
    ]
    for intent in intents:
        await peer.ask(intent)
    fences = await peer.fence()
    await until_reached(peer, fences)

    assert len(peer.outcomes) >= PARTITIONS + len(intents)
    assert unseen(peer, intents) == []


def answered(peer: BusPeer) -> set[int]:
    return {o.partition for o in peer.outcomes if isinstance(o, FenceAnswered)}


async def test_a_partition_does_not_answer_while_an_earlier_intent_is_open(
    join: Join, start_gateway: StartGateway, api_server: ApiServer, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    pod = await cluster.pod("slow")
    open_intent = peer.patch(
        "pod",
        cluster.namespace,
        "slow",
        uid=pod.uid,
        body={"metadata": {"annotations": {"done": "yes"}}},
    )
    api_server.pause()
    try:
        await peer.ask(open_intent)
        async with asyncio.TaskGroup() as group:
            fencing = group.create_task(peer.fence(Epoch(1, 1)))
            await eventually(
                lambda: len(answered(peer)) == PARTITIONS - 1, describe="the other partitions"
            )

            assert open_intent.partition not in answered(peer)
            api_server.resume()
            fences = await fencing
    finally:
        api_server.resume()
    await until_reached(peer, fences)
    assert unseen(peer, [open_intent]) == []
    assert isinstance(peer.outcomes[-1], FenceAnswered)
    await answers_of(peer, [open_intent])


async def test_the_answer_covers_what_a_gateway_did_that_is_dead_by_now(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """The dead gateway's last writes are at the API server, but perhaps not on STATE yet."""
    doomed = start_gateway(crash_at="bus.intent.answered:12")
    peer = await join()
    intents = await work_of_a_leader(peer, cluster)
    for intent in intents:
        await peer.ask(intent)
    await doomed.wait()
    start_gateway()
    fences = await peer.fence()
    await until_reached(peer, fences)

    assert unseen(peer, intents) == []
    await answers_of(peer, intents)
    await until_equal(peer, kube=cluster.kube)


async def test_a_write_that_was_undone_before_anybody_saw_it_does_not_hold_up_a_fence(
    join: Join, start_gateway: StartGateway, api_server: ApiServer, cluster: ClusterBuilder
):
    """The watch lost its history: neither the creation nor the deletion is ever reported."""
    gateway = start_gateway()
    peer = await join()
    job = await cluster.job("job")
    manifest = owned_by(pod_manifest("brief", namespace=cluster.namespace), job, kinds.VC_JOB)
    outcome = await peer.ask_and_hear(peer.create("pod", manifest, owner_uid=job.uid))
    assert isinstance(outcome, Applied)
    gateway.pause()
    await cluster.delete("pod", "brief")
    await cluster.pod("brief")
    gateway.resume()
    await peer.ask_and_hear(
        peer.delete("pod", cluster.namespace, "brief", uid=outcome.uid), deadline_s=10
    )

    fences = await peer.fence()
    await until_reached(peer, fences)
    await until_equal(peer, kube=cluster.kube)


async def test_a_fence_that_can_not_be_read_lets_nobody_through_but_the_next_fence(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """Whom it kept out is not known any more; the leader of today can say it again."""
    gateway = start_gateway()
    peer = await join()
    pod = await cluster.pod("victim")
    await peer.fence()
    before = peer.delete("pod", cluster.namespace, "victim", uid=pod.uid)
    subject = FENCE_SUBJECT.format(partition=before.partition, service=peer.service, shard="-")
    await peer.publisher.publish(subject, b"rubbish")
    gateway.kill()
    start_gateway()

    refused = await peer.ask_and_hear(before)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.FENCED
    await peer.fence(Epoch(1, 2))
    after = peer.delete("pod", cluster.namespace, "victim", uid=pod.uid)
    assert isinstance(await peer.ask_and_hear(after), Applied)
    assert [letter.arrived_on for letter in await dead_letters(peer)] == [subject]
