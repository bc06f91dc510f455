"""The NATS fixture does to a real server what its names say."""

import asyncio
import signal
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.processes import ProcessFailed, living_children

pytestmark = pytest.mark.nats


async def connected(server: NatsServer) -> Client:
    return await nats.connect(server.url, connect_timeout=2, allow_reconnect=False)


async def stored(server: NatsServer) -> int:
    client = await connected(server)
    try:
        info = await client.jetstream().stream_info("KEPT")
        return info.state.messages
    finally:
        await client.close()


async def store_one(server: NatsServer) -> None:
    client = await connected(server)
    try:
        stream = client.jetstream()
        await stream.add_stream(name="KEPT", subjects=["kept.>"])
        await stream.publish("kept.one", b"1")
    finally:
        await client.close()


async def test_two_servers_choose_different_ports(nats_server: NatsServer, tmp_path: Path):
    async with NatsServer(tmp_path / "second") as second:
        assert second.port != nats_server.port


@pytest.mark.parametrize("hard", [False, True], ids=["clean", "kill -9"])
async def test_a_restart_keeps_the_data_and_the_port(nats_server: NatsServer, *, hard: bool):
    await store_one(nats_server)
    before = (nats_server.url, nats_server.pid)

    await nats_server.restart(hard=hard)

    assert nats_server.url == before[0]
    assert nats_server.pid != before[1]
    assert await stored(nats_server) == 1


async def test_a_server_that_lost_all_data_has_no_streams(nats_server: NatsServer):
    await store_one(nats_server)

    await nats_server.lose_all_data()

    client = await connected(nats_server)
    assert await client.jetstream().streams_info() == []
    await client.close()


async def test_wiping_a_running_server_is_refused(nats_server: NatsServer):
    with pytest.raises(RuntimeError, match="stop or kill it"):
        nats_server.wipe()


async def test_a_paused_server_answers_nothing_until_it_is_resumed(nats_server: NatsServer):
    """Raw protocol: a client library has opinions of its own about a silent server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", nats_server.port)
    assert (await reader.readline()).startswith(b"INFO ")

    nats_server.pause()
    writer.write(b"CONNECT {}\r\nPING\r\n")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await reader.readline()
    nats_server.resume()

    async with asyncio.timeout(5):
        assert await reader.readline() == b"+OK\r\n"
        assert await reader.readline() == b"PONG\r\n"
    writer.close()
    await writer.wait_closed()


async def test_users_and_permissions_come_from_the_given_configuration(tmp_path: Path):
    """Raw protocol: a refused nats-py client leaves its socket open behind it."""
    config = 'authorization { users: [ { user: "ann", password: "secret" } ] }'
    answers: dict[str, bytes] = {}
    async with NatsServer(tmp_path, config=config) as server, asyncio.timeout(5):
        for password in ("secret", "wrong"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await reader.readline()
            options = f'{{"verbose":false,"user":"ann","pass":"{password}"}}'
            writer.write(f"CONNECT {options}\r\nPING\r\n".encode())
            answers[password] = await reader.readline()
            writer.close()
            await writer.wait_closed()

    assert answers == {"secret": b"PONG\r\n", "wrong": b"-ERR 'Authorization Violation'\r\n"}


async def test_without_jetstream_there_is_no_store(tmp_path: Path):
    async with NatsServer(tmp_path, jetstream=None) as server:
        assert not server.store.exists()


async def test_a_server_that_cannot_start_fails_at_once_and_shows_its_log(tmp_path: Path):
    server = NatsServer(tmp_path, config="no_such_option: 1")

    with pytest.raises(ProcessFailed, match="no_such_option"):
        async with asyncio.timeout(5):
            await server.start()
    assert not server.running


async def test_the_server_is_gone_and_reaped_at_the_end(tmp_path: Path):
    async with NatsServer(tmp_path) as server:
        pid = server.pid
        server.pause()

    assert not server.running
    assert pid not in {child.pid for child in living_children()}
    assert server._child is not None
    assert server._child.returncode == -signal.SIGKILL


async def test_one_server_can_be_shared_by_tests_that_only_use_it(shared_nats_server: NatsServer):
    client = await connected(shared_nats_server)
    await client.flush(timeout=2)
    await client.close()
