"""Tell Kubernetes and people how a service is: /livez, /readyz, /metrics.

Ready means "may be given work"; it is made of named checks, each with a reason that a
person can act on. Alive means "a restart would not help": it fails only when the event
loop has stopped turning or a task that must run has ended, never because NATS or the API
server is away, since restarting us does not bring them back. Checks are plain functions
that look at what is known already; they never wait.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Annotated, Any, Final, Self, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Meta

from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import Rendered
from stromboli.runtime.watchdog import Watchdog

__all__ = ["Check", "Health", "HealthServer", "HealthSettings", "NotReady", "Ok", "Report"]

log = get_logger(__name__)

_PAGES: Final = {
    "/livez": "is the process alive (200) or in need of a restart (503)",
    "/readyz": "may it be given work; ?verbose or Accept: application/json for every check",
    "/metrics": "measurements, for Prometheus",
}


class HealthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The small HTTP server for probes and metrics."""

    host: Annotated[
        str, Meta(description="Address to listen on; 0.0.0.0 in a pod, as the kubelet asks there.")
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    ] = 8080


@dataclass(frozen=True, slots=True)
class Ok:
    """The check is satisfied."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class NotReady:
    """The check is not satisfied, and why."""

    reason: str


CheckResult: TypeAlias = Ok | NotReady
Check: TypeAlias = Callable[[], CheckResult]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of all checks of one kind."""

    checks: Mapping[str, CheckResult]

    @property
    def passed(self) -> bool:
        return all(isinstance(result, Ok) for result in self.checks.values())

    def as_text(self) -> str:
        lines: list[str] = []
        for name, result in self.checks.items():
            match result:
                case Ok(detail):
                    lines.append(f"[+] {name}: {detail or 'ok'}")
                case NotReady(reason):
                    lines.append(f"[-] {name}: {reason}")
        return "\n".join([*lines, "passed" if self.passed else "failed", ""])

    def as_json(self) -> bytes:
        checks = {
            name: {"ok": True, "detail": result.detail}
            if isinstance(result, Ok)
            else {"ok": False, "reason": result.reason}
            for name, result in self.checks.items()
        }
        return msgspec.json.encode({"ok": self.passed, "checks": checks})


@dataclass(slots=True)
class Health:
    """What is known about this process's condition."""

    watchdog: Watchdog | None = None
    _checks: dict[str, Check] = field(default_factory=dict[str, Check])
    _tasks: dict[str, asyncio.Task[Any]] = field(default_factory=dict[str, "asyncio.Task[Any]"])

    def check(self, name: str, probe: Check) -> None:
        """Add a condition of readiness; it is asked at each request."""
        if name in self._checks:
            raise ValueError(f"there is a check named {name!r} already")
        self._checks[name] = probe

    def must_run(self, name: str, task: "asyncio.Task[Any]") -> None:
        """Without this task the process is not alive."""
        self._tasks[name] = task

    def let_tasks_end(self) -> None:
        """The process is stopping: from now on a task that ends is as it should be."""
        self._tasks.clear()

    def readiness(self) -> Report:
        return Report({name: _ask(probe) for name, probe in self._checks.items()})

    def liveness(self) -> Report:
        checks: dict[str, CheckResult] = {}
        if self.watchdog is not None:
            silence = self.watchdog.silence_s
            checks["loop"] = (
                NotReady(f"the event loop has been silent for {silence:.1f} s")
                if self.watchdog.is_stalled
                else Ok(f"longest pause {self.watchdog.longest_pause_s:.3f} s")
            )
        for name, task in self._tasks.items():
            checks[f"task {name}"] = NotReady("it has ended") if task.done() else Ok("running")
        return Report(checks)


def _ask(probe: Check) -> CheckResult:
    try:
        return probe()
    except Exception as error:  # noqa: BLE001 - a broken check is a reason, not a 500
        return NotReady(f"the check itself failed: {type(error).__name__}: {error}")


class HealthServer:
    """Serves the pages while its block is open."""

    def __init__(
        self,
        health: Health,
        settings: HealthSettings,
        *,
        metrics: Callable[[str], Rendered] | None = None,
    ) -> None:
        self._health = health
        self._settings = settings
        self._metrics = metrics
        app = web.Application()
        app.router.add_get("/", self._index)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._render)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self._port: int | None = None

    @property
    def port(self) -> int:
        """The port in use, which differs from the setting if that was 0."""
        if self._port is None:
            raise RuntimeError("the health server is not listening; enter its block first")
        return self._port

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._settings.host, self._settings.port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._port = int(self._runner.addresses[0][1])
        log.info("health.listening", host=self._settings.host, port=self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._port = None
        await self._runner.cleanup()

    async def _index(self, _request: web.Request) -> web.Response:
        return web.Response(text="".join(f"{page}  {what}\n" for page, what in _PAGES.items()))

    async def _livez(self, request: web.Request) -> web.Response:
        return _answer(request, self._health.liveness())

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(request, self._health.readiness())

    async def _render(self, request: web.Request) -> web.Response:
        if self._metrics is None:
            raise web.HTTPNotFound(text="this process has no metrics\n")
        rendered = self._metrics(request.headers.get("Accept", ""))
        return web.Response(body=rendered.body, headers={"Content-Type": rendered.content_type})


def _answer(request: web.Request, report: Report) -> web.Response:
    status = 200 if report.passed else 503
    if "application/json" in request.headers.get("Accept", ""):
        return web.Response(status=status, body=report.as_json(), content_type="application/json")
    # A failure always tells why; success only to those who ask.
    is_verbose = not report.passed or "verbose" in request.query
    return web.Response(status=status, text=report.as_text() if is_verbose else "ok\n")
