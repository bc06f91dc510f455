"""Send one request, read one bounded answer, and know afterwards what can have happened.

Every exchange has a deadline that includes waiting for a slot. Bodies are bytes on both
sides: what they mean is decided elsewhere. A call is never repeated here, except once after a
401, which the server has not acted upon. Redirects are not followed: they would carry our
credentials along.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec
from yarl import URL

from stromboli.kube.errors import (
    AccessError,
    DeadlineExceeded,
    TooLarge,
    Unreachable,
    error_from_answer,
)
from stromboli.kube.flow import FlowLimit, TokenBucket
from stromboli.kube.last_look import body_of
from stromboli.kube.settings import KubeAccess

if TYPE_CHECKING:
    from stromboli.kube.access import Connection, Session

__all__ = ["Answer", "Stream", "Transport"]

JSON: Final = "application/json"
NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_read=None)
"""Deadlines are asyncio's, around the whole call; a second set of timers would only disagree."""

ERROR_BODY_BYTES: Final = 1024 * 1024
"""An error is read up to here even where the caller expects less."""

KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A watch may be silent for minutes; this notices within 30 s that nobody is there any more."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: the HTTP status code, the headers and the whole body."""

    code: int
    headers: Mapping[str, str]
    body: bytes


class Stream:
    """The body of an answer that goes on, read chunk by chunk."""

    def __init__(self, request: str, response: aiohttp.ClientResponse) -> None:
        self._request = request
        self._response = response

    async def read_chunk(self) -> bytes:
        """Whatever has arrived; empty when the server ended the answer."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(self._request, _words(error), maybe_applied=False) from error


class Transport:
    """Requests within the limits of a KubeAccess."""

    def __init__(self, connection: "Connection", access: KubeAccess) -> None:
        self._connection = connection
        self._access = access
        limits = access.limits
        self.limits = limits
        bucket = (
            TokenBucket(per_second=limits.per_second, burst=limits.burst)
            if limits.per_second is not None
            else None
        )
        self.flow = FlowLimit(max_in_flight=limits.max_in_flight, bucket=bucket)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
        max_bytes: int | None = None,
    ) -> Answer:
        """The answer, if it is a good one; otherwise the error that it means."""
        answer = await self.exchange(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            timeout_s=timeout_s,
            max_bytes=max_bytes,
        )
        if answer.code >= 300:
            error = error_from_answer(
                f"{method} {path}",
                code=answer.code,
                body=answer.body,
                retry_after=answer.headers.get("Retry-After"),
            )
            if method == "GET":
                error.maybe_applied = False  # a question has no effect, however it was answered
            raise error
        return answer

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
        max_bytes: int | None = None,
    ) -> Answer:
        """The answer, whatever its code."""
        request = f"{method} {path}"
        limit = max_bytes or self.limits.max_object_bytes
        deadline_s = timeout_s or self._access.timeout_s
        url = self._url(path, query)
        sending = False
        try:
            async with asyncio.timeout(deadline_s), self.flow.slot():
                await self._connection.keep_fresh()
                sending = True
                for last_try in (False, True):
                    used = self._connection.authorization
                    headers = self._headers(content_type if body is not None else None)
                    async with (
                        self._connection.session() as session,
                        session.http.request(
                            method,
                            url,
                            data=body_of(body),
                            headers=headers,
                            timeout=NO_TIMEOUT,
                            **session.options,
                        ) as response,
                    ):
                        content = await _read_bounded(request, response, limit)
                    if response.status != 401 or last_try or not await self._renewed(used):
                        break
        except TimeoutError as error:
            raise DeadlineExceeded(
                request,
                f"deadline of {deadline_s:g} s passed"
                + ("" if sending else " while it waited for its turn"),
                maybe_applied=sending and method != "GET",
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(request, _words(error), maybe_applied=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(request, _words(error), maybe_applied=method != "GET") from error
        return Answer(code=response.status, headers=response.headers, body=content)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], timeout_s: float | None = None
    ) -> AsyncGenerator[Stream, None]:
        """A GET whose answer goes on; the deadline is for its beginning.

        It takes no slot: streams last, and would leave none for requests.
        """
        request = f"GET {path}"
        deadline_s = timeout_s or self._access.timeout_s
        url = self._url(path, query)
        await self._connection.keep_fresh()
        async with self._connection.session() as session:
            try:
                async with asyncio.timeout(deadline_s):
                    response = await self._open(session, url)
            except TimeoutError as error:
                raise DeadlineExceeded(
                    request, f"deadline of {deadline_s:g} s passed", maybe_applied=False
                ) from error
            except (aiohttp.ClientError, OSError) as error:
                raise Unreachable(request, _words(error), maybe_applied=False) from error
            try:
                if response.status != 200:
                    raise await self._refusal(request, response, deadline_s)
                _keep_alive(response)
                yield Stream(request, response)
            finally:
                _hang_up(response)

    async def _open(self, session: "Session", url: URL) -> aiohttp.ClientResponse:
        for last_try in (False, True):
            used = self._connection.authorization
            response = await session.http.get(
                url, headers=self._headers(None), timeout=NO_TIMEOUT, **session.options
            )
            if response.status != 401 or last_try or not await self._renewed(used):
                return response
            _hang_up(response)
        raise AssertionError("the second try returns")

    async def _refusal(
        self, request: str, response: aiohttp.ClientResponse, deadline_s: float
    ) -> Exception:
        try:
            async with asyncio.timeout(deadline_s):
                body = await _read_bounded(request, response, ERROR_BODY_BYTES)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return Unreachable(request, _words(error), maybe_applied=False)
        return error_from_answer(
            request,
            code=response.status,
            body=body,
            retry_after=response.headers.get("Retry-After"),
        )

    async def _renewed(self, refused: str | None) -> bool:
        try:
            return await self._connection.refresh(refused=refused)
        except AccessError:
            return False  # the 401 itself is the better message

    def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {"Accept": JSON}
        if self._connection.authorization is not None:
            headers["Authorization"] = self._connection.authorization
        if content_type is not None:
            headers["Content-Type"] = content_type
        return headers

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        # The path is already quoted, segment by segment; quoting it again would change it.
        url = URL(self._connection.base_url + path, encoded=True)
        return url.with_query(query) if query else url


async def _read_bounded(request: str, response: aiohttp.ClientResponse, limit: int) -> bytes:
    if response.status >= 300:
        limit = max(limit, ERROR_BODY_BYTES)
    if (response.content_length or 0) > limit:
        _hang_up(response)
        raise _too_large(request, response, limit)
    pieces: list[bytes] = []
    size = 0
    while piece := await response.content.readany():
        size += len(piece)
        if size > limit:
            _hang_up(response)  # not released: the rest of the body is still on its way
            raise _too_large(request, response, limit)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Close the connection at once: a TLS farewell would wait for the other side."""
    transport = response.connection and response.connection.transport
    response.close()
    if transport is not None:
        transport.abort()


def _too_large(request: str, response: aiohttp.ClientResponse, limit: int) -> TooLarge:
    return TooLarge(
        f"the answer to {request}",
        limit,
        "limits.max_page_bytes (lists) or limits.max_object_bytes",
        applied=response.method != "GET" and response.status < 300,
    )


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel ask whether the other side is still there."""
    transport = response.connection and response.connection.transport
    if transport is None:
        return
    # asyncio and uvloop wrap their sockets differently; a duplicate of the descriptor is plain.
    with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as plain:
        if plain.family not in (socket.AF_INET, socket.AF_INET6):
            return
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            if (option := getattr(socket, name, None)) is not None:
                plain.setsockopt(socket.IPPROTO_TCP, option, value)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
