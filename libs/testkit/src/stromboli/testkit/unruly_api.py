"""The way to the API server, where calls are lost, late, or executed in vain, under `KubeClient`.

It stands where `kube.transport.Transport` stands, so the client, its errors and its watches are
the real ones. A call may be refused before it is begun, executed without an answer, or executed
long after its client has given up, as a server with a slow store does.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from aiohttp.abc import AbstractStreamWriter

from stromboli.kube.client import KubeClient
from stromboli.kube.errors import DeadlineExceeded, Unreachable, error_from_answer
from stromboli.kube.last_look import body_of
from stromboli.kube.settings import Limits
from stromboli.kube.transport import Answer, Transport
from stromboli.testkit.fault_plan import FaultPlan
from stromboli.testkit.memory_cluster import MemoryCluster, Refused, WatchFeed

__all__ = ["UnrulyTransport", "unruly_client"]

_TIMEOUT_S: Final = 30.0
_OVERLOADED: Final = Refused(429, "TooManyRequests", "too many requests").body
_FAILED: Final = Refused(500, "InternalError", "etcdserver: request timed out").body


class _Nowhere:
    """A socket that takes everything."""

    async def write(self, _: bytes) -> None:
        """Forget it."""


class UnrulyTransport:
    """One process's way to the API server."""

    def __init__(self, cluster: MemoryCluster, faults: FaultPlan) -> None:
        self.limits = Limits()
        self.severed = False
        """The process is no more, or the API server is out of its reach."""
        self.calls: list[tuple[str, str]] = []
        self._cluster = cluster
        self._faults = faults
        self._loop = asyncio.get_running_loop()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        **_: object,
    ) -> Answer:
        request, faults = f"{method} {path}", self._faults
        self.calls.append((method, path))
        if self._cluster.is_refused(method, path):
            raise error_from_answer(request, code=429, body=_OVERLOADED)
        if faults.happens(faults.refused_call):
            await asyncio.sleep(faults.delay_s(0.0))
            raise self._refusal(request)
        try:
            await _last_look(body)
        except Exception as problem:
            raise Unreachable(request, str(problem), maybe_applied=method != "GET") from problem
        if self.severed:
            raise Unreachable(request, "connection refused", maybe_applied=False)
        answer: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
        self._execute_later(answer, method, path, query or {}, body)
        try:
            async with asyncio.timeout(timeout_s or _TIMEOUT_S):
                code, content = await answer
        except TimeoutError as late:
            raise DeadlineExceeded(request, "late", maybe_applied=method != "GET") from late
        except ConnectionResetError as reset:
            raise Unreachable(request, "reset", maybe_applied=method != "GET") from reset
        if code >= 300:
            raise error_from_answer(request, code=code, body=content)
        return Answer(code=code, headers={}, body=content)

    def _refusal(self, request: str) -> Exception:
        """What comes back when nothing was done."""
        match self._faults.rng.randrange(3):
            case 0:
                return error_from_answer(request, code=429, body=_OVERLOADED)
            case 1:
                return error_from_answer(request, code=500, body=_FAILED)
            case _:
                return Unreachable(request, "connection refused", maybe_applied=False)

    def _execute_later(
        self,
        answer: "asyncio.Future[tuple[int, bytes]]",
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
    ) -> None:
        faults, cluster = self._faults, self._cluster
        delay_s = faults.delay_s(faults.slow_call) + cluster.slow_s(method, path)
        is_lost = faults.happens(faults.unanswered_call) or cluster.is_unanswered(method, path)
        zombie = faults.zombie_bind if path.endswith("/binding") else 0.0
        zombie = max(zombie, faults.zombie_call)
        if method != "GET" and faults.happens(zombie):
            delay_s, is_lost = faults.rng.uniform(0.1, faults.longest_zombie_s), True
        if is_lost and faults.rng.random() < 0.5:
            # Whoever asked learns at once that it will learn nothing.
            self._loop.call_later(faults.delay_s(0.0), _fail, answer, context=self._cluster.context)

        def execute() -> None:
            cluster.under_way -= 1
            try:
                result = cluster.handle(method, path, query, body)
            except Refused as refused:
                result = refused.code, refused.body
            if is_lost and faults.rng.random() < 0.3:
                result = 500, _FAILED
            elif is_lost:
                return
            if not answer.done():
                answer.set_result(result)

        cluster.under_way += 1
        self._loop.call_later(delay_s, execute, context=cluster.context)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], **_: object
    ) -> AsyncGenerator[WatchFeed]:
        faults = self._faults
        if self.severed or faults.happens(faults.refused_call):
            raise Unreachable(f"GET {path}", "connection refused", maybe_applied=False)
        feed = WatchFeed(lambda: faults.delay_s(faults.late_event), self._cluster.context)
        self._cluster.watch(path, int(query["resourceVersion"]), feed)
        end = self._loop.call_later(
            float(query["timeoutSeconds"]), feed.end, context=self._cluster.context
        )
        if faults.happens(faults.cut_watch):
            self._loop.call_later(
                faults.rng.uniform(0.1, 20.0), feed.end, context=self._cluster.context
            )
        try:
            yield feed
        finally:
            end.cancel()
            self._cluster.unwatch(feed)


def unruly_client(cluster: MemoryCluster, faults: FaultPlan) -> tuple[UnrulyTransport, KubeClient]:
    """The real client on an unruly way."""
    transport = UnrulyTransport(cluster, faults)
    return transport, KubeClient(cast("Transport", transport))


async def _last_look(body: bytes | None) -> None:
    """The look that is taken when the body of a write leaves, and the caller's veto."""
    payload: Any = body_of(body)
    if payload is not None:
        await payload.write_with_length(cast("AbstractStreamWriter", _Nowhere()), None)


def _fail(answer: "asyncio.Future[tuple[int, bytes]]") -> None:
    if not answer.done():
        answer.set_exception(ConnectionResetError())
