"""A fence is answered when everything that its sender asked for before has ended.

That is what lets a new leader decide: when its view has reached the versions in the answer, it
shows all that was done in its predecessor's name.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stromboli.api import kinds
from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import CONTRACT, AnyIntent, Fence
from stromboli.contracts.outcomes import Applied, FenceAnswered, GangBound, Reason, Refused
from stromboli.testkit.aftermath import answers_of
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_contents import stored_outcomes
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder, owned_by, pod_manifest

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


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


async def test_it_is_answered_after_earlier_intents_ended_and_their_writes_show(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    intents = await work_of_a_leader(peer, cluster)
    for intent in intents:
        await peer.ask(intent)
    await peer.until_reached(await peer.fence())

    assert unseen(peer, intents) == []
    order = [outcome.intent_id for outcome in await stored_outcomes(peer)]
    assert set(order[:-1]) == {intent.id for intent in intents}
    assert isinstance((await stored_outcomes(peer))[-1], FenceAnswered)


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
    await peer.until_reached(await peer.fence())

    assert len(peer.outcomes) == 1 + len(intents)
    assert unseen(peer, intents) == []


async def test_it_is_not_answered_while_an_earlier_intent_is_open_and_others_pass_by(
    join: Join, start_gateway: StartGateway, api_server: ApiServer, cluster: ClusterBuilder
):
    start_gateway()
    peer, other = await join(), await join("scheduler")
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
            fencing = group.create_task(peer.fence())
            answer = await other.fence()

            assert isinstance(answer, FenceAnswered)
            assert not fencing.done()
            assert peer.outcomes == []
            api_server.resume()
            await peer.until_reached(await fencing)
    finally:
        api_server.resume()
    assert unseen(peer, [open_intent]) == []
    assert isinstance(peer.outcomes[-1], FenceAnswered)
    await answers_of(peer, [open_intent])


async def test_nothing_is_listed_for_it_and_binds_of_others_go_on_meanwhile(
    join: Join, start_gateway: StartGateway, api_server: ApiServer, cluster: ClusterBuilder
):
    """Also by a gateway that has just taken over, and knows the cluster by STATE only."""
    former = start_gateway()
    peer, scheduler = await join(), await join("scheduler")
    node = await cluster.node()
    pods = [await cluster.pod(f"gang-{number}") for number in range(3)]
    await until_equal(peer, kube=cluster.kube)
    former.kill()
    gateway = start_gateway()
    await gateway.until_event("lease.acquired", 20)

    binds = [(pod.name, pod.uid, node) for pod in pods]
    bound, answer = await asyncio.gather(
        scheduler.ask_and_hear(scheduler.bind(cluster.namespace, "gang", binds)), peer.fence()
    )

    assert isinstance(bound, GangBound)
    assert all(pod.bound for pod in bound.pods)
    await peer.until_reached(answer)
    assert {line["kind"] for line in gateway.events("list.started")} <= {"configmap"}


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
    await peer.until_reached(await peer.fence())

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

    await peer.until_reached(await peer.fence())
    await until_equal(peer, kube=cluster.kube)


async def test_a_false_fence_stops_nobody(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """Neither one with an epoch larger than any other, nor one that no lease names."""
    gateway = start_gateway()
    peer = await join()
    pods = [await cluster.pod(f"victim-{number}") for number in range(2)]
    for number, epoch in enumerate((Epoch(2**62, 2**62), peer.epoch, Epoch(0, 1))):
        false = Fence(
            id=f"false-{number}",
            key="fence/controllers/-",
            service="controllers",
            epoch=epoch,
            contract=CONTRACT,
        )
        await peer.publisher.publish(false.subject(), codec.encode(false), message_id=false.id)
    for pod in pods:
        intent = peer.delete("pod", cluster.namespace, pod.name, uid=pod.uid, job=pod.name)
        assert isinstance(await peer.ask_and_hear(intent, deadline_s=30), Applied)
        gateway.kill()
        gateway = start_gateway()

    refused = [o for o in peer.outcomes if o.intent_id.startswith("false")]
    assert {o.reason for o in refused if isinstance(o, Refused)} == {Reason.FENCED}
    assert len(refused) == 3
