"""HTTPS around the reviews: everything bounded, everything answered, nothing thrown.

aiohttp's low-level server with one handler for all paths. Whatever a client sends, it gets an
AdmissionReview or a 4xx with a sentence, or its connection is closed: too many connections, a
handshake, header or body that does not come, more bytes than we agreed to hold. None of that is
an error of ours, so none of it is logged above debug; it is counted.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import StreamReader, web
from aiohttp.web_protocol import RequestHandler
from typing_extensions import override

from stromboli.admission.config import HttpsSettings
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter, gauge

__all__ = ["Answer", "Front", "Listener", "listening"]

log = get_logger(__name__)

_JSON: Final = "application/json"

_refused = counter(
    "stromboli.admission.requests.refused", "HTTP requests refused unread", labels=["status"]
)
_closed = counter(
    "stromboli.admission.connections.closed", "Connections closed by us", labels=["why"]
)
_open = gauge("stromboli.admission.connections.open", "Connections of API servers")


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: an AdmissionReview, or a sentence about a bad request."""

    status: int
    body: bytes
    content_type: str = _JSON


class _Refused(Exception):
    """The request is answered without a review."""

    def __init__(self, status: int, sentence: str, *, close: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.close = close


@dataclass(slots=True)
class Front:
    """Turns HTTP requests into calls of `review` and pages."""

    settings: HttpsSettings
    paths: tuple[str, ...]
    review: Callable[[str, bytes], Awaitable[Answer]]
    """Judges the body of a POST to one of the paths; never raises for any body."""
    pages: Mapping[str, Callable[[], Answer]]
    """What a GET shows, for probes."""
    is_leaving: bool = False
    """Then each answer is the last one on its connection."""
    _held_bytes: int = 0
    _turns: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(self.settings.max_reviews)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except _Refused as refused:
            _refused.add(1, status=str(refused.status))
            return _told(refused.status, str(refused), close=refused.close or self.is_leaving)
        response = web.Response(
            body=answer.body, status=answer.status, headers={"Content-Type": answer.content_type}
        )
        if self.is_leaving:
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> Answer:
        # The API server adds ?timeout=5s.
        path = request.raw_path.partition("?")[0]
        if (page := self.pages.get(path)) is not None and request.method in {"GET", "HEAD"}:
            return page()
        if path not in self.paths:
            known = ", ".join(self.paths)
            raise _Refused(404, f"there is no {path[:200]!r} here, only {known}")
        if request.method != "POST":
            raise _Refused(405, f"{path} takes POST, not {request.method[:20]}")
        media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media_type != _JSON:
            raise _Refused(415, f"expected Content-Type {_JSON}, got {media_type[:100]!r}")
        body = await self._body(request)
        try:
            await self._take_turn()
            try:
                return await self.review(path, body)
            finally:
                self._turns.release()
        finally:
            self._held_bytes -= len(body)

    async def _take_turn(self) -> None:
        if not self._turns.locked():
            await self._turns.acquire()  # at once: nobody waits, and a timer costs time
            return
        try:
            async with asyncio.timeout(self.settings.patience):
                await self._turns.acquire()
        except TimeoutError:
            busy = f"{self.settings.max_reviews} reviews are under way; try again"
            raise _Refused(503, busy) from None

    async def _body(self, request: web.BaseRequest) -> bytes:
        """The whole body; its bytes count against our memory until the caller is done."""
        limit = self.settings.max_body
        announced = request.content_length
        if announced is not None and announced > limit:
            sentence = f"the review has {announced} bytes, and the limit is {limit}"
            raise _Refused(413, sentence, close=True)
        try:
            if request.content.is_eof() and announced is not None:
                # It came with the header, as most do: there is nothing to wait for.
                body = request.content.read_nowait()
                self._held_bytes += len(body)
                return body
            async with asyncio.timeout(self.settings.patience):
                return await self._received(request.content)
        except TimeoutError:
            sentence = f"the body did not come within {self.settings.patience}"
            raise _Refused(408, sentence, close=True) from None
        except (web.RequestPayloadError, ConnectionError) as broken:
            raise _Refused(400, f"the body can't be read: {broken}", close=True) from None

    async def _received(self, content: StreamReader) -> bytes:
        limit = self.settings.max_body
        parts: list[bytes] = []
        size = 0
        try:
            async for part in content.iter_any():
                size += len(part)
                self._held_bytes += len(part)
                if size > limit:
                    sentence = f"the review has more than {limit} bytes"
                    raise _Refused(413, sentence, close=True)
                if self._held_bytes > self.settings.max_bodies:
                    raise _Refused(503, "too many reviews at once; try again", close=True)
                parts.append(part)
        except BaseException:
            self._held_bytes -= size
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _told(status: int, sentence: str, *, close: bool) -> web.Response:
    response = web.Response(text=f"{sentence}\n", status=status)
    if close:
        # What is still to come of the body is not read.
        response.force_close()
    return response


class _Server(web.Server):
    """aiohttp's server with a bound on connections and our own handling of bad HTTP."""

    def __init__(self, front: Front, settings: HttpsSettings) -> None:
        self.patience_s = float(settings.patience)
        self.max_connections = settings.max_connections
        super().__init__(
            front.handle,
            access_log=None,
            keepalive_timeout=float(settings.idle),
            # A client that is still sending what we refused sees our answer, not a reset.
            lingering_time=1.0,
            # Nobody compresses reviews, and what is small on the wire may be huge in memory.
            auto_decompress=False,
        )

    @override
    def __call__(self) -> RequestHandler:
        return _Handler(self, loop=self._loop, **self._kwargs)


class _Handler(RequestHandler):
    """One connection."""

    __slots__ = ("_first_request", "_server")

    def __init__(self, server: _Server, *, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        self._server = server
        self._first_request: asyncio.TimerHandle | None = None
        super().__init__(server, loop=loop, **options)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._server.connections) > self._server.max_connections:
            _closed.add(1, why="too many")
            self.force_close()
            return
        _open.set(len(self._server.connections))
        # aiohttp minds an idle connection only after its first request.
        self._first_request = self._loop.call_later(self._server.patience_s, self._too_slow)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        if self._first_request is not None:
            self._first_request.cancel()
        super().connection_lost(exc)
        _open.set(len(self._server.connections))

    def _too_slow(self) -> None:
        if self._request_count == 0:
            _closed.add(1, why="silent")
            self.force_close()

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What aiohttp refuses by itself: requests that are no HTTP, headers that are too long."""
        if status >= 500:
            log.error("request.failed", path=request.path[:200], problem=repr(exc))
            return _told(500, "the review failed for a reason of ours", close=True)
        _refused.add(1, status=str(status))
        return _told(status, message or "the request can't be read as HTTP", close=True)


@dataclass(frozen=True, slots=True)
class Listener:
    """An open port."""

    port: int
    stop: Callable[[], Coroutine[Any, Any, None]]
    """Serves for the time of grace, then ends all connections when what they asked is answered.

    API servers learn only after a while that we are about to end, and a request that arrives on a
    connection that is being closed is a refused Job. So they are told with each answer to come
    back on a new connection, which then leads to another admission.
    """


@contextlib.asynccontextmanager
async def listening(
    front: Front, settings: HttpsSettings, context: ssl.SSLContext
) -> AsyncGenerator[Listener]:
    """Serve while the block is open."""
    server = _Server(front, settings)
    sockets = await asyncio.get_running_loop().create_server(
        server,
        settings.host,
        settings.port,
        ssl=context,
        ssl_handshake_timeout=float(settings.patience),
        ssl_shutdown_timeout=1.0,
        backlog=1024,
    )
    port = int(sockets.sockets[0].getsockname()[1])
    log.info("https.listening", host=settings.host, port=port)

    async def close() -> None:
        sockets.close()
        await server.shutdown(timeout=float(settings.patience))

    async def stop() -> None:
        front.is_leaving = True
        await asyncio.sleep(settings.grace)
        await close()

    try:
        yield Listener(port, stop)
    finally:
        await close()
