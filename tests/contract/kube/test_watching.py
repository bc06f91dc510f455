"""Watches: every change after a version, once and in order, selected, resumable."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from stromboli.api.kinds import CONFIG_MAP, LEASE, POD, QUEUE, VC_POD_GROUP
from stromboli.kube import EventType, KubeClient, PatchType, Watch, WatchEvent
from stromboli.kube.errors import ApiError, Gone, Unreachable
from stromboli.kube.paths import ResourceKind, resource_path
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.manifests import (
    config_map,
    decoded,
    lease,
    pod,
    pod_group,
    queue,
    unique,
)

ME = "contract"


async def now(kube: KubeClient, kind: ResourceKind, namespace: str | None) -> str:
    """The version of a list taken now."""
    return (await anext(kube.list_pages(kind, namespace=namespace, limit=1))).resource_version


class Reader:
    """Takes a watch's events one by one, with a deadline."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._events: list[WatchEvent] = []

    async def next(self, *, bookmarks: bool = False) -> WatchEvent:
        async with asyncio.timeout(15):
            while True:
                while not self._events:
                    self._events = await self._watch.read()
                    assert self._events, "the watch ended"
                event = self._events.pop(0)
                if bookmarks or event.type is not EventType.BOOKMARK:
                    return event

    async def take(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event.type.value, event.name) for event in events]


@asynccontextmanager
async def watching(
    kube: KubeClient, kind: ResourceKind, namespace: str | None, version: str, **how: str
) -> AsyncGenerator[Reader, None]:
    async with kube.watch(
        kind, resource_version=version, namespace=namespace, timeout_s=30, **how
    ) as watch:
        yield Reader(watch)


async def label(kube: KubeClient, namespace: str, name: str, value: str | None) -> None:
    await kube.patch(
        CONFIG_MAP,
        namespace,
        name,
        {"metadata": {"labels": {"app": value}}},
        patch_type=PatchType.MERGE,
        field_manager=ME,
    )


async def test_every_change_after_the_version_is_seen_in_order(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("before"), field_manager=ME)
    version = await now(kube, CONFIG_MAP, namespace)
    async with watching(kube, CONFIG_MAP, namespace, version) as reader:
        created = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
        await label(kube, namespace, "a", "x")
        await kube.delete(CONFIG_MAP, namespace, "a")
        events = [await reader.next() for _ in range(3)]

    assert [event.type for event in events] == [
        EventType.ADDED,
        EventType.MODIFIED,
        EventType.DELETED,
    ]
    assert {(event.name, event.namespace, event.uid) for event in events} == {
        ("a", namespace, created.uid)
    }
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] == int(created.resource_version)


async def test_events_carry_the_whole_object_with_its_kind(
    kube: KubeClient, namespace: str
) -> None:
    for kind, body, api_version in (
        (CONFIG_MAP, config_map("a", {"x": "1"}), "v1"),
        (VC_POD_GROUP, pod_group("a"), "scheduling.volcano.sh/v1beta1"),
    ):
        version = await now(kube, kind, namespace)
        written = await kube.create(kind, namespace, body, field_manager=ME)
        async with watching(kube, kind, namespace, version) as reader:
            event = await reader.next()

        assert decoded(event.object) == decoded(written.raw)
        assert decoded(event.object)["apiVersion"] == api_version


async def test_a_watch_can_resume_after_any_version_it_has_seen(
    kube: KubeClient, namespace: str
) -> None:
    version = await now(kube, CONFIG_MAP, namespace)
    for name in ("a", "b", "c"):
        await kube.create(CONFIG_MAP, namespace, config_map(name), field_manager=ME)
    async with watching(kube, CONFIG_MAP, namespace, version) as reader:
        first = await reader.next()
    async with watching(kube, CONFIG_MAP, namespace, first.resource_version) as reader:
        rest = await reader.take(2)

    assert first.name == "a"
    assert rest == [("ADDED", "b"), ("ADDED", "c")]


async def test_a_version_of_another_kind_is_a_place_to_watch_from(
    kube: KubeClient, namespace: str
) -> None:
    """Versions count the changes of the whole server."""
    other = await kube.create(VC_POD_GROUP, namespace, pod_group("g"), field_manager=ME)
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    async with watching(kube, CONFIG_MAP, namespace, other.resource_version) as reader:
        assert await reader.take(1) == [("ADDED", "a")]


async def test_the_last_state_comes_with_the_deletion(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(
        CONFIG_MAP, namespace, config_map("a", {"x": "1"}, labels={"app": "x"}), field_manager=ME
    )
    await kube.delete(CONFIG_MAP, namespace, "a")
    async with watching(kube, CONFIG_MAP, namespace, written.resource_version) as reader:
        event = await reader.next()

    last = decoded(event.object)
    assert event.type is EventType.DELETED
    assert int(event.resource_version) > int(written.resource_version)
    assert (last["data"], last["metadata"]["labels"]) == ({"x": "1"}, {"app": "x"})


async def test_a_deletion_and_a_new_object_of_that_name_are_two_events(
    kube: KubeClient, namespace: str
) -> None:
    version = await now(kube, CONFIG_MAP, namespace)
    first = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    await kube.delete(CONFIG_MAP, namespace, "a")
    second = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    async with watching(kube, CONFIG_MAP, namespace, version) as reader:
        events = [await reader.next() for _ in range(3)]

    assert [(event.type.value, event.uid) for event in events] == [
        ("ADDED", first.uid),
        ("DELETED", first.uid),
        ("ADDED", second.uid),
    ]


async def test_an_object_that_enters_or_leaves_the_selection_is_added_or_deleted(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    version = await now(kube, CONFIG_MAP, namespace)
    async with watching(kube, CONFIG_MAP, namespace, version, label_selector="app=x") as reader:
        await label(kube, namespace, "a", "x")
        await kube.patch(
            CONFIG_MAP,
            namespace,
            "a",
            {"data": {"k": "v"}},
            patch_type=PatchType.MERGE,
            field_manager=ME,
        )
        await label(kube, namespace, "a", "y")
        await label(kube, namespace, "a", "z")
        await label(kube, namespace, "a", "x")
        await kube.delete(CONFIG_MAP, namespace, "a")
        events = [await reader.next() for _ in range(5)]

    assert [event.type.value for event in events] == [
        "ADDED",
        "MODIFIED",
        "DELETED",
        "ADDED",
        "DELETED",
    ]
    left = decoded(events[2].object)
    # As it was when it was still selected, but with the version of the change.
    assert left["metadata"]["labels"] == {"app": "x"}
    assert int(events[2].resource_version) > int(events[1].resource_version)


async def test_a_binding_moves_a_pod_between_selections_by_node(
    kube: KubeClient, namespace: str
) -> None:
    version = await now(kube, POD, namespace)
    async with (
        watching(kube, POD, namespace, version, field_selector="spec.nodeName=") as unbound,
        watching(kube, POD, namespace, version, field_selector="spec.nodeName=n1") as on_node,
    ):
        written = await kube.create(POD, namespace, pod("a"), field_manager=ME)
        await kube.bind(namespace, "a", uid=written.uid, node="n1")

        assert await unbound.take(2) == [("ADDED", "a"), ("DELETED", "a")]
        assert await on_node.take(1) == [("ADDED", "a")]


async def test_a_graceful_deletion_is_first_a_change_and_then_the_end(
    kube: KubeClient, namespace: str
) -> None:
    version = await now(kube, POD, namespace)
    async with watching(kube, POD, namespace, version) as reader:
        await kube.create(POD, namespace, pod("a", node="n1"), field_manager=ME)
        await kube.delete(POD, namespace, "a")
        await kube.delete(POD, namespace, "a", grace_period_s=0)

        assert (await reader.next()).type is EventType.ADDED
        marked = await reader.next()
        assert marked.type is EventType.MODIFIED
        assert decoded(marked.object)["metadata"]["deletionGracePeriodSeconds"] == 30
        # kube-apiserver may report the shortened grace period before the end.
        while (event := await reader.next()).type is EventType.MODIFIED:
            assert decoded(event.object)["metadata"]["deletionGracePeriodSeconds"] == 0
        assert event.type is EventType.DELETED


async def test_a_patch_that_changes_nothing_makes_no_event(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a", labels={"app": "x"}), field_manager=ME)
    version = await now(kube, CONFIG_MAP, namespace)
    async with watching(kube, CONFIG_MAP, namespace, version) as reader:
        await label(kube, namespace, "a", "x")
        await kube.create(CONFIG_MAP, namespace, config_map("b"), field_manager=ME)

        assert await reader.take(1) == [("ADDED", "b")]


async def test_a_dry_run_makes_no_event(kube: KubeClient, namespace: str) -> None:
    version = await now(kube, CONFIG_MAP, namespace)
    async with watching(kube, CONFIG_MAP, namespace, version) as reader:
        await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME, dry_run=True)
        await kube.create(CONFIG_MAP, namespace, config_map("b"), field_manager=ME)

        assert await reader.take(1) == [("ADDED", "b")]


async def test_a_watch_of_one_namespace_sees_no_other(kube: KubeClient, namespace: str) -> None:
    version = await now(kube, CONFIG_MAP, namespace)
    async with watching(kube, CONFIG_MAP, namespace, version) as reader:
        await kube.create(CONFIG_MAP, "default", config_map(unique("a")), field_manager=ME)
        await kube.create(CONFIG_MAP, namespace, config_map("b"), field_manager=ME)

        assert await reader.take(1) == [("ADDED", "b")]


async def test_objects_without_a_namespace_are_watched(kube: KubeClient) -> None:
    name = unique("queue")
    version = await now(kube, QUEUE, None)
    async with watching(
        kube, QUEUE, None, version, field_selector=f"metadata.name={name}"
    ) as reader:
        await kube.create(QUEUE, None, queue(unique("other")), field_manager=ME)
        await kube.create(QUEUE, None, queue(name), field_manager=ME)

        assert await reader.take(1) == [("ADDED", name)]


@pytest.mark.parametrize("version", ["0", ""])
async def test_a_watch_from_nowhere_begins_with_what_is_there(
    kube: KubeClient, namespace: str, version: str
) -> None:
    for name in ("a", "b"):
        await kube.create(CONFIG_MAP, namespace, config_map(name), field_manager=ME)
    await now(kube, CONFIG_MAP, namespace)
    async with watching(kube, CONFIG_MAP, namespace, version) as reader:
        assert sorted(await reader.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await kube.create(CONFIG_MAP, namespace, config_map("c"), field_manager=ME)
        assert await reader.take(1) == [("ADDED", "c")]


async def test_a_version_that_is_no_number_is_refused(kube: KubeClient, namespace: str) -> None:
    """kube-apiserver says 500 where it means 400; the message is what both have."""
    with pytest.raises(ApiError) as caught:
        async with watching(kube, CONFIG_MAP, namespace, "nonsense") as reader:
            await reader.next()

    assert 'resourceVersion: Invalid value: "nonsense"' in caught.value.message


async def test_a_watch_ends_by_itself_and_leaves_a_bookmark_if_asked(
    kube: KubeClient, namespace: str
) -> None:
    """Bookmarks let a watch resume although nothing it selects has changed for long.

    kube-apiserver sends one only if anything of the kind has changed since the watch began.
    """
    version = await now(kube, CONFIG_MAP, namespace)
    bookmarks: list[str] = []
    begun = asyncio.Event()

    async def read_bookmarks() -> None:
        async with kube.watch(
            CONFIG_MAP, resource_version=version, namespace=namespace, timeout_s=4
        ) as watch:
            begun.set()
            async for event in watch:
                assert event.type is EventType.BOOKMARK
                bookmarks.append(event.resource_version)

    async with asyncio.timeout(15), asyncio.TaskGroup() as group:
        group.create_task(read_bookmarks())
        not_asked = group.create_task(
            kube.transport.exchange(
                "GET",
                resource_path(CONFIG_MAP, namespace),
                query={"watch": "true", "resourceVersion": version, "timeoutSeconds": "4"},
            )
        )
        await begun.wait()
        other = await kube.create(
            CONFIG_MAP, "default", config_map(unique("elsewhere")), field_manager=ME
        )

    assert bookmarks
    assert int(bookmarks[-1]) >= int(other.resource_version)
    assert (not_asked.result().code, not_asked.result().body) == (200, b"")


async def test_a_forgotten_version_is_gone_for_watches_and_pages(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    for name in ("a", "b", "c"):
        await kube.create(LEASE, namespace, lease(name), field_manager=ME)
    pages = kube.list_pages(LEASE, namespace=namespace, limit=1)
    old = (await anext(pages)).resource_version
    await kube.create(LEASE, namespace, lease("d"), field_manager=ME)
    await api_server.forget_history()

    with pytest.raises(Gone) as caught:
        async with watching(kube, LEASE, namespace, old) as reader:
            await reader.next()
    assert caught.value.code == 410
    assert caught.value.reason in {"Expired", "Gone"}

    with pytest.raises(Gone) as caught:
        await anext(pages)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")

    # What is there now is not forgotten, and can be watched from.
    listed = await anext(kube.list_pages(LEASE, namespace=namespace))
    assert len(listed.items) == 4
    async with watching(kube, LEASE, namespace, listed.resource_version) as reader:
        await kube.delete(LEASE, namespace, "a")
        assert await reader.take(1) == [("DELETED", "a")]


async def test_a_watch_survives_its_server_by_resuming(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    await kube.create(LEASE, namespace, lease("a"), field_manager=ME)
    version = await now(kube, LEASE, namespace)
    async with watching(kube, LEASE, namespace, version) as reader:
        api_server.kill()
        with pytest.raises(Unreachable):
            await reader.next()
    await api_server.start()
    await kube.create(LEASE, namespace, lease("b"), field_manager=ME)
    async with watching(kube, LEASE, namespace, version) as reader:
        assert await reader.take(1) == [("ADDED", "b")]


async def test_large_objects_pass_through_a_watch(kube: KubeClient, namespace: str) -> None:
    """Longer than the line limits of stream readers, shorter than what Kubernetes stores."""
    version = await now(kube, CONFIG_MAP, namespace)
    async with watching(kube, CONFIG_MAP, namespace, version) as reader:
        big = "x" * 900_000
        await kube.create(CONFIG_MAP, namespace, config_map("big", {"k": big}), field_manager=ME)
        event = await reader.next()

    assert decoded(event.object)["data"]["k"] == big
