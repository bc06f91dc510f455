"""A few objects behind real HTTP, on a server that loses answers when the test says so.

What a bind, a deletion or an eviction does is written by the test as a function: do it or not,
then answer or cut the connection.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stromboli.kube import KubeClient
from stromboli.testkit.scripted_server import serving, whole

__all__ = ["Answer", "Scripted", "an_object", "scripted", "status"]

Answer = tuple[int, Any] | None
"""Code and body; None cuts the connection, so that nobody knows what was done."""
Reaction = Callable[[], Answer]


def status(code: int, reason: str, message: str = "the test wants it") -> Answer:
    return code, {"kind": "Status", "code": code, "reason": reason, "message": message}


def an_object(
    name: str, uid: str = "", *, node: str = "", version: int = 1, **metadata: Any
) -> dict[str, Any]:
    meta = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}"}
    meta |= {"resourceVersion": str(version), **metadata}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}}


@dataclass
class Scripted:
    """What is there, and how requests are answered. Paths end with what they are about."""

    there: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """By the end of the path, `pods/a` say."""
    _reactions: dict[str, list[Reaction]] = field(default_factory=dict[str, list[Reaction]])
    """By method and end of the path, `POST pods/a/binding` say."""
    asked: list[str] = field(default_factory=list[str])
    kube: KubeClient = field(init=False)

    def put(self, plural: str, thing: dict[str, Any]) -> None:
        self.there[f"{plural}/{thing['metadata']['name']}"] = thing

    def on(self, request: str, *reactions: Reaction) -> None:
        """React like this, one time each; the last one is for all that follow."""
        self._reactions[request] = list(reactions)

    def place(self, name: str, node: str, version: int) -> None:
        self.put("pods", an_object(name, node=node, version=version))

    def count(self, request: str) -> int:
        return sum(one.endswith(request) for one in self.asked)

    def _answer(self, method: str, path: str) -> Answer:
        self.asked.append(f"{method} {path}")
        end = path.partition("/namespaces/ns/")[2] or path.rpartition("/v1/")[2]
        if reactions := self._reactions.get(f"{method} {end}"):
            return reactions.pop(0)() if len(reactions) > 1 else reactions[0]()
        if method == "GET" and end in self.there:
            return 200, self.there[end]
        plural, _, name = end.partition("/")
        details = {"kind": plural, "name": name}
        return 404, {"kind": "Status", "code": 404, "reason": "NotFound", "details": details}

    async def respond(
        self, head: str, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        method, target, *_ = head.split()
        answer = self._answer(method, target.partition("?")[0])
        if answer is None:
            writer.close()
            raise ConnectionResetError("cut off, as the test wants")
        code, body = answer
        json = ["Content-Type: application/json"]
        writer.write(whole(msgspec.json.encode(body), code=code, headers=json))


@asynccontextmanager
async def scripted(folder: Path) -> AsyncGenerator[Scripted]:
    server = Scripted()
    async with serving(folder, server.respond) as kube:
        server.kube = kube
        yield server
