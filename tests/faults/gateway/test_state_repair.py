"""STATE is damaged by hand; the gateway puts it right.

Who overwrites a fact is noticed soon, because a sequence is missing among the gateway's own. What
was removed makes no message: the regular comparison with the API server finds it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.facts import KindSynced, ObjectGone, ObjectSeen
from stromboli.contracts.streams import STATE
from stromboli.testkit.bus_contents import dead_letters, purge, stored_messages
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


async def fact_of(peer: BusPeer, namespace: str, name: str) -> ObjectSeen:
    """The fact about a pod, as it stands."""
    stored = await peer.jetstream.last_message(STATE.name, f"vc.state.pod.{namespace}.{name}")
    assert stored is not None
    fact = codec.facts.decode(stored.payload)
    assert isinstance(fact, ObjectSeen)
    return fact


async def vandalise(peer: BusPeer, fact: ObjectSeen | ObjectGone | KindSynced) -> int:
    return (await peer.publisher.publish(fact.subject(), codec.encode(fact))).seq


def changed(fact: ObjectSeen, **fields: Any) -> ObjectSeen:
    return msgspec.structs.replace(fact, **fields)


def tombstone(fact: ObjectSeen, **fields: Any) -> ObjectGone:
    return ObjectGone(**{**msgspec.structs.asdict(fact), **fields})


async def until_repaired(peer: BusPeer, cluster: ClusterBuilder, join: Join, damage: int) -> None:
    """Both who was there and who comes later see what the API server has."""
    await eventually(
        lambda: peer.view.sequence > damage, describe="something to be written after the damage"
    )
    await until_equal(peer, kube=cluster.kube)
    await until_equal(await join("scheduler"), kube=cluster.kube)


HIGH = str(10**15)


Damage = Callable[[ObjectSeen, ObjectSeen], ObjectSeen | ObjectGone]

DAMAGE: dict[str, Damage] = {
    "wrong-uid": lambda fact, other: changed(fact, uid="wrong"),
    "old-version": lambda fact, other: changed(fact, resource_version="1"),
    "wrong-contents": lambda fact, other: changed(fact, projection=other.projection),
    "wrong-contents-from-the-future": lambda fact, other: changed(
        fact, projection=other.projection, resource_version=HIGH
    ),
    "only-from-the-future": lambda fact, other: changed(fact, resource_version=HIGH),
    "tombstone": lambda fact, other: tombstone(fact),
    "tombstone-from-the-future": lambda fact, other: tombstone(fact, resource_version=HIGH),
    "ghost": lambda fact, other: changed(fact, name="nobody"),
    "ghost-from-the-future": lambda fact, other: changed(
        fact, name="nobody-2", resource_version=HIGH
    ),
}


async def test_wrong_but_well_formed_facts_are_replaced_by_the_truth(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    for name in ("other", *DAMAGE):
        await cluster.pod(name)
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    other = await fact_of(peer, cluster.namespace, "other")
    damaged = 0
    for name, damage in DAMAGE.items():
        fact = await fact_of(peer, cluster.namespace, name)
        damaged = await vandalise(peer, damage(fact, other))

    await until_repaired(peer, cluster, join, damaged)
    # What was from the future must not hide what comes now.
    for name in DAMAGE:
        await cluster.label("pod", name, repaired="yes")
    for name in ("nobody", "nobody-2"):
        await cluster.pod(name)
    await until_equal(peer, kube=cluster.kube)


async def has_positions(peer: BusPeer) -> bool:
    stored = await stored_messages(peer.connection, STATE.name, "vc.state.sync.>")
    return {message.subject.rpartition(".")[2] for message in stored} >= set(peer.kinds)


async def test_damage_done_while_no_gateway_runs_is_found_by_the_regular_comparison(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """The next gateway goes on from the positions, as if nothing had happened."""
    gateway = start_gateway()
    for name in ("wrong", "other", "buried", "purged"):
        await cluster.pod(name)
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    await eventually(lambda: has_positions(peer), describe="positions")
    facts = {
        name: await fact_of(peer, cluster.namespace, name) for name in ("wrong", "other", "buried")
    }
    gateway.kill()
    other = facts["other"].projection
    await vandalise(peer, changed(facts["wrong"], projection=other))
    await vandalise(peer, tombstone(facts["buried"]))
    damaged = await vandalise(peer, changed(facts["other"], name="ghost"))
    assert await purge(peer.connection, STATE.name, f"vc.state.pod.{cluster.namespace}.purged") == 1
    start_gateway(relist_every="1s")

    await until_repaired(peer, cluster, join, damaged)


async def test_an_end_from_the_future_is_found_when_the_next_gateway_begins(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    """It would hide whatever gets that name, until the next regular comparison."""
    gateway = start_gateway()
    await cluster.pod("other")
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    await eventually(lambda: has_positions(peer), describe="positions")
    other = await fact_of(peer, cluster.namespace, "other")
    gateway.kill()
    await vandalise(peer, tombstone(other, name="later", uid="a ghost", resource_version=HIGH))
    await start_gateway().until_event("list.started", kind="pod", reason="requested")
    await cluster.pod("later")

    await until_equal(peer, kube=cluster.kube)


async def test_what_was_purged_is_written_again_by_the_regular_comparison(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway(relist_every="1s")
    await cluster.pod("purged")
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    peer.deltas.clear()
    for subject in (f"vc.state.pod.{cluster.namespace}.purged", "vc.state.sync.-.pod"):
        assert await purge(peer.connection, STATE.name, subject) == 1

    await until_equal(await join("scheduler"), kube=cluster.kube)
    assert [d for d in peer.deltas if d.new is None] == []  # no view has lost it meanwhile


async def test_a_purge_of_everything_is_no_empty_cluster(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway(relist_every="1s")
    await cluster.pod("purged")
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    peer.deltas.clear()
    assert await purge(peer.connection, STATE.name, "vc.state.>") > 8

    await until_equal(await join("scheduler"), kube=cluster.kube)
    assert [d for d in peer.deltas if d.new is None] == []


async def none_of_it_stands(peer: BusPeer, rubbish: Mapping[str, bytes]) -> bool:
    for subject, payload in rubbish.items():
        stored = await peer.jetstream.last_message(STATE.name, subject)
        assert stored is None or stored.payload != payload, subject
    return True


async def test_rubbish_on_state_is_put_aside_and_replaced(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    gateway = start_gateway()
    await cluster.pod("victim")
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    fact = await fact_of(peer, cluster.namespace, "victim")
    place = f"vc.state.pod.{cluster.namespace}"
    rubbish = {
        f"{place}.victim": b"\x00 rubbish",
        f"{place}.nobody": b"rubbish about nobody",
        f"{place}.elsewhere": codec.encode(fact),
        f"{place}.odd-version": codec.encode(
            changed(fact, name="odd-version", resource_version="seven")
        ),
        f"{place}.odd-name": codec.encode(changed(fact, name="no name at all")),
        "vc.state.sync.-.pod": b"rubbish instead of a position",
    }
    damaged = 0
    for subject, payload in rubbish.items():
        damaged = (await peer.publisher.publish(subject, payload)).seq

    await until_repaired(peer, cluster, join, damaged)
    await eventually(lambda: none_of_it_stands(peer, rubbish), describe="no rubbish on STATE")
    assert (await join()).unreadable_facts == []
    letters = {letter.arrived_on: letter for letter in await dead_letters(peer)}
    assert letters.keys() == rubbish.keys()
    assert all(letters[subject].payload == rubbish[subject] for subject in rubbish)
    assert gateway.running


async def test_wrong_positions_are_replaced(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    markers = [
        KindSynced(kind="pod", incarnation="another log", resource_version="1", count=0),
        KindSynced(kind="node", incarnation="another log", resource_version=HIGH, count=0),
    ]
    damaged = 0
    for marker in markers:
        damaged = (await peer.publisher.publish(marker.subject(), codec.encode(marker))).seq
    await until_repaired(peer, cluster, join, damaged)

    for marker in markers:
        stored = await peer.jetstream.last_message(STATE.name, marker.subject())
        assert stored is not None
        repaired = codec.facts.decode(stored.payload)
        assert isinstance(repaired, KindSynced)
        assert repaired.incarnation == peer.view.incarnation
        assert repaired.resource_version not in {"1", HIGH}


async def test_a_position_from_the_future_does_not_blind_the_next_gateway(
    join: Join, start_gateway: StartGateway, cluster: ClusterBuilder
):
    gateway = start_gateway()
    peer = await join()
    gateway.kill()
    for kind in peer.kinds:
        marker = KindSynced(
            kind=kind, incarnation=peer.view.incarnation, resource_version=HIGH, count=0
        )
        await peer.publisher.publish(marker.subject(), codec.encode(marker))
    await cluster.pod("new")
    start_gateway()

    await until_equal(peer, kube=cluster.kube)
