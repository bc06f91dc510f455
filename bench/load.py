"""A client that costs next to nothing, so that a rate is the server's and not ours.

One HTTP/1.1 request at a time per connection, written as prepared bytes; of the answer only the
status and the end are looked at. Real clients decode more, and on one core decode at about the
rate that the servers reach: with such a client we would measure it instead of them.
"""

import asyncio
import base64
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import urlsplit

import msgspec
import yaml

__all__ = ["Connection", "Credentials", "send_all"]

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server is and who we are there, from a kubeconfig with a token."""

    host: str
    port: int
    token: str
    tls: ssl.SSLContext | None

    @classmethod
    def read(cls, kubeconfig: Path) -> Self:
        config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        cluster: dict[str, Any] = config["clusters"][0]["cluster"]
        url = urlsplit(str(cluster["server"]))
        tls = None
        if url.scheme == "https":
            data = cast("str | None", cluster.get("certificate-authority-data"))
            tls = ssl.create_default_context(
                cafile=cluster.get("certificate-authority"),
                cadata=base64.b64decode(data).decode() if data else None,
            )
        return cls(
            host=url.hostname or "",
            port=url.port or 443,
            token=str(config["users"][0]["user"]["token"]),
            tls=tls,
        )

    def post(self, path: str, body: bytes) -> bytes:
        """A request, ready to be written."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\nUser-Agent: bench\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Connection(asyncio.Protocol):
    """One connection that is kept open; `exchange` one request after the other."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._ends_at: int | None = None
        self._answer: asyncio.Future[int] | None = None

    @classmethod
    async def open(cls, to: Credentials) -> Self:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, to.host, to.port, ssl=to.tls)
        return connection

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def exchange(self, request: bytes) -> int:
        """Send it and return the status of the answer, once all of it is here."""
        if self._transport is None:
            raise ConnectionError("the server has closed the connection")
        self._received.clear()
        self._ends_at = None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    @property
    def last_answer(self) -> bytes:
        """Head and body of the last answer, until the next request; for error messages."""
        return bytes(self._received)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"closed before the answer: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._answer is not None and not self._answer.done() and self._is_complete():
            # "HTTP/1.1 201 Created"
            self._answer.set_result(int(self._received[9:12]))

    def _is_complete(self) -> bool:
        if self._ends_at is None:
            end = self._received.find(_HEAD_END)
            if end < 0:
                return False
            head = bytes(self._received[:end]).lower()
            _, found, rest = head.partition(_LENGTH)
            body = end + len(_HEAD_END)
            # Without a length the body is chunked; JSON can't contain the end of the last chunk.
            self._ends_at = body + int(rest.split(b"\r\n", 1)[0]) if found else -1
        if self._ends_at < 0:
            return self._received.endswith(_LAST_CHUNK)
        return len(self._received) >= self._ends_at


async def send_all(connections: Sequence[Connection], requests: Iterator[bytes]) -> int:
    """Send every request, one per connection at a time; all must be created. How many?"""
    sent = 0

    async def work(connection: Connection) -> None:
        nonlocal sent
        for request in requests:
            status = await connection.exchange(request)
            if status != 201:
                raise RuntimeError(f"expected 201 Created, got: {connection.last_answer[:500]!r}")
            sent += 1

    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(work(connection))
    return sent
