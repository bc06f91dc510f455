"""What the client makes of servers and networks that misbehave; each is a real socket."""

import asyncio
import random
import re
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import pytest

from stromboli.kube import (
    Changed,
    Interrupted,
    KubeAccess,
    KubeClient,
    Limits,
    ListDone,
    ListReason,
    ListStarted,
    PatchType,
    Reflector,
    ReflectorSettings,
    Resource,
)
from stromboli.kube import client as client_module
from stromboli.kube.errors import (
    ApiError,
    DeadlineExceeded,
    Gone,
    TooLarge,
    TooManyRequests,
    Undecodable,
    Unreachable,
)
from stromboli.testkit.scripted_server import chunked, serving, whole

THINGS = Resource("example.com", "v1", "things", namespaced=True)
EMPTY_LIST = b'{"metadata":{"resourceVersion":"5"},"items":[]}'


def event(kind: str, version: int) -> bytes:
    return (
        b'{"type":"%b","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"%d"}}}\n'
        % (kind.encode(), version)
    )


def error_event(code: int, reason: str) -> bytes:
    return (
        b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"%b",'
        b'"code":%d,"message":"no"}}\n' % (reason.encode(), code)
    )


async def create(kube: KubeClient) -> None:
    await kube.create(THINGS, "n", {"metadata": {"name": "a"}}, field_manager="test")


async def test_a_server_that_never_answers_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    async def silent(_: str, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(tmp_path, silent, timeout_s=0.2) as kube:
        with pytest.raises(DeadlineExceeded) as reading:
            await kube.get(THINGS, "n", "a")
        with pytest.raises(DeadlineExceeded) as writing:
            await create(kube)

    assert reading.value.retryable
    assert not reading.value.maybe_applied
    assert writing.value.maybe_applied


async def test_a_body_that_never_ends_counts_against_the_deadline(tmp_path: Path) -> None:
    async def stalling(_: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"half":')
        await reader.read()

    async with serving(tmp_path, stalling, timeout_s=0.2) as kube:
        with pytest.raises(DeadlineExceeded):
            await kube.get(THINGS, "n", "a")


async def test_where_nobody_listens_nothing_can_have_been_applied(tmp_path: Path) -> None:
    async def never(_: str, __: asyncio.StreamReader, ___: asyncio.StreamWriter) -> None:
        raise AssertionError

    async with serving(tmp_path, never) as kube:
        pass
    access = KubeAccess(kubeconfig=str(tmp_path / "kubeconfig.yaml"))
    async with KubeClient.connect(access) as kube:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1") as caught:
            await create(kube)

    assert caught.value.retryable
    assert not caught.value.maybe_applied


async def test_a_connection_cut_after_a_write_was_sent_leaves_it_open_what_happened(
    tmp_path: Path,
) -> None:
    async def cutting(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with serving(tmp_path, cutting) as kube:
        with pytest.raises(Unreachable) as writing:
            await create(kube)
        with pytest.raises(Unreachable) as reading:
            await kube.get(THINGS, "n", "a")

    assert writing.value.maybe_applied
    assert not reading.value.maybe_applied


async def test_an_answer_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    async def endless(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()

    async with serving(tmp_path, endless, limits=Limits(max_object_bytes=1_000_000)) as kube:
        with pytest.raises(TooLarge, match="max_object_bytes"):
            await kube.get(THINGS, "n", "a")


async def test_an_answer_that_announces_too_much_is_not_read_at_all(tmp_path: Path) -> None:
    async def boasting(_: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 201 OK\r\nContent-Length: 99999999999\r\n\r\n")
        await reader.read()

    async with serving(tmp_path, boasting) as kube:
        with pytest.raises(TooLarge) as caught:
            await create(kube)

    assert caught.value.maybe_applied


async def test_an_answer_that_is_no_object_is_undecodable(tmp_path: Path) -> None:
    async def page(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(b"<html>welcome to this hotel's network</html>"))

    async with serving(tmp_path, page) as kube:
        with pytest.raises(Undecodable) as writing:
            await create(kube)
        with pytest.raises(Undecodable):
            await anext(kube.list_pages(THINGS))
        with pytest.raises(Undecodable):
            await kube.server_version()

    assert writing.value.maybe_applied


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    """It would send our credentials to wherever it points."""
    paths: list[str] = []

    async def moving(head: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        paths.append(head.split()[1])
        writer.write(whole(b"", code=302, headers=["Location: /elsewhere"]))

    async with serving(tmp_path, moving) as kube:
        with pytest.raises(ApiError) as caught:
            await kube.get(THINGS, "n", "a")

    assert caught.value.code == 302
    assert paths == ["/apis/example.com/v1/namespaces/n/things/a"]


async def test_a_busy_server_says_when_to_come_back(tmp_path: Path) -> None:
    async def busy(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(b"too many requests", code=429, headers=["Retry-After: 7"]))

    async with serving(tmp_path, busy) as kube:
        with pytest.raises(TooManyRequests) as caught:
            await create(kube)

    assert caught.value.retry_after_s == 7
    assert not caught.value.maybe_applied


async def test_no_more_requests_are_sent_at_once_than_allowed(tmp_path: Path) -> None:
    now = most = 0

    async def counting(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        writer.write(whole(b"{}"))

    async with (
        serving(tmp_path, counting, limits=Limits(max_in_flight=3)) as kube,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(20):
            group.create_task(kube.get(THINGS, "n", "a"))

    assert most == 3


async def test_a_call_that_waited_for_its_turn_in_vain_was_never_sent(tmp_path: Path) -> None:
    requests = 0

    async def slow(_: str, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        await reader.read()

    async with (
        serving(tmp_path, slow, limits=Limits(max_in_flight=1), timeout_s=1) as kube,
        asyncio.TaskGroup() as group,
    ):

        async def first() -> None:
            with pytest.raises(DeadlineExceeded):
                await create(kube)

        group.create_task(first())
        await asyncio.sleep(0)
        with pytest.raises(DeadlineExceeded, match="waited for its turn") as caught:
            await kube.patch(
                THINGS,
                "n",
                "a",
                {},
                patch_type=PatchType.MERGE,
                field_manager="t",
                timeout_s=0.1,
            )

    assert not caught.value.maybe_applied
    assert requests == 1


async def test_requests_per_second_are_limited(tmp_path: Path) -> None:
    async def quick(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(b"{}"))

    loop = asyncio.get_running_loop()
    async with serving(tmp_path, quick, limits=Limits(per_second=50, burst=5)) as kube:
        start = loop.time()
        async with asyncio.TaskGroup() as group:
            for _ in range(15):
                group.create_task(kube.get(THINGS, "n", "a"))
        took = loop.time() - start

    assert took >= 10 / 50 - 0.01


async def test_the_events_before_an_error_are_delivered_first(tmp_path: Path) -> None:
    async def failing(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            chunked(event("ADDED", 6) + event("MODIFIED", 7) + error_event(410, "Expired"))
        )

    async with (
        serving(tmp_path, failing) as kube,
        kube.watch(THINGS, resource_version="5") as watch,
    ):
        events = await watch.read()
        with pytest.raises(Gone):
            await watch.read()

    assert [each.resource_version for each in events] == ["6", "7"]


async def test_a_watch_cut_in_the_middle_of_an_event_delivers_the_whole_ones(
    tmp_path: Path,
) -> None:
    async def cutting(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(event("ADDED", 6), event("ADDED", 7)[:20]))

    async with (
        serving(tmp_path, cutting) as kube,
        kube.watch(THINGS, resource_version="5") as watch,
    ):
        events = await watch.read()
        with pytest.raises(Unreachable, match="middle of an event"):
            await watch.read()

    assert [each.resource_version for each in events] == ["6"]


async def test_a_line_without_end_is_refused_and_named(tmp_path: Path) -> None:
    async def endless(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(b'{"type":"ADDED","object":{"metadata":{"name":"huge"', end=False))
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()

    async with (
        serving(tmp_path, endless, limits=Limits(max_object_bytes=300_000)) as kube,
        kube.watch(THINGS, resource_version="5") as watch,
    ):
        with pytest.raises(TooLarge, match="huge"):
            await watch.read()


async def test_a_line_that_is_no_event_is_undecodable(tmp_path: Path) -> None:
    async def babbling(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(event("ADDED", 6) + b"hello\n"))

    async with (
        serving(tmp_path, babbling) as kube,
        kube.watch(THINGS, resource_version="5") as watch,
    ):
        assert len(await watch.read()) == 1
        with pytest.raises(Undecodable):
            await watch.read()


async def test_a_watch_that_goes_on_after_its_end_is_hung_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen server keeps its connections open for ever."""

    async def frozen(_: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(event("ADDED", 6), end=False))
        await reader.read()

    monkeypatch.setattr(client_module, "WATCH_GRACE_S", 0.1)
    async with (
        serving(tmp_path, frozen) as kube,
        kube.watch(THINGS, resource_version="5", timeout_s=0.1) as watch,
    ):
        assert len(await watch.read()) == 1
        with pytest.raises(Unreachable, match="after its end"):
            await watch.read()


def quick_reflector(kube: KubeClient, resume_from: str | None = None) -> Reflector:
    return Reflector(
        kube,
        THINGS,
        rng=random.Random(3),
        settings=ReflectorSettings(first_retry_s=0.01, max_retry_s=0.2),
        resume_from=resume_from,
    )


async def test_watches_that_end_at_once_are_tried_with_growing_pauses(tmp_path: Path) -> None:
    async def closing(head: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked() if "watch=true" in head else whole(EMPTY_LIST))

    pauses: list[float] = []
    async with (
        serving(tmp_path, closing) as kube,
        aclosing(quick_reflector(kube).changes()) as changes,
    ):
        async for change in changes:
            if isinstance(change, Interrupted):
                pauses.append(change.retry_in_s)
                if len(pauses) == 6:
                    break

    assert all(later > earlier / 2 for earlier, later in pairwise(pauses))
    assert pauses[-1] > 5 * pauses[0]
    assert max(pauses) <= 0.2


async def test_a_watch_resumes_after_the_last_event_it_brought(tmp_path: Path) -> None:
    versions: list[str] = []

    async def stuttering(head: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "watch=true" not in head:
            writer.write(whole(EMPTY_LIST))
            return
        found = re.search(r"resourceVersion=(\d+)", head)
        assert found is not None
        version = found[1]
        versions.append(version)
        writer.write(chunked(event("MODIFIED", int(version) + 1), end=False))
        await writer.drain()
        writer.transport.abort()

    seen: list[str] = []
    async with (
        serving(tmp_path, stuttering) as kube,
        aclosing(quick_reflector(kube).changes()) as changes,
    ):
        async for change in changes:
            if isinstance(change, Changed):
                seen.append(change.event.resource_version)
                if len(seen) == 5:
                    break

    assert versions == ["5", "6", "7", "8", "9"]
    assert seen == ["6", "7", "8", "9", "10"]


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        (b'{"code":500,"message":"resourceVersion: Invalid value"}', 500, ListReason.STUCK),
        (
            b'{"code":504,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}',
            504,
            ListReason.EXPIRED,
        ),
        (b'{"code":400,"reason":"BadRequest"}', 400, ListReason.EXPIRED),
        (b'{"code":410,"reason":"Expired"}', 410, ListReason.EXPIRED),
    ],
)
async def test_a_version_that_the_server_can_not_watch_from_leads_to_a_list(
    tmp_path: Path, body: bytes, code: int, reason: ListReason
) -> None:
    async def refusing(head: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(body, code=code) if "watch=true" in head else whole(EMPTY_LIST))

    started: ListStarted | None = None
    async with (
        serving(tmp_path, refusing) as kube,
        aclosing(quick_reflector(kube, resume_from="999").changes()) as changes,
    ):
        async for change in changes:
            if isinstance(change, ListStarted):
                started = change
            if isinstance(change, ListDone):
                break

    assert started is not None
    assert started.reason is reason
