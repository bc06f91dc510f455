import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from tests.unit.sandbox.conftest import (
    CONFIG_MAPS,
    DEADLINE_S,
    PODS,
    Client,
    config_map,
    eventually,
    pod,
)

from stromboli.sandbox import SandboxServer
from stromboli.sandbox.audit import AuditLog
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.paths import Target
from stromboli.sandbox.requests import Answer


async def test_a_body_above_the_limit_is_refused(client: Client) -> None:
    body = {"metadata": {"name": "a"}, "data": {"x": "y" * 4_000_000}}

    reply = await client.post(CONFIG_MAPS, body)

    assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge")
    assert (await client.get(CONFIG_MAPS)).names == []


async def test_a_body_that_does_not_say_its_length_is_measured_too(
    client: Client, server: SandboxServer
) -> None:
    async def endless() -> object:
        for _ in range(100):
            yield b"x" * 100_000

    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    try:
        async with client.session.post(
            server.url + CONFIG_MAPS, data=endless(), headers=headers
        ) as response:
            assert response.status == 413
    except aiohttp.ClientError:
        pass  # the server may close before all was sent
    assert (await client.get(CONFIG_MAPS)).names == []


@pytest.mark.parametrize("depth", [300, 950, 5_000, 200_000])
async def test_deep_nesting_is_stored_or_refused_but_never_breaks(
    client: Client, depth: int
) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    body = '{"metadata":{"name":"a"},"involvedObject":{"namespace":"default"},"source":'

    reply = await client.post("/api/v1/namespaces/default/events", f"{body}{nested}}}".encode())

    assert reply.code in {201, 400}
    assert (await client.get("/api/v1/namespaces/default/events")).code == 200


async def test_repeated_keys_take_the_last_value(client: Client) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}'

    assert (await client.made(CONFIG_MAPS, body)).body["data"] == {"k": "2"}


@pytest.mark.parametrize(
    "garbage",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/v1/pods HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\xff" + b"\x00" * 100,
    ],
)
async def test_bad_http_gets_a_status_and_the_server_goes_on(
    client: Client, server: SandboxServer, garbage: bytes
) -> None:
    port = int(server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(garbage)
    async with asyncio.timeout(DEADLINE_S):
        answer = await reader.read()
    writer.close()

    assert b" 400 " in answer.split(b"\r\n", 1)[0]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["kind"] == "Status"
    assert (await client.get("/healthz")).code == 200


async def test_an_unforeseen_error_is_told_without_particulars(
    client: Client, server: SandboxServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal's disk goes away: the client sees a 500, the log sees why."""
    await client.made(CONFIG_MAPS, config_map("before"))
    file = server._journal._file
    server._journal._file = -1
    try:
        reply = await client.post(CONFIG_MAPS, config_map("during"))
    finally:
        server._journal._file = file

    assert (reply.code, reply.reason) == (500, "InternalError")
    assert "Traceback" not in reply.text
    assert "Bad file descriptor" not in reply.text
    assert "request.failed" in caplog.messages
    await client.made(CONFIG_MAPS, config_map("after"))
    assert (await client.get(CONFIG_MAPS)).names == ["after", "before"]


async def test_strange_paths_are_not_found(client: Client) -> None:
    for path in (
        "/api/v1/namespaces/default/pods/a/b/c/d",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/default/pods/%00",
        "/apis//v1/things",
        "/api/v1/namespaces/default/pods/..%2f..%2fetc",
    ):
        assert (await client.get(path)).code == 404, path


async def test_a_client_that_leaves_takes_its_watch_with_it(
    client: Client, server: SandboxServer
) -> None:
    events = await client.watch(PODS)
    await client.made(PODS, pod("a"))
    await events.seen(1)
    assert len(server._hub._watchers["pods"]) == 1

    events.close()

    await eventually(lambda: not server._hub._watchers["pods"])


class TestAudit:
    @staticmethod
    def lines(data_dir: Path) -> list[dict[str, object]]:
        text = (data_dir / "audit.log").read_text()
        return [json.loads(line) for line in text.splitlines()]

    async def test_every_write_is_noted_also_the_refused(
        self, client: Client, tmp_path: Path
    ) -> None:
        made = await client.made(PODS, pod("a"))
        bound = {"metadata": {"name": "a"}, "target": {"name": "n7"}}
        await client.made(f"{PODS}/a/binding", bound)
        await client.post(f"{PODS}/a/binding", bound)
        await client.merge(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
        await client.delete(f"{PODS}/a?dryRun=All")
        await client.delete(PODS)
        await client.get(f"{PODS}/a")

        lines = self.lines(tmp_path / "data")
        told = [(line["verb"], line.get("subresource", ""), line["code"]) for line in lines]
        assert told == [
            ("create", "", 201),
            ("create", "binding", 201),
            ("create", "binding", 409),
            ("patch", "", 200),
            ("delete", "", 200),
            ("deletecollection", "", 200),
        ]
        created, bind, refused, _, dry, _ = lines
        assert created["user"] == "stromboli-admin"
        assert created["uid"] == made.meta["uid"]
        assert created["resourceVersion"] == made.meta["resourceVersion"]
        assert (bind["node"], bind["name"], bind["uid"]) == ("n7", "a", made.meta["uid"])
        assert int(str(bind["resourceVersion"])) == int(made.meta["resourceVersion"]) + 1
        assert refused["reason"] == "Conflict"
        assert dry["dryRun"] is True

    async def test_who_was_not_let_in_is_noted_without_a_name(
        self, client: Client, server: SandboxServer, tmp_path: Path
    ) -> None:
        async with client.session.post(server.url + PODS, json=pod("a")) as response:
            assert response.status == 401

        (line,) = self.lines(tmp_path / "data")
        assert (line["user"], line["code"], line["reason"]) == ("", 401, "Unauthorized")

    def test_a_full_file_makes_room_and_the_one_before_is_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "audit.log"
        log = AuditLog(path, Clock(), max_bytes=1000)
        for number in range(50):
            answer = Answer(201, b"", name=f"c-{number}")
            log.write("POST", Target("", "v1", "configmaps"), None, answer)
        log.close()

        kept = [*path.with_name("audit.log.1").read_text().splitlines()]
        kept += path.read_text().splitlines()
        names = [json.loads(line)["name"] for line in kept]
        assert path.stat().st_size <= 1000
        assert names == [f"c-{number}" for number in range(50 - len(names), 50)]
        assert 5 < len(names) < 50
