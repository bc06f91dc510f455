"""An HTTP server that answers exactly what a test writes, byte by byte, or not at all.

For what a real API server does only when it is broken: half an answer, an endless one, none.
The client that talks to it is the real one.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from stromboli.kube import KubeAccess, KubeClient, Limits

__all__ = ["Answerer", "chunked", "serving", "whole"]

Answerer: TypeAlias = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Gets the head of a request, and the connection to answer it on."""


def whole(body: bytes, *, code: int = 200, headers: Sequence[str] = ()) -> bytes:
    lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(*chunks: bytes, end: bool = True) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    last = b"0\r\n\r\n" if end else b""
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + last


async def head_of(reader: asyncio.StreamReader) -> str:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    for line in head.splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            await reader.readexactly(int(value))
    return head


@asynccontextmanager
async def serving(
    folder: Path, answer: Answerer, *, timeout_s: float = 5.0, limits: Limits | None = None
) -> AsyncGenerator[KubeClient, None]:
    """A client of a server that answers each request as `answer` writes it."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not reader.at_eof():
                await answer(await head_of(reader), reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    kubeconfig = folder / "kubeconfig.yaml"
    kubeconfig.write_text(
        f"""
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: secret}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
    )
    access = KubeAccess(kubeconfig=str(kubeconfig), timeout_s=timeout_s, limits=limits or Limits())
    try:
        async with KubeClient.connect(access) as kube:
            yield kube
    finally:
        server.close()
