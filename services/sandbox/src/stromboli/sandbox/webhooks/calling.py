"""Ask a webhook over HTTPS and get its words back, or the reason there are none.

Connections are kept and used again: thousands of objects may be created one after the other.
A certificate is verified against the configuration's own bundle, or the system's without one.
Failures are told as the real server tells them, since people search for those sentences.
"""

import asyncio
import errno
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from stromboli.sandbox.bodies import start_of
from stromboli.sandbox.endpoints import Endpoints
from stromboli.sandbox.errors import NoEndpoints, WebhookUnreachable
from stromboli.sandbox.webhooks.hooks import Hook

__all__ = ["Caller"]

_MAX_ANSWER_BYTES: Final = 3 * 1024 * 1024
_IDLE_S: Final = 90.0
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, */*"}
_TOLD: Final = 300
"""How much of a webhook's own words about its failure is passed on."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to connect, and what is shown of it."""

    url: URL
    shown: str
    server_name: str | None


class Caller:
    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, hook: Hook, review: bytes) -> bytes:
        """The body of the webhook's answer; WebhookUnreachable if there is none to be had."""
        place = self._place(hook)
        try:
            async with asyncio.timeout(hook.timeout_s):
                return await self._exchange(hook, place, review)
        except TimeoutError:
            problem = "context deadline exceeded"
        except aiohttp.ClientConnectorCertificateError as error:
            problem = _certificate_problem(error.certificate_error, place)
        except aiohttp.ClientConnectorSSLError as error:
            problem = f"remote error: tls: {error.os_error.strerror or error.os_error}"
        except aiohttp.ClientConnectorError as error:
            problem = _connect_problem(error, place)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, ConnectionError):
            problem = "EOF"
        except aiohttp.ClientError as error:
            problem = str(error) or type(error).__name__
        raise WebhookUnreachable(f'failed to call webhook: Post "{place.shown}": {problem}')

    async def _exchange(self, hook: Hook, place: _Place, review: bytes) -> bytes:
        session = self._session
        if session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S)
            session = self._session = aiohttp.ClientSession(
                connector=connector, headers=_HEADERS, timeout=aiohttp.ClientTimeout(total=None)
            )
        context = self._context(hook.ca_bundle)
        async with session.post(
            place.url,
            data=review,
            ssl=context,
            server_hostname=place.server_name,
            allow_redirects=False,
        ) as response:
            body = await start_of(response.content, _MAX_ANSWER_BYTES + 1)
            if len(body) > _MAX_ANSWER_BYTES:
                raise WebhookUnreachable(
                    f"failed to call webhook: the answer is larger than {_MAX_ANSWER_BYTES} bytes"
                )
            if response.status != 200:
                raise WebhookUnreachable(
                    f"failed to call webhook: {_status_problem(response.status, body)}"
                )
            return body

    def _context(self, bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            try:
                text = bundle.decode("ascii") if bundle else None
                context = ssl.create_default_context(cadata=text)
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise WebhookUnreachable(
                    "failed to call webhook: unable to load root certificates: unable to parse"
                    " bytes as PEM block"
                ) from error
            self._contexts[bundle] = context
        return context

    def _place(self, hook: Hook) -> _Place:
        timeout = f"timeout={hook.timeout_s}s"
        if hook.service is None:
            shown = f"{hook.url}?{timeout}"
            return _Place(URL(shown, encoded=True), shown, None)
        service = hook.service
        path = service.path if service.path.startswith("/") else f"/{service.path}"
        name = f"{service.name}.{service.namespace}.svc"
        shown = f"https://{name}:{service.port}{path}?{timeout}"
        try:
            host, port = self._endpoints.of_service(
                service.namespace, service.name, str(service.port)
            )
        except NoEndpoints as problem:
            raise WebhookUnreachable(
                f'failed to call webhook: Post "{shown}": {problem}'
            ) from problem
        url = URL(f"https://{host}:{port}{path}?{timeout}", encoded=True)
        return _Place(url, shown, name)


def _connect_problem(error: aiohttp.ClientConnectorError, place: _Place) -> str:
    address = f"{error.host}:{error.port}"
    cause = error.os_error
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {urlsplit(place.shown).hostname}: no such host"
    if cause.errno == errno.ECONNREFUSED:
        return f"dial tcp {address}: connect: connection refused"
    return f"dial tcp {address}: {cause.strerror or cause}"


def _certificate_problem(error: Exception, place: _Place) -> str:
    start = "tls: failed to verify certificate: x509: "
    if isinstance(error, ssl.SSLCertVerificationError):
        match error.verify_code:
            case 10:
                return f"{start}certificate has expired or is not yet valid"
            case 62 | 64:
                wanted = place.server_name or place.url.host
                return f"{start}certificate is not valid for {wanted}"
            case _:
                return f"{start}certificate signed by unknown authority"
    return f"{start}{error}"


def _status_problem(code: int, body: bytes) -> str:
    told = body[:_TOLD].decode(errors="replace").strip()
    match code:
        case 404:
            return "the server could not find the requested resource"
        case 401:
            return "the server has asked for the client to provide credentials"
        case 403:
            return "unknown"
        case 503:
            return "the server is currently unable to handle the request"
        case code if code >= 500:
            return (
                f'an error on the server ("{told or "unknown"}") has prevented the request from'
                " succeeding"
            )
        case _:
            return f"the server rejected our request for an unknown reason (code {code})"
