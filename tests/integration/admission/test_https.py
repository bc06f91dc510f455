"""Whatever a client does, it gets an answer or its connection is closed, and nothing is logged."""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stromboli.admission.certificates import ServingCertificate
from stromboli.admission.config import HttpsSettings
from stromboli.admission.https import Answer, Front, Listener, listening
from stromboli.runtime.units import Duration, Size
from stromboli.testkit.certificates import Authority, KeyPair
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

MAX_BODY = 64 * 1024


async def echo(path: str, body: bytes) -> Answer:
    return Answer(200, b'{"path":"%s","size":%d}' % (path.encode(), len(body)))


@dataclass
class Served:
    port: int
    authority: Authority
    certificate: ServingCertificate
    pair: KeyPair
    front: Front
    listener: Listener

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def trusting(self, *authorities: Authority) -> ssl.SSLContext:
        context = ssl.create_default_context()
        for one in authorities or (self.authority,):
            context.load_verify_locations(one.certificate)
        return context

    def session(self, **options: Any) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self.trusting())
        return aiohttp.ClientSession(self.url, connector=connector, **options)

    async def raw(self, sent: bytes) -> bytes:
        """What comes back for these bytes inside TLS, until the server closes."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.trusting(), server_hostname="localhost"
        )
        writer.write(sent)
        try:
            async with asyncio.timeout(10):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(
    folder: Path, review: Callable[[str, bytes], Any] = echo, **settings: Any
) -> AsyncGenerator[Served]:
    authority = Authority(folder / "one")
    pair = authority.server()
    given: dict[str, Any] = {"max_body": Size(MAX_BODY), "patience": Duration(0.5), **settings}
    chosen = HttpsSettings(port=0, certificate=pair.certificate, key=pair.key, **given)
    certificate = ServingCertificate(pair.certificate, pair.key, look_every_s=0.02)
    front = Front(
        chosen,
        ("/jobs/mutate", "/jobs/validate"),
        review,
        {"/healthz": lambda: Answer(200, b"ok\n", "text/plain")},
    )
    async with background(certificate.watch()):
        await certificate.loaded()
        async with listening(front, chosen, certificate.listening_context()) as listener:
            yield Served(listener.port, authority, certificate, pair, front, listener)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncGenerator[Served]:
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_is_logged(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """No input makes an exception or an error in the log: asyncio's, aiohttp's or our own."""
    yield
    theirs = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    ours = [line for line in capsys.readouterr().out.splitlines() if "[error" in line]
    assert (theirs, ours) == ([], [])


JSON = {"Content-Type": "application/json"}


async def test_a_review_is_answered_over_tls_and_the_connection_is_kept(served: Served):
    async with served.session() as session:
        for _ in range(3):
            async with session.post(
                "/jobs/validate?timeout=5s", data=b"{}", headers=JSON
            ) as answer:
                assert answer.status == 200
                assert await answer.json() == {"path": "/jobs/validate", "size": 2}
        assert len(session.connector._conns) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "words"),
    [
        ("GET", "/jobs/validate", {}, b"", 405, "takes POST"),
        ("PUT", "/jobs/validate", JSON, b"{}", 405, "takes POST"),
        ("POST", "/nowhere", JSON, b"{}", 404, "only /jobs/mutate, /jobs/validate"),
        ("GET", "/", {}, b"", 404, "only /jobs/mutate"),
        ("POST", "/jobs/validate", {"Content-Type": "text/plain"}, b"{}", 415, "application/json"),
        ("POST", "/jobs/validate", {"Content-Type": ""}, b"{}", 415, "application/json"),
        ("POST", "/jobs/validate", JSON, b"x" * (MAX_BODY + 1), 413, "the limit is"),
        ("POST", "/jobs/validate", JSON, b"x" * MAX_BODY, 200, str(MAX_BODY)),
        ("GET", "/healthz", {}, b"", 200, "ok"),
    ],
)
async def test_what_is_no_review_is_refused_with_a_sentence(
    served: Served,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    status: int,
    words: str,
):
    async with (
        served.session() as session,
        session.request(method, path, headers=headers, data=body) as answer,
    ):
        assert (answer.status, words in await answer.text()) == (status, True)


async def test_a_body_of_unknown_length_is_cut_off_at_the_limit(served: Served):
    async def endless() -> AsyncGenerator[bytes]:
        while True:
            yield b"x" * 4096
            await asyncio.sleep(0)

    async with served.session() as session:
        try:
            async with session.post("/jobs/validate", data=endless(), headers=JSON) as answer:
                assert answer.status == 413
        except aiohttp.ClientError:
            pass  # still sending when the server hung up

    async with served.session() as session, session.get("/healthz") as answer:
        assert answer.status == 200


POST = b"POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
HOSTILE = {
    "no HTTP": b"\x00\x01\x02 rubbish\r\n\r\n",
    "no HTTP version": b"POST /jobs/validate\r\n\r\n",
    "a header without end": POST + b"X: " + b"x" * 20_000 + b"\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a bad chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a huge length": POST + b"Content-Length: 99999999999\r\n\r\n",
    "a compressed body": POST + b"Content-Encoding: gzip\r\nContent-Length: x\r\n\r\n",
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
async def test_bad_http_is_a_4xx_and_the_end_of_the_connection(served: Served, sent: bytes):
    answer = await served.raw(sent)

    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/0.9 4")), answer[:100]


async def test_a_body_that_does_not_come_is_not_waited_for(served: Served):
    answer = await served.raw(POST + b"Content-Length: 100\r\n\r\nonly this")

    assert answer.startswith(b"HTTP/1.1 408")


async def test_a_client_that_goes_in_the_middle_of_its_body_does_no_harm(tmp_path: Path):
    """And none of the memory that its bytes took stays taken."""
    async with serving(tmp_path, max_bodies=Size(8 * MAX_BODY)) as served:
        for _ in range(20):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", served.port, ssl=served.trusting(), server_hostname="localhost"
            )
            writer.write(POST + b"Content-Length: 60000\r\n\r\n" + b"x" * 50_000)
            await writer.drain()
            writer.transport.abort()
        await eventually(lambda: served.front._held_bytes == 0)
        async with served.session() as session, session.get("/healthz") as answer:
            assert answer.status == 200


async def test_a_header_that_does_not_come_is_not_waited_for(served: Served):
    started = time.monotonic()
    answer = await served.raw(b"POST /jobs/validate HTTP/1.1\r\nHost: ")

    assert answer == b""
    assert time.monotonic() - started < 5


async def test_a_handshake_that_stops_half_way_is_given_up_quietly(served: Served):
    for sent in (b"", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(10):
                await reader.read()
        writer.close()
    async with served.session() as session, session.get("/healthz") as answer:
        assert answer.status == 200


async def test_a_client_that_resets_in_the_middle_of_a_handshake_does_no_harm(served: Served):
    for _ in range(20):
        plain = socket.create_connection(("127.0.0.1", served.port))
        plain.sendall(b"\x16\x03\x01\x02\x00")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        plain.close()
    async with served.session() as session, session.get("/healthz") as answer:
        assert answer.status == 200


async def test_one_connection_too_many_is_closed_and_the_others_are_served(tmp_path: Path):
    async with (
        serving(tmp_path, max_connections=2) as served,
        served.session() as first,
        served.session() as second,
        served.session() as third,
    ):
        for session in (first, second):
            async with session.get("/healthz") as answer:
                assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await third.get("/healthz")
        async with first.get("/healthz") as answer:
            assert answer.status == 200


async def test_a_review_that_gets_no_turn_is_told_to_try_again(tmp_path: Path):
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_path: str, _body: bytes) -> Answer:
        has_begun.set()
        await may_end.wait()
        return Answer(200, b"{}")

    async with serving(tmp_path, slow, max_reviews=1) as served, served.session() as session:
        first = asyncio.create_task(session.post("/jobs/mutate", data=b"{}", headers=JSON))
        await has_begun.wait()
        async with session.post("/jobs/mutate", data=b"{}", headers=JSON) as answer:
            assert answer.status == 503
            assert "try again" in await answer.text()
        may_end.set()
        assert (await first).status == 200


async def test_a_new_certificate_serves_new_connections_and_old_ones_stay_open(
    served: Served, tmp_path: Path
):
    second = Authority(tmp_path / "two", "second")
    async with served.session() as old:
        async with old.get("/healthz") as answer:
            assert answer.status == 200
        before = served.certificate.serial
        renewed = second.server()
        served.pair.key.write_bytes(renewed.key.read_bytes())
        served.pair.certificate.write_bytes(renewed.certificate.read_bytes())
        await eventually(lambda: served.certificate.serial != before)

        async with old.get("/healthz") as answer:
            assert answer.status == 200
        connector = aiohttp.TCPConnector(ssl=served.trusting(second))
        async with (
            aiohttp.ClientSession(served.url, connector=connector) as new,
            new.get("/healthz") as answer,
        ):
            assert answer.status == 200


async def test_a_key_of_another_certificate_never_serves(served: Served, tmp_path: Path):
    other = Authority(tmp_path / "two").server()
    before = served.certificate.serial
    served.pair.key.write_bytes(other.key.read_bytes())
    served.certificate.look()

    assert served.certificate.serial == before
    async with served.session() as session, session.get("/healthz") as answer:
        assert answer.status == 200


async def test_no_request_is_lost_while_certificates_change_under_traffic(
    served: Served, tmp_path: Path
):
    answered: list[int] = []
    stop = asyncio.Event()

    async def ask() -> None:
        while not stop.is_set():
            async with served.session() as session:
                for _ in range(5):
                    async with session.post("/jobs/validate", data=b"{}", headers=JSON) as answer:
                        answered.append(answer.status)

    serials: set[str] = set()
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(ask())
        for number in range(5):
            renewed = served.authority.server(f"server-{number}")
            served.pair.key.write_bytes(renewed.key.read_bytes())
            served.pair.certificate.write_bytes(renewed.certificate.read_bytes())
            served.certificate.look()
            serials.add(served.certificate.serial)
            seen = len(answered)
            await eventually(lambda seen=seen: len(answered) > seen + 20)
        stop.set()

    assert set(answered) == {200}
    assert len(serials) == 5


async def test_until_the_grace_is_over_all_are_served_and_told_to_connect_anew(tmp_path: Path):
    async with serving(tmp_path, grace=Duration(3600)) as served, served.session() as session:
        async with session.post("/jobs/mutate", data=b"{}", headers=JSON) as answer:
            assert "Connection" not in answer.headers
        async with background(served.listener.stop()):
            await eventually(lambda: served.front.is_leaving)
            kept = session.connector
            assert len(kept._conns) == 1  # type: ignore[union-attr]
            for path, status in (("/jobs/mutate", 200), ("/jobs/validate", 200), ("/no", 404)):
                async with session.post(path, data=b"{}", headers=JSON) as answer:
                    assert (answer.status, answer.headers["Connection"]) == (status, "close")
                assert not kept._conns  # type: ignore[union-attr]


async def test_what_was_asked_in_the_grace_is_answered_after_it(tmp_path: Path):
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_path: str, _body: bytes) -> Answer:
        has_begun.set()
        await may_end.wait()
        return Answer(200, b"{}")

    settings: dict[str, Any] = {"grace": Duration(0), "patience": Duration(30)}
    async with (
        serving(tmp_path, slow, **settings) as served,
        served.session() as session,
        served.session() as late,
        asyncio.TaskGroup() as group,
    ):
        asked = group.create_task(session.post("/jobs/mutate", data=b"{}", headers=JSON))
        await has_begun.wait()
        stopping = group.create_task(served.listener.stop())
        await eventually(lambda: served.front.is_leaving)
        with pytest.raises(aiohttp.ClientConnectorError):
            await late.get("/healthz")
        assert not stopping.done()
        may_end.set()
        async with await asked as answer:
            assert answer.status == 200


async def test_an_idle_connection_is_closed_when_the_grace_is_over(tmp_path: Path):
    async with serving(tmp_path, grace=Duration(0)) as served:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", served.port, ssl=served.trusting(), server_hostname="localhost"
        )
        await served.listener.stop()
        async with asyncio.timeout(30):
            assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
