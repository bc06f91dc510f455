"""What /livez, /readyz and /metrics answer, and to whom."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from stromboli.runtime.health import Health, HealthServer, HealthSettings, NotReady, Ok
from stromboli.runtime.telemetry import Rendered
from stromboli.runtime.watchdog import Watchdog
from stromboli.testkit.clock import ManualClock


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
async def client(health: Health) -> AsyncIterator[aiohttp.ClientSession]:
    def metrics(accept: str) -> Rendered:
        return Rendered(f"for {accept}\n".encode(), "text/plain; version=0.0.4")

    async with (
        HealthServer(health, HealthSettings(port=0), metrics=metrics) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
    ):
        yield session


async def get(client: aiohttp.ClientSession, path: str, accept: str = "*/*") -> tuple[int, str]:
    async with client.get(path, headers={"Accept": accept}) as response:
        return response.status, await response.text()


async def test_a_service_without_complaints_is_ready(client: aiohttp.ClientSession):
    assert await get(client, "/readyz") == (200, "ok\n")


async def test_one_check_that_fails_makes_it_not_ready_and_tells_why(
    health: Health, client: aiohttp.ClientSession
):
    health.check("bus", lambda: Ok("connected"))
    health.check("state", lambda: NotReady("waiting for the sync of pod"))

    assert await get(client, "/readyz") == (
        503,
        "[+] bus: connected\n[-] state: waiting for the sync of pod\nfailed\n",
    )


async def test_success_is_told_in_full_to_those_who_ask(
    health: Health, client: aiohttp.ClientSession
):
    health.check("bus", Ok)

    assert await get(client, "/readyz?verbose") == (200, "[+] bus: ok\npassed\n")


async def test_machines_get_json(health: Health, client: aiohttp.ClientSession):
    health.check("bus", lambda: NotReady("away"))

    status, body = await get(client, "/readyz", "application/json")

    assert status == 503
    assert body == '{"ok":false,"checks":{"bus":{"ok":false,"reason":"away"}}}'


async def test_a_check_is_asked_again_at_each_request(
    health: Health, client: aiohttp.ClientSession
):
    answers = iter([NotReady("not yet"), Ok()])
    health.check("bus", lambda: next(answers))

    assert [(await get(client, "/readyz"))[0] for _ in range(2)] == [503, 200]


async def test_a_check_that_raises_is_a_reason_and_not_an_error(
    health: Health, client: aiohttp.ClientSession
):
    health.check("bus", lambda: Ok(str(1 // 0)))

    status, body = await get(client, "/readyz")
    assert status == 503
    assert "[-] bus: the check itself failed: ZeroDivisionError" in body


async def test_two_checks_of_one_name_are_refused(health: Health):
    health.check("bus", Ok)

    with pytest.raises(ValueError, match="'bus' already"):
        health.check("bus", Ok)


async def test_not_being_ready_is_no_reason_for_a_restart(
    health: Health, client: aiohttp.ClientSession
):
    health.check("bus", lambda: NotReady("away"))

    assert (await get(client, "/livez"))[0] == 200


async def test_a_silent_loop_is_a_reason_for_a_restart(
    health: Health, client: aiohttp.ClientSession
):
    clock = ManualClock()
    health.watchdog = Watchdog(stalled_after_s=10, clock=clock)
    beating = asyncio.create_task(health.watchdog.run())
    await asyncio.sleep(0)
    await clock.advance(60)
    assert (await get(client, "/livez"))[0] == 200

    beating.cancel()
    await asyncio.wait([beating])
    await clock.advance(11)

    status, body = await get(client, "/livez")
    assert status == 503
    assert "silent for 10.8 s" in body


async def test_a_task_that_must_run_and_has_ended_is_a_reason_for_a_restart(
    health: Health, client: aiohttp.ClientSession
):
    release = asyncio.Event()
    task = asyncio.create_task(release.wait())
    health.must_run("partitions", task)
    assert (await get(client, "/livez?verbose"))[1] == "[+] task partitions: running\npassed\n"

    release.set()
    await task
    assert await get(client, "/livez") == (503, "[-] task partitions: it has ended\nfailed\n")

    health.let_tasks_end()
    assert (await get(client, "/livez"))[0] == 200


async def test_metrics_are_rendered_for_what_the_scraper_accepts(client: aiohttp.ClientSession):
    assert await get(client, "/metrics", "text/plain") == (200, "for text/plain\n")


async def test_the_first_page_lists_the_others(client: aiohttp.ClientSession):
    _, body = await get(client, "/")

    assert [line.split()[0] for line in body.splitlines()] == ["/livez", "/readyz", "/metrics"]


async def test_a_process_without_metrics_says_so(health: Health):
    async with (
        HealthServer(health, HealthSettings(port=0)) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
    ):
        assert (await get(session, "/metrics"))[0] == 404


async def test_a_port_in_use_is_an_error_that_leaves_nothing_behind(health: Health):
    async with HealthServer(health, HealthSettings(port=0)) as first:
        with pytest.raises(OSError, match="address already in use"):
            async with HealthServer(health, HealthSettings(port=first.port)):
                pass


def test_the_port_is_known_only_while_listening(health: Health):
    with pytest.raises(RuntimeError, match="not listening"):
        _ = HealthServer(health, HealthSettings(port=0)).port
