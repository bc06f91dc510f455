"""Whether a process is ready, asked as its users ask it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stromboli.launcher import readiness
from stromboli.launcher.plan import Planned
from stromboli.launcher.readiness import asking, why_not_ready
from stromboli.testkit.scripted_server import whole

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(answering: Answering) -> AsyncGenerator[int]:
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await answering(reader, writer)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for writer in writers:
            writer.close()
        await listening.wait_closed()


async def reason(planned: Planned) -> str:
    async with asking() as session:
        return await why_not_ready(planned, session)


def page(port: int) -> Planned:
    return Planned("gateway", (), ready_url=f"http://127.0.0.1:{port}/readyz")


async def silent(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """It accepts, as the kernel does for one that stands still."""


def saying(answer: bytes) -> Answering:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    return answering


async def test_one_that_accepts_and_never_answers_hangs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readiness, "_ANSWER_S", 0.2)
    started = time.monotonic()
    async with server(silent) as port:
        assert await reason(page(port)) == "it hangs: there was no answer within 0.2 s"
        assert "it hangs" in await reason(Planned("nats", (), ready_port=port))
    async with server(saying(b"HTTP/1.1 200 OK\r\nContent-Le")) as port:
        assert "it hangs" in await reason(page(port))

    assert time.monotonic() - started < 10


async def test_one_that_is_not_ready_says_why():
    body = b"[+] process: ok\n[-] gateway: kinds not listed yet: pod\n[-] disk: full\nfailed\n"
    async with server(saying(whole(body, code=503))) as port:
        assert await reason(page(port)) == "kinds not listed yet: pod; disk: full"
    async with server(saying(whole(b"who are you?", code=404))) as port:
        assert await reason(page(port)) == "it answers 404"
    async with server(saying(whole(b"ok"))) as port:
        assert not await reason(page(port))


async def test_one_that_does_not_listen_or_hangs_up_is_not_ready():
    async def hanging_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with server(silent) as free:
        pass
    assert await reason(page(free)) == "it does not listen"
    assert await reason(Planned("nats", (), ready_port=free)) == "it does not listen"
    async with server(hanging_up) as port:
        assert await reason(page(port)) == "it does not listen"
        assert await reason(Planned("nats", (), ready_port=port)) == "it does not listen"


async def test_a_nats_server_speaks_first():
    async def greeting(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x"} \r\n')

    async with server(greeting) as port:
        assert not await reason(Planned("nats", (), ready_port=port))


async def test_a_file_that_is_to_be_written_is_waited_for(tmp_path: Path):
    planned = Planned("api", (), ready_file=tmp_path / "kubeconfig")
    assert "has not written" in await reason(planned)
    (tmp_path / "kubeconfig").touch()

    assert not await reason(planned)
