"""An API server that says what the test wants it to say, also what no real one would.

It speaks list and watch over plain HTTP for every kind; all kinds but the scripted one are
empty. A real server behind a proxy that caches, or one of several that lags behind, may show
an old object or an old list: this one does so on purpose.
"""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from stromboli.api.kinds import Kind
from stromboli.testkit.waiting import eventually

__all__ = ["ScriptedApi", "ScriptedList"]

_END = b""


class ScriptedList(msgspec.Struct, frozen=True):
    """One answer to a list request."""

    resource_version: str
    items: tuple[dict[str, Any], ...] = ()


class ScriptedApi:
    """Serves one kind from a script: `listed` answers lists, `send` feeds the watch."""

    def __init__(self, directory: Path, kind: Kind[Any]) -> None:
        self.kubeconfig = directory / "scripted-kubeconfig.yaml"
        self._path = kind.path()
        self._lists: list[ScriptedList] = [ScriptedList("1")]
        self._watches: list[asyncio.Queue[bytes]] = []
        self.lists_served = 0
        self.watched_from: list[str] = []
        self._runner: web.AppRunner | None = None

    def will_list(self, *answers: ScriptedList) -> None:
        """Answer the next lists with these, and all later ones with the last."""
        self._lists = list(answers)

    async def send(self, event: str, item: dict[str, Any]) -> None:
        """Report an event to whoever watches; waits until somebody does."""
        await self._to_watchers(msgspec.json.encode({"type": event, "object": item}) + b"\n")

    async def lose_history(self) -> None:
        """The running watch ends with 410."""
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        await self.send("ERROR", status)
        await self.end_watch()

    async def end_watch(self) -> None:
        """The running watch ends, as every watch does some time."""
        await self._to_watchers(_END)

    async def _to_watchers(self, line: bytes) -> None:
        await eventually(lambda: bool(self._watches), describe="somebody to watch")
        for queue in self._watches:
            queue.put_nowait(line)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        is_scripted = request.path == self._path
        if request.query.get("watch") != "true":
            return self._list(is_scripted=is_scripted)
        if is_scripted:
            self.watched_from.append(request.query["resourceVersion"])
        return await self._watch(request, is_scripted=is_scripted)

    def _list(self, *, is_scripted: bool) -> web.Response:
        answer = ScriptedList("1")
        if is_scripted:
            self.lists_served += 1
            answer = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        body = {
            "kind": "List",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": answer.resource_version},
            "items": answer.items,
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def _watch(self, request: web.Request, *, is_scripted: bool) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue(1000)
        if is_scripted:
            self._watches.append(queue)
        try:
            while line := await queue.get():
                await response.write(line)
        finally:
            if is_scripted:
                self._watches.remove(queue)
        return response

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.kubeconfig.write_text(
            f"""\
apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "http://{host}:{port}"}}}}]
users: [{{name: test, user: {{}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
current-context: test
"""
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
