import asyncio
from pathlib import Path
from typing import Any

import aiohttp
from tests.unit.sandbox.conftest import (
    CONFIG_MAPS,
    DEADLINE_S,
    PODS,
    Client,
    binding,
    config_map,
    pod,
)

from stromboli.sandbox import SandboxConfig, SandboxServer


async def test_a_watch_without_a_revision_begins_with_what_is_there(client: Client) -> None:
    await client.made(CONFIG_MAPS, config_map("a"))

    events = await client.watch(CONFIG_MAPS)
    await client.made(CONFIG_MAPS, config_map("b"))

    assert await events.seen(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_from_a_revision_tells_all_that_came_after(client: Client) -> None:
    then = await client.revision()
    await client.made(CONFIG_MAPS, config_map("a"))
    await client.merge(f"{CONFIG_MAPS}/a", {"data": {"n": "1"}})

    events = await client.watch(CONFIG_MAPS, f"resourceVersion={then}")
    await client.delete(f"{CONFIG_MAPS}/a")

    assert await events.seen(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_revisions_in_events_only_grow(client: Client) -> None:
    events = await client.watch(CONFIG_MAPS)
    for number in range(30):
        await client.made(CONFIG_MAPS, config_map(f"c-{number}"))

    seen = [await events.next() for _ in range(30)]

    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert revisions == sorted(set(revisions))


async def test_an_object_that_leaves_the_selection_is_deleted_for_the_watcher(
    client: Client,
) -> None:
    then = await client.revision()
    red = await client.watch(CONFIG_MAPS, f"resourceVersion={then}&labelSelector=team%3Dred")
    path = f"{CONFIG_MAPS}/a"

    await client.made(CONFIG_MAPS, config_map("a", labels={"team": "blue"}))
    await client.merge(path, {"metadata": {"labels": {"team": "red"}}})
    await client.merge(path, {"data": {"n": "1"}})
    left = await client.merge(path, {"metadata": {"labels": {"team": "blue"}}})
    await client.delete(path)
    await client.made(CONFIG_MAPS, config_map("b", labels={"team": "red"}))

    events = [await red.next() for _ in range(4)]
    kinds = [event["type"] for event in events]
    gone = events[2]["object"]
    assert kinds == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert gone["metadata"]["labels"] == {"team": "red"}
    assert gone["metadata"]["resourceVersion"] == left.meta["resourceVersion"]


async def test_a_field_selector_follows_the_pod_to_its_node(client: Client) -> None:
    node = await client.watch(PODS, "fieldSelector=spec.nodeName%3Dn1")
    await client.made(PODS, pod("a"))
    await client.made(f"{PODS}/a/binding", binding("a", "n1"))
    await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})

    assert await node.seen(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_is_of_one_namespace(client: Client) -> None:
    events = await client.watch(CONFIG_MAPS)
    await client.made("/api/v1/namespaces/kube-system/configmaps", config_map("elsewhere"))
    await client.made(CONFIG_MAPS, config_map("here"))

    assert await events.seen(1) == [("ADDED", "here")]


async def test_history_that_is_forgotten_is_an_error_event_and_the_end(client: Client) -> None:
    then = await client.revision()
    await client.made(CONFIG_MAPS, config_map("a"))
    floor = (await client.call("POST", "/sandbox/compact", {})).body["revision"]

    (event,) = await (await client.watch(CONFIG_MAPS, f"resourceVersion={then}")).rest()

    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == f"too old resource version: {then} ({floor})"


async def test_an_open_watch_survives_compaction(client: Client) -> None:
    events = await client.watch(CONFIG_MAPS)
    await client.made(CONFIG_MAPS, config_map("a"))
    await client.call("POST", "/sandbox/compact", {})
    await client.made(CONFIG_MAPS, config_map("b"))

    assert await events.seen(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_list_marks_the_end_of_the_beginning(client: Client) -> None:
    await client.made(CONFIG_MAPS, config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    events = await client.watch(CONFIG_MAPS, query)
    first, mark = await events.next(), await events.next()

    assert (first["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    meta = mark["object"]["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert meta["resourceVersion"] == await client.revision()


async def test_a_watch_ends_on_time_with_a_last_bookmark(client: Client) -> None:
    await client.made(PODS, pod("a"))
    await client.made(CONFIG_MAPS, config_map("later"))
    query = "timeoutSeconds=1&allowWatchBookmarks=true"

    events = await (await client.watch(PODS, query)).rest()

    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    bookmark = events[1]["object"]
    assert bookmark["kind"] == "Pod"
    assert bookmark["metadata"]["resourceVersion"] == await client.revision()


async def test_bookmarks_come_at_the_interval_to_those_who_want_them(tmp_path: Path) -> None:
    config = SandboxConfig(data_dir=tmp_path, tls=False, bookmark_interval_s=0.05)
    async with SandboxServer(config) as server, aiohttp.ClientSession() as session:
        client = Client(session, server.url, server.token)
        wanting = await client.watch(CONFIG_MAPS, "allowWatchBookmarks=true")
        plain = await client.watch(CONFIG_MAPS)

        first, second = await wanting.next(), await wanting.next()
        await client.made(CONFIG_MAPS, config_map("a"))

        assert (first["type"], second["type"]) == ("BOOKMARK", "BOOKMARK")
        assert await plain.seen(1) == [("ADDED", "a")]
        client.close_watches()


async def test_a_watcher_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    config = SandboxConfig(data_dir=tmp_path, tls=False, watch_buffer=20)
    large = {"metadata": {"name": "a"}, "data": {"blob": "x" * 500_000}}
    async with SandboxServer(config) as server, aiohttp.ClientSession() as session:
        client = Client(session, server.url, server.token)
        await client.made(CONFIG_MAPS, large)
        reader, writer = await asyncio.open_connection("127.0.0.1", _port(server.url), limit=1024)
        head = f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n"
        writer.write(f"{head}Authorization: Bearer {server.token}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")

        for number in range(60):
            await client.merge(f"{CONFIG_MAPS}/a", {"data": {"n": str(number)}})

        async with asyncio.timeout(DEADLINE_S):
            while await _more(reader):
                pass
        writer.close()
        assert (await client.get(f"{CONFIG_MAPS}/a")).body["data"]["n"] == "59"


async def _more(reader: asyncio.StreamReader) -> bool:
    try:
        return bool(await reader.read(65536))
    except ConnectionResetError:
        return False


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


async def test_watchers_of_another_version_see_that_version(widgets: Client) -> None:
    path = "/namespaces/default/widgets"
    new = await widgets.watch(f"/apis/demo.io/v1{path}")
    old = await widgets.watch(f"/apis/demo.io/v1beta1{path}")
    body: dict[str, Any] = {
        "apiVersion": "demo.io/v1beta1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 3},
    }
    await widgets.made(f"/apis/demo.io/v1beta1{path}", body)

    assert (await new.next())["object"]["apiVersion"] == "demo.io/v1"
    assert (await old.next())["object"]["apiVersion"] == "demo.io/v1beta1"


async def test_many_watchers_see_every_event_in_order(client: Client) -> None:
    watches = [await client.watch(CONFIG_MAPS) for _ in range(5)]
    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(client.made(CONFIG_MAPS, config_map(f"c-{number}")))

    sequences = [await watch.seen(100) for watch in watches]

    assert len(set(sequences[0])) == 100
    assert all(sequence == sequences[0] for sequence in sequences)


async def test_stopping_the_server_ends_watches_cleanly(config: SandboxConfig) -> None:
    async with aiohttp.ClientSession() as session:
        async with SandboxServer(config) as server:
            client = Client(session, server.url, server.token)
            events = await client.watch(CONFIG_MAPS)
            await client.made(CONFIG_MAPS, config_map("a"))

        assert [event["type"] for event in await events.rest()] == ["ADDED"]
