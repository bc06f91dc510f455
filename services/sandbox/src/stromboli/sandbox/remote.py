"""Answers that come from somewhere else and are passed on as they arrive: logs, proxied requests.

The client's credentials stay here. An answer is neither read whole nor changed; what goes wrong
before it begins becomes a Status, what goes wrong later ends the stream.
"""

import errno
import ssl
from typing import Final

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from stromboli.sandbox import statuses
from stromboli.sandbox.bodies import start_of

__all__ = ["Passage", "Remote"]

_CONNECT_S: Final = 10.0
_MAX_PROBLEM_BYTES: Final = 50_000
_STAY_HERE: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",  # codespell:ignore te
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers about one connection, and the client's proof of who it is."""


class Passage(msgspec.Struct, frozen=True):
    """Where an answer comes from."""

    url: str
    is_proxy: bool
    """The client's own request is passed on and whatever comes back is its answer. Otherwise it
    is a question of ours, and an answer that is not good is a refusal."""
    resource: str = ""
    name: str = ""


class Remote:
    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        # As API servers do without a --kubelet-certificate-authority: kubelets sign their own.
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def pass_on(self, request: web.BaseRequest, passage: Passage) -> web.StreamResponse:
        """The whole exchange; ApiRefusal while nothing has been sent yet."""
        answer = await self._asked(request, passage)
        try:
            if not passage.is_proxy and answer.status != 200:
                told = (await start_of(answer.content, _MAX_PROBLEM_BYTES)).decode(errors="replace")
                raise statuses.from_elsewhere(
                    answer.status, told.rstrip("\n"), resource=passage.resource, name=passage.name
                )
            response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
            if not passage.is_proxy:
                response.headers["Content-Type"] = "text/plain"
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)
            await response.write_eof()
        finally:
            answer.close()
        return response

    async def _asked(self, request: web.BaseRequest, passage: Passage) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
                connector=aiohttp.TCPConnector(limit=0),
                auto_decompress=False,
            )
        method = request.method if passage.is_proxy else "GET"
        headers = _kept(request.headers) if passage.is_proxy else CIMultiDict[str]()
        body = request.content if passage.is_proxy and request.body_exists else None
        try:
            return await self._session.request(
                method,
                URL(passage.url, encoded=True),
                headers=headers,
                data=body,
                ssl=self._context,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            problem = _words(error)
        if passage.is_proxy:
            raise statuses.service_unavailable(f"error trying to reach service: {problem}")
        raise statuses.internal_error(f'Get "{passage.url}": {problem}')


def _kept(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict(
        [(key, value) for key, value in headers.items() if key.lower() not in _STAY_HERE]
    )


def _words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = error.os_error.errno == errno.ECONNREFUSED
        why = "connect: connection refused" if refused else str(error.os_error)
        return f"dial tcp {error.host}:{error.port}: {why}"
    return str(error) or type(error).__name__
