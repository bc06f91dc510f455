"""Export over the network: a collector that takes, one that is away, one that hangs."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import unused_port

from stromboli.runtime.telemetry import Telemetry, job_context
from stromboli.testkit.waiting import eventually

UID = "5f0c9b6e-3d5a-4c1e-9a57-0d8f1e2a3b4c"


@pytest.fixture
def quick_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")


@pytest.fixture
def export_to(monkeypatch: pytest.MonkeyPatch, quick_batches: None) -> Any:
    """Start telemetry that exports to this port, configured as an operator would."""

    def start(port: int) -> Telemetry:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        return Telemetry.start("test")

    return start


@pytest.fixture
async def collector() -> AsyncIterator[tuple[int, list[bytes]]]:
    """An OTLP collector: its port, and the bodies it has received."""
    received: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        received.append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield int(runner.addresses[0][1]), received
    await runner.cleanup()


def make_spans(telemetry: Telemetry, count: int = 1) -> None:
    for _ in range(count):
        telemetry.tracer().start_span("bind", context=job_context(UID)).end()


async def test_a_collector_receives_the_spans(collector: tuple[int, list[bytes]], export_to: Any):
    port, received = collector
    telemetry = export_to(port)

    make_spans(telemetry)

    body = await eventually(lambda: received[0] if received else None, describe="a batch")
    assert bytes.fromhex(UID.replace("-", "")) in body
    assert b"stromboli-test" in body
    assert await telemetry.shutdown()


async def test_what_is_left_is_sent_at_the_end(
    collector: tuple[int, list[bytes]], export_to: Any, monkeypatch: pytest.MonkeyPatch
):
    port, received = collector
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    telemetry = export_to(port)
    make_spans(telemetry)

    assert await telemetry.shutdown(deadline_s=5)
    assert len(received) == 1


async def test_a_collector_that_is_away_neither_blocks_nor_chatters(
    export_to: Any, caplog: pytest.LogCaptureFixture
):
    telemetry = export_to(unused_port())
    caplog.set_level(logging.DEBUG)

    with structlog.testing.capture_logs() as lines:
        slowest = 0.0
        for _ in range(50):
            before = time.perf_counter()
            make_spans(telemetry, 20)
            slowest = max(slowest, time.perf_counter() - before)
            await asyncio.sleep(0.002)
        before = time.perf_counter()
        in_time = await telemetry.shutdown(deadline_s=1.0)
        took = time.perf_counter() - before

    assert slowest < 0.1, "making spans waited for the collector"
    assert not in_time
    assert took < 2.0
    assert len(lines) <= 2, lines
    chatter = [
        record
        for record in caplog.records
        if record.name.startswith("opentelemetry") and record.levelno >= logging.WARNING
    ]
    assert chatter == []


async def test_an_idle_service_with_its_collector_away_says_nothing_and_ends_at_once(
    export_to: Any, caplog: pytest.LogCaptureFixture
):
    telemetry = export_to(unused_port())
    with structlog.testing.capture_logs() as lines:
        assert await telemetry.shutdown(deadline_s=1.0)

    assert lines == []
    assert caplog.records == []


async def test_a_collector_that_never_answers_does_not_delay_the_end(export_to: Any):
    connections: list[asyncio.StreamWriter] = []
    ended: list[asyncio.StreamWriter] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while await reader.read(65536):
            pass
        writer.close()
        ended.append(writer)

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    telemetry = export_to(server.sockets[0].getsockname()[1])
    make_spans(telemetry)
    await eventually(lambda: connections, describe="the exporter to connect")

    before = time.perf_counter()
    assert not await telemetry.shutdown(deadline_s=0.5)

    assert time.perf_counter() - before < 1.5
    for writer in connections:
        writer.write_eof()  # the exporter's thread, which nobody waits for, hangs up as well
    await eventually(lambda: len(ended) == len(connections), describe="the exporter to hang up")
    server.close()
    await server.wait_closed()


async def test_a_disabled_sdk_traces_nothing(monkeypatch: pytest.MonkeyPatch, export_to: Any):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    telemetry = export_to(unused_port())

    assert not telemetry.is_tracing
    assert await telemetry.shutdown()


async def test_none_wins_over_an_endpoint(monkeypatch: pytest.MonkeyPatch, export_to: Any):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    telemetry = export_to(unused_port())

    assert not telemetry.is_tracing
    assert await telemetry.shutdown()
