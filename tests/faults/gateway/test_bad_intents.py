"""Duplicate, late, fenced, expired, oversize, undecodable and unknown intents.

None of them is applied when it must not be, each leaves its reason in OUTCOME or DEAD, and
nobody else is held up by them.
"""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.errors import MessageTooLarge
from stromboli.contracts.intents import PatchObject, intent_id
from stromboli.contracts.outcomes import Applied, Reason, Refused
from stromboli.contracts.partitions import job_key
from stromboli.kube.wire import Written
from stromboli.testkit.aftermath import answers_of, no_dead_letters, until_all_ended
from stromboli.testkit.bus_contents import dead_letters, outcomes_per_intent
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder, pod_manifest
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import witnessing

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


def step(peer: BusPeer, pod: Written, number: int, *, job: str = "job") -> PatchObject:
    return peer.patch(
        "pod",
        pod.namespace,
        pod.name,
        uid=pod.uid,
        body={"metadata": {"annotations": {"step": str(number)}}},
        job=job,
    )


async def say_again(peer: BusPeer, intent: PatchObject) -> None:
    """The same bytes, as if the server's window for duplicates were over."""
    await peer.publisher.publish(
        intent.subject(), codec.encode(intent), message_id=f"{intent.id}-again"
    )


async def test_an_intent_that_comes_again_after_its_successor_is_not_applied_again(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    pod = await cluster.pod("steps")
    first, second, last = (step(peer, pod, number) for number in (1, 2, 3))
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        await peer.ask_and_hear(first)
        await peer.ask_and_hear(second)
        await say_again(peer, first)
        outcome = await peer.ask_and_hear(last)
        assert isinstance(outcome, Applied)
        await witness.until_seen("steps", outcome.resource_version)

        assert witness.values("steps", "step") == ["1", "2", "3"]
    await answers_of(peer, [first, second, last])
    await no_dead_letters(peer)


async def test_a_new_gateway_knows_what_its_predecessor_has_answered(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    gateway = start_gateway()
    peer = await join()
    pod = await cluster.pod("steps")
    first, second, last = (step(peer, pod, number) for number in (1, 2, 3))
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        await peer.ask_and_hear(first)
        await peer.ask_and_hear(second)
        gateway.kill()
        await say_again(peer, first)
        start_gateway()
        outcome = await peer.ask_and_hear(last)
        assert isinstance(outcome, Applied)
        await witness.until_seen("steps", outcome.resource_version)

        assert witness.values("steps", "step") == ["1", "2", "3"]
    await answers_of(peer, [first, second, last])


async def test_an_intent_that_waited_for_a_gateway_has_its_whole_life_before_it(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """Its life begins when the gateway does, on the gateway's own clock."""
    gateway = start_gateway()
    peer = await join()
    pod = await cluster.pod("late")
    gateway.kill()
    intent = peer.delete("pod", cluster.namespace, "late", uid=pod.uid, lives_s=1)
    await peer.ask(intent)
    asked_at = peer.clock.monotonic()
    await eventually(lambda: peer.clock.monotonic() > asked_at + 1.5, describe="a longer time")
    start_gateway()

    (outcome,) = await answers_of(peer, [intent])
    assert isinstance(outcome, Applied)
    await until_equal(peer, kube=cluster.kube)


async def test_a_deposed_leader_is_refused_also_by_a_gateway_that_was_started_later(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    gateway = start_gateway()
    old = await join("scheduler")
    new = await join("scheduler")
    assert old.epoch != new.epoch
    pods = [await cluster.pod(f"pod-{number}") for number in range(3)]
    ends = [old.evict(cluster.namespace, pod.name, uid=pod.uid, job=pod.name) for pod in pods[:2]]
    await new.fence()
    first = await old.ask_and_hear(ends[0])
    gateway.kill()
    start_gateway()
    second = await old.ask_and_hear(ends[1])
    third = await new.ask_and_hear(
        new.evict(cluster.namespace, pods[2].name, uid=pods[2].uid, job=pods[2].name)
    )

    for outcome in (first, second):
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.FENCED
    assert isinstance(third, Applied)
    assert sorted(await cluster.names("pod")) == ["pod-0", "pod-1"]
    await until_equal(old, new, kube=cluster.kube)
    await no_dead_letters(old)


async def test_an_intent_larger_than_a_message_is_refused_before_it_is_sent(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    pod = await cluster.pod("small")
    manifest = pod_manifest("huge", namespace=cluster.namespace)
    manifest["metadata"]["annotations"] = {"padding": "x" * (1024 * 1024)}
    with pytest.raises(MessageTooLarge, match="1048576"):
        await peer.ask(peer.create("pod", manifest))

    assert await cluster.fetch("pod", "huge") is None
    assert peer.connection.connected  # a server that gets too much ends the connection
    outcome = await peer.ask_and_hear(peer.delete("pod", pod.namespace, "small", uid=pod.uid))
    assert isinstance(outcome, Applied)


async def test_intents_that_can_not_be_read_are_put_aside_once_and_the_rest_goes_on(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    rubbish = [
        b"",
        b"\x00\xff rubbish",
        b"{}",
        msgspec.msgpack.encode({"type": "delete.v1", "id": 7}),
        msgspec.msgpack.encode({"type": "teleport.v9", "key": "no deadline"}),
    ]
    start_gateway()
    peer = await join()
    pod = await cluster.pod("behind")
    behind = peer.delete("pod", cluster.namespace, "behind", uid=pod.uid)
    for payload in rubbish:
        await peer.publisher.publish(behind.subject(), payload)
    outcome = await peer.ask_and_hear(behind)

    assert isinstance(outcome, Applied)
    await until_all_ended(peer)
    letters = await dead_letters(peer)
    assert [letter.payload for letter in letters] == rubbish
    assert {letter.arrived_on for letter in letters} == {behind.subject()}
    assert all(letter.reason for letter in letters)
    await until_equal(peer, kube=cluster.kube)


async def test_an_intent_of_an_unknown_type_is_refused_at_once_and_its_successors_go_on(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    pod = await cluster.pod("waiting")
    unknown = {
        "type": "teleport.v9",
        "id": intent_id("teleport", cluster.namespace),
        "key": job_key("vcjob", cluster.namespace, "job"),
        "service": "controllers",
        "lives_s": 60,
        "where": "elsewhere",
    }
    successor = step(peer, pod, 1)
    await peer.publisher.publish(successor.subject(), msgspec.msgpack.encode(unknown))
    outcome = await peer.ask_and_hear(successor)

    assert isinstance(outcome, Applied)
    (refused,) = [o for o in peer.outcomes if o.intent_id == unknown["id"]]
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.UNKNOWN_TYPE
    assert refused.key == unknown["key"]
    (letter,) = await dead_letters(peer)
    assert "teleport.v9" in letter.reason
    assert set((await outcomes_per_intent(peer)).values()) == {1}
    await until_equal(peer, kube=cluster.kube)
