"""Probes against real sockets: those that answer, and those that do anything else."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from stromboli.contracts.stimuli import Probe, ProbeAnswered
from stromboli.controllers.probing import carry_out


class Pod:
    """Answers every connection with the same bytes, and keeps what it was asked."""

    def __init__(self, answer: bytes, *, is_silent: bool = False) -> None:
        self.answer = answer
        self.is_silent = is_silent
        self.visits: list[asyncio.StreamWriter] = []
        self.asked = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            self.asked = await reader.readuntil(b"\r\n\r\n")
            if not self.is_silent:
                writer.write(self.answer)
                await writer.drain()
                writer.close()


@contextlib.asynccontextmanager
async def listening(pod: Pod) -> AsyncGenerator[int]:
    server = await asyncio.start_server(pod.serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0)  # a connection that was made in this very moment is served
        for writer in pod.visits:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def probe(
    port: int,
    path: str = "",
    *,
    timeout_s: float = 1.0,
    headers: tuple[tuple[str, str], ...] = (),
) -> Probe:
    return Probe(
        id="p",
        key="jobflow/default/f",
        host="127.0.0.1",
        port=port,
        path=path,
        headers=headers,
        timeout_s=timeout_s,
    )


async def ask(pod: Pod, path: str = "/ok", **headers: str) -> ProbeAnswered:
    async with listening(pod) as port:
        return await carry_out(probe(port, path, headers=tuple(headers.items())))


@pytest.mark.parametrize(
    ("answer", "succeeded", "said"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True, "HTTP status 200"),
        (b"HTTP/1.0 302 Found\r\n\r\n", True, "HTTP status 302"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False, "HTTP status 404"),
        (b"HTTP/1.1 503\r\n\r\n", False, "HTTP status 503"),
        (b"SSH-2.0-OpenSSH\r\n", False, "the answer is not HTTP"),
        (b"", False, "the answer is not HTTP"),
        (b"HTTP/1.1 \xff\xff\r\n", False, "the answer is not HTTP"),
    ],
)
async def test_the_first_line_of_the_answer_decides(answer: bytes, said: str, *, succeeded: bool):
    answered = await ask(Pod(answer))

    assert answered == ProbeAnswered(
        probe_id="p", key="jobflow/default/f", succeeded=succeeded, said=said
    )


async def test_path_and_header_reach_the_pod():
    pod = Pod(b"HTTP/1.1 200 OK\r\n\r\n")
    await ask(pod, "/ready?x=1", Authorization="Bearer x")

    lines = pod.asked.decode().split("\r\n")
    assert lines[0] == "GET /ready?x=1 HTTP/1.1"
    assert "Authorization: Bearer x" in lines
    assert "Connection: close" in lines


async def test_an_answer_without_an_end_is_cut():
    answered = await ask(Pod(b"x" * 1_000_000))

    assert not answered.succeeded


async def test_a_pod_that_says_nothing_is_not_waited_for():
    async with listening(Pod(b"HTTP/1.1 200 OK\r\n\r\n", is_silent=True)) as port:
        answered = await carry_out(probe(port, "/", timeout_s=0.1))

    assert (answered.succeeded, answered.said) == (False, "no answer within 0.1s")


async def test_a_connection_is_enough_without_a_path():
    async with listening(Pod(b"")) as port:
        assert (await carry_out(probe(port))).succeeded


async def test_a_closed_port_is_an_answer_too():
    async with listening(Pod(b"")) as port:
        pass

    answered = await carry_out(probe(port))
    assert not answered.succeeded
    assert answered.said


async def test_a_line_break_does_not_smuggle_in_a_second_request():
    pod = Pod(b"HTTP/1.1 200 OK\r\n\r\n")
    answered = await ask(pod, "/ HTTP/1.1\r\nHost: elsewhere\r\n\r\nGET /")

    assert not answered.succeeded
    assert pod.asked == b""
