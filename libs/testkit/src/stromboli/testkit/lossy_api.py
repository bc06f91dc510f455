"""An API server behind a proxy that loses answers, or requests, when the test says so.

What a network does, or a load balancer whose patience ends: the caller cannot know whether what
it asked for was done, or is done a minute later.
"""

import base64
import ssl
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml
from aiohttp import web

__all__ = ["Losing", "LossyApi"]

_HOP_BY_HOP = frozenset({"connection", "content-length", "host", "transfer-encoding"})


class Losing(Enum):
    """What becomes of a request of which the caller never hears again."""

    ANSWER = auto()
    """It was done."""
    REQUEST = auto()
    """It was not done, and will not be."""


class LossyApi:
    """Passes everything on to the server of a kubeconfig, but for what is being lost."""

    def __init__(self, directory: Path, server: Path) -> None:
        self.kubeconfig = directory / "lossy-kubeconfig.yaml"
        self._config: dict[str, Any] = yaml.safe_load(server.read_text())
        self._losing: dict[str, Losing] = {}
        self.lost: list[str] = []

    def lose(self, path_end: str, what: Losing) -> None:
        """From now on, of all requests but GETs whose path ends like this."""
        self._losing[path_end] = what

    def lose_nothing(self) -> None:
        self._losing.clear()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        loss = None if request.method == "GET" else self._loss(request.path)
        if loss is Losing.REQUEST:
            return self._cut(request)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        async with self._session.request(
            request.method,
            self._url + request.raw_path,
            headers=headers,
            data=await request.read(),
            ssl=self._tls,
        ) as answer:
            if loss is Losing.ANSWER:
                await answer.read()
                return self._cut(request)
            passed = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=passed)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    def _loss(self, path: str) -> Losing | None:
        return next((what for end, what in self._losing.items() if path.endswith(end)), None)

    def _cut(self, request: web.Request) -> web.Response:
        self.lost.append(f"{request.method} {request.path}")
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def __aenter__(self) -> Self:
        cluster = self._config["clusters"][0]["cluster"]
        user = self._config["users"][0]["user"]
        self._url = str(cluster["server"]).rstrip("/")
        data = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
        authority = cluster.get("certificate-authority")
        self._tls = ssl.create_default_context(cafile=authority, cadata=data or None)
        if "client-certificate" in user:
            self._tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self._session = aiohttp.ClientSession(
            auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        )
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        cluster.clear()
        cluster["server"] = f"http://{host}:{port}"
        self.kubeconfig.write_text(yaml.safe_dump(self._config))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()
