"""What the API server asks kubelets: the logs of their pods, by HTTPS on this machine.

The path and the words are those of a real kubelet, so `kubectl logs` works behind any API
server. The certificate is made at the start and signed by nobody known, as a kubelet's is until
somebody signs it; API servers accept that unless told otherwise. Whoever can connect to
127.0.0.1 may ask.
"""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp import web

from stromboli.api.core.pod import Pod
from stromboli.api.errors import ApiError
from stromboli.sandbox.certificates import Authority
from stromboli.sandbox.kubelets.logs import LogOptions, NoLog, printed, since_of
from stromboli.sandbox.kubelets.runtimes import Runtime

__all__ = ["Questions"]

_HOST: Final = "127.0.0.1"
_CUT_OFF_S: Final = 0.01


class Questions:
    """The kubelets' ear; `find` knows the pods that live here, by namespace and name."""

    def __init__(self, runtime: Runtime, find: Callable[[str, str], Pod | None]) -> None:
        self._runtime = runtime
        self._find = find
        self.port = 0

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None, None]:
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/healthz", _healthy)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, _HOST, 0, ssl_context=_context())
            await site.start()
            self.port = runner.addresses[0][1]
            yield
        finally:
            _cut_off(runner)
            await runner.cleanup()
            # Sockets of cut connections are closed a step of the loop later.
            await asyncio.sleep(_CUT_OFF_S)

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        named = request.match_info
        namespace, name, container = named["namespace"], named["pod"], named["container"]
        pod = self._find(namespace, name)
        if pod is None:
            return _refused(404, f'pod "{name}" not found')
        if container not in {one.name for one in pod.spec.containers}:
            return _refused(404, f'container "{container}" not found in pod "{name}"')
        try:
            options = _options(request)
        except (ValueError, ApiError) as problem:
            return _refused(400, f"unreadable log options: {problem}")
        previous = _flag(request.query.get("previous", ""))
        newest = max(
            self._runtime.newest_attempt(pod),
            max((one.restart_count for one in pod.status.container_statuses[:1]), default=-1),
        )
        attempt = newest - 1 if previous else newest
        uid = pod.metadata.uid

        def latest() -> Pod | None:
            current = self._find(namespace, name)
            return current if current is not None and current.metadata.uid == uid else None

        try:
            if attempt < 0:
                raise NoLog
            log = self._runtime.log(pod, attempt, latest=latest)
        except NoLog:
            return _refused(400, _no_log(name, container, previous=previous))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        # Questions are rare, and a kubelet that ends should not wait for connections.
        response.force_close()
        await response.prepare(request)
        async for part in printed(log, options):
            await response.write(part)
        await response.write_eof()
        return response


def _cut_off(runner: web.AppRunner) -> None:
    """Nobody who follows a log has to be asked before the kubelets end."""
    for handler in runner.server.connections if runner.server is not None else ():
        transport = handler.transport
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _refused(code: int, told: str) -> web.Response:
    response = web.Response(status=code, text=told)
    response.force_close()
    return response


def _no_log(pod: str, container: str, *, previous: bool) -> str:
    if previous:
        return f'previous terminated container "{container}" in pod "{pod}" not found'
    return f'container "{container}" in pod "{pod}" is waiting to start: ContainerCreating'


def _options(request: web.Request) -> LogOptions:
    query = request.query

    def number(name: str) -> int | None:
        return int(query[name]) if query.get(name) else None

    return LogOptions(
        follow=_flag(query.get("follow", "")),
        timestamps=_flag(query.get("timestamps", "")),
        tail_lines=number("tailLines"),
        since=since_of(seconds=number("sinceSeconds"), time=query.get("sinceTime")),
        limit_bytes=number("limitBytes"),
    )


def _flag(text: str) -> bool:
    return text.lower() in {"1", "true", "t"}


def _context() -> ssl.SSLContext:
    certificate, key = Authority.created().issue("stromboli-kubelet", hosts=[_HOST])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        # OpenSSL reads certificates from files only.
        file = Path(folder) / "kubelet.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate + key)
        context.load_cert_chain(file)
    return context
