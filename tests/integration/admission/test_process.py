"""The process itself: ready only when it serves, unhurt by anybody, ended without losing anyone."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from stromboli.testkit.admissions import AdmissionProcess
from stromboli.testkit.api_server import write_kubeconfig
from stromboli.testkit.certificates import Authority
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.timeout(120)

JSON = {"Content-Type": "application/json"}
REVIEW = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",'
    b'"operation":"CREATE","namespace":"default","object":{"spec":{"tasks":[]}}}}'
)


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[AdmissionProcess]:
    """An admission that has nothing: no NATS, no API server, and no certificate yet."""
    authority = Authority(tmp_path / "authority")
    write_kubeconfig(
        tmp_path / "kubeconfig", url="https://127.0.0.1:1", authority=authority.certificate
    )
    async with AdmissionProcess(
        tmp_path / "admission",
        nats_url="nats://127.0.0.1:1",
        kubeconfig=tmp_path / "kubeconfig",
        certificates=tmp_path / "served",
        env={
            "STROMBOLI_ADMISSION_HTTPS__PATIENCE": "500ms",
            "STROMBOLI_ADMISSION_HTTPS__GRACE": "8s",
        },
    ) as process:
        yield process


def give_certificate(tmp_path: Path, name: str = "tls") -> ssl.SSLContext:
    authority = Authority(tmp_path / "served")
    authority.server(name)
    return ssl.create_default_context(cafile=authority.certificate)


async def readiness(process: AdmissionProcess) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{await process.health_url(40)}/readyz?verbose") as answer,
    ):
        return answer.status, await answer.text()


async def test_it_is_not_ready_without_a_certificate_and_says_so(alone: AdmissionProcess):
    status, text = await readiness(alone)

    assert status == 503
    assert "[-] certificate: there is no usable certificate" in text
    assert "[-] state: the cluster's state has not been read yet" in text


async def test_with_a_certificate_it_answers_even_before_it_can_judge(
    alone: AdmissionProcess, tmp_path: Path
):
    context = give_certificate(tmp_path)
    url = await alone.https_url()
    async with (
        aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.post("/jobs/mutate", data=REVIEW, headers=JSON) as answer,
    ):
        assert answer.status == 200
    status, text = await readiness(alone)

    assert status == 503
    assert "[+] certificate: until" in text
    assert "[-] state" in text


async def test_no_client_makes_it_log_an_exception_or_grow(alone: AdmissionProcess, tmp_path: Path):
    """On the loop that it really runs on, whose TLS is not asyncio's own."""
    context = give_certificate(tmp_path)
    url = await alone.https_url()
    port = int(url.rpartition(":")[2])
    for _ in range(3):
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01", os.urandom(3000), b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with contextlib.suppress(OSError):
                async with asyncio.timeout(10):
                    await reader.read()
            writer.transport.abort()
        for sent in (b"\x00" * 100, b"POST /jobs/mutate HTTP/1.1\r\nContent-Length: 9\r\n\r\n1"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(sent)
            with contextlib.suppress(OSError):
                async with asyncio.timeout(10):
                    await reader.read()
            writer.transport.abort()
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        for body in (os.urandom(200_000), b"[" * 200_000, b"{}", REVIEW):
            async with session.post("/jobs/validate", data=body, headers=JSON) as answer:
                assert answer.status in {200, 400}

    logged = alone.log_text()
    assert alone.running
    assert "Traceback" not in logged
    assert not [event for event in alone.events() if event["level"] in {"error", "critical"}]


async def test_who_asks_until_it_is_not_ready_is_never_refused(
    alone: AdmissionProcess, tmp_path: Path
):
    """As API servers do: they keep connections, and hear of its end some time after it began."""
    context = give_certificate(tmp_path)
    url = await alone.https_url()
    statuses: list[int] = []
    has_end_begun = asyncio.Event()

    async def ask(session: aiohttp.ClientSession) -> None:
        for _ in range(10):
            async with session.post("/jobs/mutate", data=REVIEW, headers=JSON) as answer:
                await answer.read()
                statuses.append(answer.status)

    async def ask_until_not_ready(session: aiohttp.ClientSession) -> None:
        while not has_end_begun.is_set():
            await ask(session)
        await ask(session)

    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        aiohttp.ClientSession(url, connector=connector) as session,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(4):
            group.create_task(ask_until_not_ready(session))
        await eventually(lambda: len(statuses) > 20, deadline_s=30)
        ended = group.create_task(alone.terminate(60))

        async def is_told_to_go() -> bool:
            status, text = await readiness(alone)
            return status == 503 and "[-] process: about to end" in text

        await eventually(is_told_to_go, deadline_s=30)
        has_end_begun.set()

    assert await ended == 0
    assert set(statuses) == {200}
