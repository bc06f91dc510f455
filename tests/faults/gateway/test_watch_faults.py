"""A watch that breaks, goes 410, or shows an old object."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stromboli.api import kinds
from stromboli.contracts.outcomes import Applied
from stromboli.testkit.aftermath import answers_of, no_dead_letters
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import EVERY_KIND, until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder, pod_manifest
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.scripted_api import ScriptedApi, ScriptedList
from stromboli.testkit.traffic import traffic
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import witnessing

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]
Join = Callable[..., Awaitable[BusPeer]]


async def test_facts_and_intents_survive_an_api_server_that_is_killed_and_restarted(
    join: Join, start_gateway: StartGateway, api_server: ApiServer, cluster: ClusterBuilder
):
    gateway = start_gateway()
    peer = await join()
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        async with traffic(cluster, peer) as flow:
            await flow.more(intents=20, changes=5)
            api_server.kill()
            await gateway.until_event("watch.interrupted", kind="pod")
            await flow.more(intents=20)
            await api_server.start()
            await flow.more(intents=20, changes=5)

        await flow.check_nothing_lost_or_repeated(witness)
    assert flow.unstored == []  # the bus was never away
    await until_equal(peer, kube=cluster.kube)
    await no_dead_letters(peer)


async def test_an_api_server_that_freezes_holds_up_and_loses_nothing(
    join: Join, start_gateway: StartGateway, api_server: ApiServer, cluster: ClusterBuilder
):
    start_gateway()
    peer = await join()
    pod = await cluster.pod("slow")
    api_server.pause()
    try:
        intents = [
            peer.patch(
                "pod",
                cluster.namespace,
                "slow",
                uid=pod.uid,
                body={"metadata": {"annotations": {"step": str(step)}}},
            )
            for step in range(3)
        ]
        for intent in intents:
            await peer.ask(intent)
        late = start_gateway()  # one that starts now can't list anything
        await late.until_event("lease.waiting")
    finally:
        api_server.resume()

    answers = await answers_of(peer, intents)
    assert all(isinstance(answer, Applied) for answer in answers)
    await until_equal(peer, kube=cluster.kube)


async def test_a_gateway_that_can_not_list_is_not_ready_and_promises_nothing(
    join: Join, start_gateway: StartGateway, api_server: ApiServer, cluster: ClusterBuilder
):
    await cluster.pod("there")
    api_server.pause()
    try:
        gateway = start_gateway()
        peer = await join(synced=False)
        await gateway.until_event("list.started", kind="pod")
        url = await gateway.health_url()
        async with aiohttp.ClientSession() as http, http.get(f"{url}/readyz?verbose") as answer:
            assert answer.status == 503
            assert "kinds not listed yet" in await answer.text()
        assert peer.view.unsynced == EVERY_KIND
    finally:
        api_server.resume()

    await until_equal(peer, kube=cluster.kube)
    await gateway.until_ready()


async def test_a_gateway_lists_anew_when_the_history_it_needs_is_gone(
    join: Join, start_gateway: StartGateway, api_server: ApiServer, cluster: ClusterBuilder
):
    """What came, changed and went meanwhile is found by the comparison."""
    gateway = start_gateway()
    for name in ("stays", "goes", "changes", "is-replaced"):
        await cluster.pod(name)
    peer = await join()
    await until_equal(peer, kube=cluster.kube)
    gateway.kill()
    await cluster.label("pod", "changes", changed="yes")
    await cluster.delete("pod", "goes")
    await cluster.delete("pod", "is-replaced")
    await cluster.pod("is-replaced")
    await cluster.pod("comes")
    await api_server.forget_history()
    await cluster.pod("comes-later")
    following = start_gateway()

    await until_equal(peer, kube=cluster.kube)
    await following.until_event("list.started", kind="pod", reason="expired")
    gone = {d.name for d in peer.deltas if d.new is None and d.namespace == cluster.namespace}
    assert gone == {"goes", "is-replaced"}
    await no_dead_letters(peer)


# What no real server does, a scripted one does.


def pod(name: str, version: int, *, uid: str = "", value: str = "") -> dict[str, Any]:
    manifest = pod_manifest(name, namespace="ns")
    manifest["metadata"] |= {
        "uid": uid or f"uid-of-{name}",
        "resourceVersion": str(version),
        "labels": {"value": value},
    }
    return manifest


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[ScriptedApi]:
    async with ScriptedApi(tmp_path, kinds.POD) as api:
        api.will_list(ScriptedList("100", (pod("a", 95, value="new"), pod("b", 96))))
        yield api


@pytest.fixture
async def peer_of_scripted(
    scripted: ScriptedApi, nats_server: NatsServer, tmp_path: Path
) -> AsyncIterator[BusPeer]:
    async with (
        GatewayProcess(
            tmp_path / "gateway",
            nats_url=nats_server.url,
            kubeconfig=scripted.kubeconfig,
            lease_life="1s",
        ),
        BusPeer("scheduler", nats_server.url, kinds=("pod",)) as peer,
    ):
        await peer.until_synced()
        yield peer


def story(peer: BusPeer, name: str) -> list[str]:
    """What the view was told about a pod: its versions, and `gone`."""
    return [
        "gone" if delta.new is None else delta.new.resource_version
        for delta in peer.deltas
        if delta.name == name
    ]


async def _until_told(peer: BusPeer, name: str, last: str) -> None:
    await eventually(
        lambda: story(peer, name)[-1:] == [last],
        describe=lambda: f"{name} to be {last}, its story is {story(peer, name)}",
    )


async def test_an_old_object_in_a_watch_never_takes_the_view_back(
    scripted: ScriptedApi, peer_of_scripted: BusPeer
):
    peer = peer_of_scripted
    await scripted.send("MODIFIED", pod("a", 90, value="old"))
    await scripted.send("ADDED", pod("b", 94, uid="its predecessor"))
    await scripted.send("ADDED", pod("never-told", 93))
    await scripted.send("MODIFIED", pod("a", 110, value="newest"))
    await _until_told(peer, "a", "110")
    await scripted.send("MODIFIED", pod("a", 105, value="old"))
    await scripted.send("DELETED", pod("a", 120, value="newest"))
    # Only what is about one pod comes in order.
    await _until_told(peer, "a", "gone")
    await scripted.send("MODIFIED", pod("a", 115, value="old"))
    await scripted.send("DELETED", pod("b", 116, uid="its predecessor"))
    await scripted.send("ADDED", pod("last", 130))
    await peer.until_seen("pod", "ns", "last")

    assert story(peer, "a") == ["95", "110", "gone"]
    assert story(peer, "b") == ["96"]
    assert story(peer, "never-told") == []
    assert {name for _, name in peer.view.objects("pod")} == {"b", "last"}


async def test_what_an_old_list_misses_comes_back_by_the_watch_behind_it(
    scripted: ScriptedApi, peer_of_scripted: BusPeer
):
    """Lists are consistent, so no API server gives an old one; if one did, the watch heals it."""
    peer = peer_of_scripted
    await scripted.send("MODIFIED", pod("a", 110, value="newest"))
    await scripted.send("ADDED", pod("c", 120))
    await peer.until_seen("pod", "ns", "c")
    scripted.will_list(ScriptedList("101", (pod("a", 95, value="new"), pod("b", 96))))
    await scripted.lose_history()
    await _until_told(peer, "c", "gone")
    await scripted.send("MODIFIED", pod("a", 110, value="newest"))
    await scripted.send("ADDED", pod("c", 120))

    await _until_told(peer, "c", "120")
    await _until_told(peer, "a", "110")
    assert story(peer, "a") == ["95", "110", "95", "110"]
    assert scripted.watched_from[-1] == "101"


async def test_a_server_that_was_restored_from_a_backup_is_believed(
    scripted: ScriptedApi, peer_of_scripted: BusPeer
):
    """Versions begin again further back, and the objects of the lost time are gone for good."""
    peer = peer_of_scripted
    await scripted.send("MODIFIED", pod("a", 110, value="lost"))
    await scripted.send("ADDED", pod("lost", 120))
    await peer.until_seen("pod", "ns", "lost")
    scripted.will_list(ScriptedList("101", (pod("a", 95, value="restored"), pod("b", 96))))
    await scripted.lose_history()
    await eventually(
        lambda: peer.view.get("pod", "ns", "lost") is None, describe="the lost pod to go"
    )
    await scripted.send("MODIFIED", pod("a", 102, value="after"))
    await scripted.send("ADDED", pod("lost", 103, uid="another"))

    await _until_told(peer, "a", "102")
    await eventually(lambda: story(peer, "lost") == ["120", "gone", "103"])


async def test_watches_that_end_at_once_are_begun_again_without_a_flood(
    scripted: ScriptedApi, peer_of_scripted: BusPeer
):
    peer = peer_of_scripted
    for version in (110, 120, 130):
        await scripted.send("ADDED", pod(f"pod-{version}", version))
        await peer.until_seen("pod", "ns", f"pod-{version}")
        begun = len(scripted.watched_from)
        await scripted.end_watch()
        await eventually(
            lambda begun=begun: len(scripted.watched_from) > begun, describe="another watch"
        )

    assert scripted.watched_from[1:] == ["110", "120", "130"]
    assert scripted.lists_served == 1
