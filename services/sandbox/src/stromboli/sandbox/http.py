"""HTTP around the API: bounded bodies, known users, errors as Status, watches as streams.

It stands on aiohttp's low-level server with one handler for all paths: routing is `paths.py`.
This is the only place where exceptions become answers; whatever was not foreseen is logged and
told to the client as a 500 without particulars.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from aiohttp import ClientConnectionResetError, web
from aiohttp.web_exceptions import HTTPException
from aiohttp.web_protocol import RequestHandler

from stromboli.sandbox import statuses
from stromboli.sandbox.admin import Admin
from stromboli.sandbox.api import Api, WatchStream
from stromboli.sandbox.audit import AuditLog
from stromboli.sandbox.authentication import authenticated
from stromboli.sandbox.bodies import start_of
from stromboli.sandbox.discovery import AGGREGATED, Discovery
from stromboli.sandbox.documents import encode
from stromboli.sandbox.errors import ApiRefusal
from stromboli.sandbox.journal import Journal
from stromboli.sandbox.negotiation import PLAIN, form_in, json_body, media_type
from stromboli.sandbox.paths import Target, target_of
from stromboli.sandbox.printing.tables import FORMS
from stromboli.sandbox.remote import Passage, Remote
from stromboli.sandbox.requests import Answer, User
from stromboli.sandbox.warning_headers import add_warnings
from stromboli.sandbox.watching import WatchHub

__all__ = ["HttpFront", "StatusServer"]

_LOG: Final = logging.getLogger("stromboli.sandbox.http")
_JSON: Final = "application/json"
_OPENAPI_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_OPENAPI_TYPE: Final = _OPENAPI_PROTOBUF.replace("@", ".")
"""Go does not read an @ in a media type."""
_EMPTY_OPENAPI: Final = b"\n\x032.0"
"""A document that says its version, 2.0, and nothing else."""
_AGGREGATED_TYPE: Final = f"{_JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_OPEN_PATHS: Final = frozenset({"/version", "/healthz", "/livez", "/readyz"})
_HAS_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class HttpFront:
    def __init__(
        self,
        api: Api,
        *,
        discovery: Discovery,
        admin: Admin,
        hub: WatchHub,
        remote: Remote,
        journal: Journal,
        audit: AuditLog,
        tokens: Mapping[str, User],
        max_body_bytes: int,
        watch_timeout_s: int,
    ) -> None:
        self._api = api
        self._discovery = discovery
        self._admin = admin
        self._hub = hub
        self._remote = remote
        self._journal = journal
        self._audit = audit
        self._tokens = tokens
        self._max_body_bytes = max_body_bytes
        self._watch_timeout_s = watch_timeout_s

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        target = target_of(path)
        if target is None:
            return await self._handle_path(request, path)
        method = request.method
        user: User | None = None
        reason = ""
        warnings: list[str] = []
        try:
            user = authenticated(request, self._tokens)
            # What is passed on to somebody else is not read here.
            is_proxied = target.subresource == "proxy"
            body, content_type = (b"", "") if is_proxied else await self._body(request)
            answer = await self._api.handle(
                method,
                target,
                query,
                body=body,
                content_type=content_type,
                user=user,
                form=PLAIN if is_proxied else form_in(request.headers.get("Accept", ""), FORMS),
                warnings=warnings,
            )
            if isinstance(answer, Passage):
                return await self._pass_on(request, answer, target, user)
        except ApiRefusal as refusal:
            answer, reason = _told(refusal)
        except RecursionError:
            answer, reason = _told(statuses.bad_request("the request is nested too deeply"))
        except (HTTPException, ConnectionError):
            raise
        except Exception:  # noqa: BLE001 - the one place where the unforeseen becomes an answer
            _LOG.exception("request.failed", extra={"method": method, "path": path})
            refusal = statuses.internal_error("the server met an unexpected condition")
            answer, reason = _told(refusal)
        if isinstance(answer, WatchStream):
            return await self._stream(request, answer)
        if self._audit.wants(method):
            dry_run = "dryRun=All" in query
            self._audit.write(
                method,
                target,
                user,
                answer,
                user_agent=request.headers.get("User-Agent", ""),
                reason=reason,
                dry_run=dry_run,
            )
            await self._journal.durable()
        response = web.Response(
            body=answer.body, status=answer.code, content_type=answer.content_type
        )
        if warnings:
            add_warnings(response, warnings)
        return response

    async def _pass_on(
        self, request: web.BaseRequest, passage: Passage, target: Target, user: User
    ) -> web.StreamResponse:
        response = await self._remote.pass_on(request, passage)
        if self._audit.wants(request.method):
            agent = request.headers.get("User-Agent", "")
            answer = Answer(response.status, b"")
            self._audit.write(request.method, target, user, answer, user_agent=agent)
        return response

    async def _handle_path(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Paths that name no resource: discovery, health, administration."""
        trimmed = path.rstrip("/") or "/"
        try:
            if trimmed not in _OPEN_PATHS:
                authenticated(request, self._tokens)
            if trimmed in {"/healthz", "/livez", "/readyz"} and request.method == "GET":
                return web.Response(text="ok")
            if trimmed.startswith("/sandbox/"):
                body, _ = await self._body(request)
                answer = self._admin.handle(request.method, trimmed, body)
                return web.Response(body=answer.body, status=answer.code, content_type=_JSON)
            document = self._discovery.document(trimmed)
            if document is None:
                return web.Response(text="404 page not found\n", status=404)
            if request.method != "GET":
                raise statuses.method_not_allowed()
            accept = request.headers.get("Accept", "")
            if trimmed == "/openapi/v2" and accept.startswith(_OPENAPI_PROTOBUF):
                # kubectl asks so for a kind that version 3 does not describe: here it is none.
                return web.Response(body=_EMPTY_OPENAPI, headers={"Content-Type": _OPENAPI_TYPE})
            aggregated = self._discovery.aggregated(trimmed)
            forms = AGGREGATED if aggregated is not None else frozenset[str]()
            form = form_in(accept, forms)
            if aggregated is not None and form != PLAIN:
                return web.Response(body=aggregated, headers={"Content-Type": _AGGREGATED_TYPE})
            return web.Response(body=document, content_type=_JSON)
        except ApiRefusal as refusal:
            body = encode(refusal.status)
            return web.Response(body=body, status=refusal.code, content_type=_JSON)

    async def _body(self, request: web.BaseRequest) -> tuple[bytes, str]:
        """The body, never more than the limit of it, and the media type it claims to be."""
        if request.method not in _HAS_BODY or not request.body_exists:
            return b"", ""
        content_type = media_type(request.headers.get("Content-Type", ""))
        length = request.content_length
        if length is not None and length > self._max_body_bytes:
            raise statuses.body_too_large(self._max_body_bytes)
        if length is None:
            body = await start_of(request.content, self._max_body_bytes + 1)
            if len(body) > self._max_body_bytes:
                raise statuses.body_too_large(self._max_body_bytes)
        else:
            body = await request.content.read()
        if request.method in {"POST", "PUT"}:
            body = json_body(body, content_type)
        return body, content_type

    async def _stream(self, request: web.BaseRequest, stream: WatchStream) -> web.StreamResponse:
        watcher = stream.watcher
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        response.enable_chunked_encoding()
        transport = request.transport
        if transport is not None:
            watcher.on_overflow = transport.abort
        timer = asyncio.get_running_loop().call_later(
            stream.timeout_s or self._watch_timeout_s, self._hub.expire, watcher
        )
        try:
            await response.prepare(request)
            async for chunk in watcher.chunks():
                await response.write(chunk)
            await response.write_eof()
        except (ClientConnectionResetError, ConnectionResetError):
            _LOG.debug("watch.client_gone")
        finally:
            timer.cancel()
            self._hub.close(watcher)
        return response


def _told(refusal: ApiRefusal) -> tuple[Answer, str]:
    return Answer(refusal.code, encode(refusal.status)), refusal.status.get("reason", "")


class StatusServer(web.Server):
    """aiohttp's server, with handlers that speak Status even about bad HTTP."""

    def __call__(self) -> RequestHandler:
        return StatusHandler(self, loop=self._loop, **self._kwargs)


class StatusHandler(RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What aiohttp refuses by itself: unreadable requests, headers that are too long."""
        if status < 500:
            refusal = statuses.bad_request(message or "the request cannot be read as HTTP")
        else:
            _LOG.error("request.failed", exc_info=exc, extra={"path": request.path})
            refusal = statuses.internal_error("the server met an unexpected condition")
        response = web.Response(
            body=encode(refusal.status), status=refusal.code, content_type=_JSON
        )
        response.force_close()
        return response
