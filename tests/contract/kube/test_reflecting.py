"""The reflector, on both servers: nothing lost, nothing reported as complete that is not."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest

from stromboli.api.kinds import CONFIG_MAP, LEASE
from stromboli.kube import (
    Bookmark,
    Change,
    Changed,
    Interrupted,
    KubeClient,
    Limits,
    ListAbandoned,
    ListDone,
    ListPage,
    ListReason,
    ListStarted,
    PatchType,
    Reflector,
    ReflectorSettings,
    Resource,
)
from stromboli.kube.errors import Gone, NotFound, TooLarge
from stromboli.kube.paths import ResourceKind
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.manifests import config_map, decoded, lease
from stromboli.testkit.waiting import eventually

ME = "contract"


class Mirror:
    """What a reader of the stream knows; it is compared with the server at the end."""

    def __init__(self, changes: AsyncGenerator[Change, None]) -> None:
        self._changes = changes
        self.objects: dict[str, str] = {}
        self.marks: set[str] = set()
        self.seen: list[Change] = []

    async def until(self, *kinds: type[Change]) -> Change:
        """Read on until a change of one of these kinds has been taken in."""
        async with asyncio.timeout(30):
            while True:
                change = await anext(self._changes)
                self._take(change)
                if isinstance(change, kinds):
                    return change

    async def until_names(self, expected: set[str]) -> None:
        async with asyncio.timeout(30):
            while set(self.objects) != expected:
                self._take(await anext(self._changes))

    def _take(self, change: Change) -> None:
        self.seen.append(change)
        match change:
            case ListStarted():
                self.marks = set()
            case ListPage(items):
                for item in items:
                    meta = decoded(item)["metadata"]
                    self.objects[meta["name"]] = meta["resourceVersion"]
                    self.marks.add(meta["name"])
            case ListDone():
                for name in set(self.objects) - self.marks:
                    del self.objects[name]
            case Changed(event) if event.type == "DELETED":
                self.objects.pop(event.name, None)
            case Changed(event):
                self.objects[event.name] = event.resource_version
            case Bookmark() | Interrupted() | ListAbandoned():
                pass

    def reasons(self) -> list[ListReason]:
        return [change.reason for change in self.seen if isinstance(change, ListStarted)]


@asynccontextmanager
async def mirroring(
    kube: KubeClient,
    kind: ResourceKind,
    *,
    resume_from: str | None = None,
    **settings: str | float,
) -> AsyncGenerator[tuple[Reflector, Mirror], None]:
    reflector = Reflector(
        kube,
        kind,
        rng=random.Random(1),
        settings=ReflectorSettings(first_retry_s=0.05, max_retry_s=0.5, **settings),  # pyright: ignore[reportArgumentType] - checked by msgspec's constructor
        resume_from=resume_from,
    )
    async with aclosing(reflector.changes()) as changes:
        yield reflector, Mirror(changes)


async def create(kube: KubeClient, namespace: str, *names: str) -> None:
    for name in names:
        await kube.create(CONFIG_MAP, namespace, config_map(name), field_manager=ME)


async def test_everything_is_listed_page_by_page_and_then_followed(
    kube: KubeClient, namespace: str
) -> None:
    await create(kube, namespace, *(f"item-{number}" for number in range(7)))
    async with mirroring(kube, CONFIG_MAP, namespace=namespace, page_limit=3) as (
        reflector,
        mirror,
    ):
        done = await mirror.until(ListDone)
        listed = list(mirror.seen)
        await create(kube, namespace, "later")
        await kube.delete(CONFIG_MAP, namespace, "item-0")
        await kube.patch(
            CONFIG_MAP,
            namespace,
            "item-1",
            {"data": {"x": "1"}},
            patch_type=PatchType.MERGE,
            field_manager=ME,
        )
        await mirror.until_names({*(f"item-{number}" for number in range(1, 7)), "later"})
        while (
            decoded(await kube.get(CONFIG_MAP, namespace, "item-1"))["metadata"]["resourceVersion"]
            != mirror.objects["item-1"]
        ):
            await mirror.until(Changed)

    assert isinstance(done, ListDone)
    assert [type(change).__name__ for change in listed] == [
        "ListStarted",
        "ListPage",
        "ListPage",
        "ListPage",
        "ListDone",
    ]
    assert done.count == 7
    assert reflector.health.listed
    assert (reflector.health.lists, reflector.health.interruptions) == (1, 0)
    assert not reflector.health.connected  # it was closed


async def test_a_reflector_resumes_without_a_list(kube: KubeClient, namespace: str) -> None:
    await create(kube, namespace, "a")
    page = await anext(kube.list_pages(CONFIG_MAP, namespace=namespace))
    await create(kube, namespace, "b")
    async with mirroring(
        kube, CONFIG_MAP, namespace=namespace, resume_from=page.resource_version
    ) as (reflector, mirror):
        await mirror.until(Changed)
        assert reflector.health.connected

    assert [type(change) for change in mirror.seen] == [Changed]
    assert set(mirror.objects) == {"b"}


async def test_a_forgotten_version_leads_to_a_new_list(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    await kube.create(LEASE, namespace, lease("a"), field_manager=ME)
    old = (await anext(kube.list_pages(LEASE, namespace=namespace))).resource_version
    await kube.create(LEASE, namespace, lease("b"), field_manager=ME)
    await kube.delete(LEASE, namespace, "a")
    await api_server.forget_history()
    async with mirroring(kube, LEASE, namespace=namespace, resume_from=old) as (_, mirror):
        interrupted = await mirror.until(Interrupted)
        await mirror.until(ListDone)
        await kube.create(LEASE, namespace, lease("c"), field_manager=ME)
        await mirror.until_names({"b", "c"})

    assert isinstance(interrupted, Interrupted)
    assert isinstance(interrupted.error, Gone)
    assert mirror.reasons() == [ListReason.EXPIRED]


async def test_a_reflector_outlives_its_server_and_misses_nothing(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    await create(kube, namespace, "a", "b")
    async with mirroring(kube, CONFIG_MAP, namespace=namespace) as (reflector, mirror):
        await mirror.until(ListDone)
        api_server.kill()
        await mirror.until(Interrupted)
        assert not reflector.health.connected
        # It goes on trying, however long the server stays away.
        await mirror.until(Interrupted)
        await api_server.start()
        await create(kube, namespace, "c")
        await kube.delete(CONFIG_MAP, namespace, "a")
        await mirror.until_names({"b", "c"})

    assert reflector.health.interruptions >= 2


async def test_a_relist_can_be_asked_for_in_the_middle_of_a_quiet_watch(
    kube: KubeClient, namespace: str
) -> None:
    await create(kube, namespace, "a")
    async with mirroring(kube, CONFIG_MAP, namespace=namespace) as (reflector, mirror):
        await mirror.until(ListDone)
        async with asyncio.TaskGroup() as group:
            listing = group.create_task(mirror.until(ListDone))
            await eventually(lambda: reflector.health.connected)
            reflector.request_relist()
            await listing
        await create(kube, namespace, "b")
        await mirror.until_names({"a", "b"})

    assert mirror.reasons() == [ListReason.FIRST, ListReason.REQUESTED]
    assert reflector.health.interruptions == 0


async def test_a_relist_asked_for_during_a_list_is_a_list_of_its_own(
    kube: KubeClient, namespace: str
) -> None:
    """The list under way may show the state before the request."""
    await create(kube, namespace, "a")
    async with mirroring(kube, CONFIG_MAP, namespace=namespace) as (reflector, mirror):
        await mirror.until(ListPage)
        reflector.request_relist()
        await mirror.until(ListDone)
        await mirror.until(ListDone)

    assert mirror.reasons() == [ListReason.FIRST, ListReason.REQUESTED]


async def test_the_timer_relists_although_nothing_went_wrong(
    kube: KubeClient, namespace: str
) -> None:
    await create(kube, namespace, "a")
    async with mirroring(kube, CONFIG_MAP, namespace=namespace, relist_every_s=0.5) as (
        reflector,
        mirror,
    ):
        await mirror.until(ListDone)
        await mirror.until(ListDone)

    assert mirror.reasons() == [ListReason.FIRST, ListReason.TIMER]
    assert reflector.health.interruptions == 0


async def test_a_watch_that_ended_normally_is_followed_by_the_next(
    kube: KubeClient, namespace: str
) -> None:
    async with mirroring(kube, CONFIG_MAP, namespace=namespace, watch_timeout_s=2) as (
        reflector,
        mirror,
    ):
        await mirror.until(ListDone)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(mirror.until(Changed))
            await eventually(lambda: reflector.health.watches >= 2)
            await create(kube, namespace, "a")
            await reading

    assert set(mirror.objects) == {"a"}
    assert reflector.health.interruptions == 0
    assert mirror.reasons() == [ListReason.FIRST]


async def test_pages_shrink_until_they_fit(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    for number in range(8):
        await kube.create(
            CONFIG_MAP, namespace, config_map(f"item-{number}", {"k": "x" * 5000}), field_manager=ME
        )
    access = api_server.access(limits=Limits(max_page_bytes=15_000))
    async with (
        KubeClient.connect(access) as careful,
        mirroring(careful, CONFIG_MAP, namespace=namespace) as (_, mirror),
    ):
        await mirror.until(ListDone)

    assert set(mirror.objects) == {f"item-{number}" for number in range(8)}
    errors = [change.error for change in mirror.seen if isinstance(change, ListAbandoned)]
    assert errors
    assert all(isinstance(error, TooLarge) for error in errors)


async def test_an_object_too_large_for_the_watch_leads_to_a_list(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    access = api_server.access(limits=Limits(max_object_bytes=10_000))
    async with (
        KubeClient.connect(access) as careful,
        mirroring(careful, CONFIG_MAP, namespace=namespace) as (_, mirror),
    ):
        await mirror.until(ListDone)
        await kube.create(
            CONFIG_MAP, namespace, config_map("big", {"k": "x" * 20_000}), field_manager=ME
        )
        interrupted = await mirror.until(Interrupted)
        await mirror.until(ListDone)
        await create(kube, namespace, "small")
        await mirror.until_names({"big", "small"})

    assert isinstance(interrupted, Interrupted)
    assert isinstance(interrupted.error, TooLarge)
    assert "big" in str(interrupted.error)
    assert mirror.reasons() == [ListReason.FIRST, ListReason.UNREADABLE]


async def test_a_kind_that_is_not_served_is_reported_and_tried_again(
    kube: KubeClient, namespace: str
) -> None:
    missing = Resource("nowhere.example.com", "v1", "things", namespaced=True)
    async with mirroring(kube, missing, namespace=namespace) as (reflector, mirror):
        first = await mirror.until(Interrupted)
        await mirror.until(Interrupted)

    assert isinstance(first, Interrupted)
    assert isinstance(first.error, NotFound)
    assert mirror.reasons() == [ListReason.FIRST, ListReason.AGAIN]
    assert not reflector.health.listed


async def test_a_version_that_is_none_is_refused_at_once(kube: KubeClient) -> None:
    with pytest.raises(ValueError, match="not a resourceVersion"):
        Reflector(kube, CONFIG_MAP, rng=random.Random(0), resume_from="x1")
