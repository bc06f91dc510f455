"""A real server on a real socket for every test that asks for one, and a client to talk to it."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stromboli.sandbox import SandboxConfig, SandboxServer

DEADLINE_S = 10.0
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Reply:
    """A response, with the parts tests look at."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.text = text

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.text)

    @property
    def message(self) -> str:
        return self.body["message"]

    @property
    def reason(self) -> str:
        return self.body.get("reason", "")

    @property
    def meta(self) -> dict[str, Any]:
        return self.body["metadata"]

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def fields(self) -> list[str]:
        return [cause["field"] for cause in self.body["details"]["causes"]]

    @property
    def cells(self) -> list[list[Any]]:
        return [row["cells"] for row in self.body["rows"]]

    @property
    def headings(self) -> list[str]:
        """The columns that are shown without `-o wide`."""
        columns = self.body["columnDefinitions"]
        return [column["name"] for column in columns if column["priority"] == 0]


class Events:
    """An open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_S):
            line = await self._response.content.readline()
        assert line, "the watch ended"
        return json.loads(line)

    async def seen(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    async def rest(self) -> list[dict[str, Any]]:
        """Everything until the server ends the watch."""
        async with asyncio.timeout(DEADLINE_S):
            text = await self._response.text()
        return [json.loads(line) for line in text.splitlines()]

    def close(self) -> None:
        self._response.close()


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self.session = session
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._watches: list[Events] = []

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accept: str = "*/*",
    ) -> Reply:
        headers = {**self._headers, "Accept": accept}
        data: io.BytesIO | None = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        async with (
            asyncio.timeout(DEADLINE_S),
            self.session.request(method, self.url + path, data=data, headers=headers) as response,
        ):
            return Reply(response.status, await response.text())

    async def get(self, path: str) -> Reply:
        return await self.call("GET", path)

    async def table(self, path: str) -> Reply:
        return await self.call("GET", path, accept=TABLE)

    async def post(self, path: str, body: object) -> Reply:
        return await self.call("POST", path, body)

    async def put(self, path: str, body: object) -> Reply:
        return await self.call("PUT", path, body)

    async def merge(self, path: str, body: object) -> Reply:
        return await self.call("PATCH", path, body, content_type=MERGE)

    async def json_patch(self, path: str, body: object) -> Reply:
        return await self.call("PATCH", path, body, content_type=JSON_PATCH)

    async def delete(self, path: str, body: object = None) -> Reply:
        return await self.call("DELETE", path, body)

    async def made(self, path: str, body: object) -> Reply:
        reply = await self.post(path, body)
        assert reply.code == 201, reply.text
        return reply

    async def watch(self, path: str, query: str = "", *, accept: str = "*/*") -> Events:
        joint = "&" if "?" in path else "?"
        url = f"{self.url}{path}{joint}watch=1&{query}"
        async with asyncio.timeout(DEADLINE_S):
            headers = {**self._headers, "Accept": accept}
            response = await self.session.get(url, headers=headers)
        assert response.status == 200, await response.text()
        self._watches.append(Events(response))
        return self._watches[-1]

    def close_watches(self) -> None:
        for events in self._watches:
            events.close()

    async def revision(self) -> str:
        return (await self.get("/api/v1/namespaces")).meta["resourceVersion"]

    async def until(self, path: str, holds: Callable[[Reply], bool]) -> Reply:
        """Ask until the answer is as expected; for what happens in the background."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                reply = await self.get(path)
                if holds(reply):
                    return reply
                await asyncio.sleep(0.01)


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait for something that happens in the background of this process."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/demo.io/v1/namespaces/default/widgets"


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: object) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    containers = [{"name": "main", "image": "busybox:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def config_map(name: str, **metadata: object) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


def binding(name: str, node: str = "n1", **metadata: object) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


def widget(name: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "demo.io/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


def widget_definition(**changes: object) -> dict[str, Any]:
    spec_schema: dict[str, Any] = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 10},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-validations": [{"rule": "self.size >= 0"}],
    }
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": spec_schema,
            "status": {
                "type": "object",
                "properties": {"phase": {"type": "string", "enum": ["On", "Off"]}},
            },
        },
    }
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.demo.io"},
        "spec": {
            "group": "demo.io",
            "scope": "Namespaced",
            "names": {
                "plural": "widgets",
                "kind": "Widget",
                "shortNames": ["wd"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                },
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": False,
                    "schema": {"openAPIV3Schema": loose},
                },
            ],
            **changes,
        },
    }


@pytest.fixture
def config(tmp_path: Path) -> SandboxConfig:
    """Plain HTTP: what TLS adds has tests of its own."""
    return SandboxConfig(data_dir=tmp_path / "data", tls=False)


@pytest.fixture
async def server(config: SandboxConfig) -> AsyncIterator[SandboxServer]:
    async with SandboxServer(config) as running:
        yield running


@pytest.fixture
async def client(server: SandboxServer) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        talking = Client(session, server.url, server.token)
        yield talking
        talking.close_watches()


@pytest.fixture
async def widgets(client: Client) -> Client:
    """A client of a server that knows Widgets."""
    await client.made(DEFINITIONS, widget_definition())
    return client
