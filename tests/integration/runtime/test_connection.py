import asyncio
import contextlib
import gc
import time
from typing import Any

import pytest
from nats.aio.msg import Msg

from stromboli.runtime.bus import connection as connection_module
from stromboli.runtime.bus.client import AbruptClient
from stromboli.runtime.bus.connection import BusSettings, connect
from stromboli.runtime.bus.errors import BusClosed, BusDisconnected, Unanswered
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])]


async def test_a_service_that_starts_before_the_server_waits_for_it(nats_server: NatsServer):
    nats_server.kill()
    joined = asyncio.Event()

    async def member() -> None:
        async with connect(BusSettings(url=nats_server.url), "scheduler") as connection:
            assert connection.connected
            joined.set()

    async with background(member()):
        await nats_server.start()
        async with asyncio.timeout(5):
            await joined.wait()


async def test_the_link_is_watched_and_comes_back(bus: Bus, nats_server: NatsServer):
    seen: list[str] = []
    stop = bus.connection.watch_link(
        reconnected=lambda: seen.append("up"), disconnected=lambda: seen.append("down")
    )

    await nats_server.restart(hard=True)
    await eventually(lambda: seen == ["down", "up"], describe=lambda: f"down and up, saw {seen}")
    stop()
    await nats_server.restart(hard=True)
    await eventually(lambda: bus.connection.reconnects == 2, describe="the second reconnect")

    assert seen == ["down", "up"]


async def test_a_request_ends_when_the_server_dies_under_it(bus: Bus, nats_server: NatsServer):
    nats_server.pause()
    asking = asyncio.create_task(bus.jetstream.stream_info("STATE"))
    await eventually(lambda: bus.connection._requests, describe="the request to be sent")
    nats_server.kill()
    since = time.monotonic()

    with pytest.raises(Unanswered, match="the connection was lost"):
        await asking

    assert time.monotonic() - since < 2
    assert not bus.connection._requests


async def test_a_request_without_an_answer_ends_with_its_timeout(bus: Bus, nats_server: NatsServer):
    nats_server.pause()

    with pytest.raises(Unanswered, match=r"none within 0\.2 s"):
        await bus.connection.request("$JS.API.INFO", b"", timeout_s=0.2)

    nats_server.resume()
    assert (await bus.connection.request("$JS.API.INFO", b"")).data


async def test_a_request_that_nobody_hears_is_told_so_at_once(bus: Bus):
    with pytest.raises(Unanswered, match="nobody listens"):
        await bus.connection.request("nobody.there", b"")


async def test_nothing_is_sent_without_a_connection(bus: Bus, nats_server: NatsServer):
    nats_server.kill()
    await eventually(lambda: not bus.connection.connected, describe="the link to break")

    with pytest.raises(BusDisconnected):
        await bus.connection.publish("vc.history.a.b", b"")
    with pytest.raises(BusDisconnected):
        await bus.connection.request("$JS.API.INFO", b"")


async def test_a_frozen_server_with_full_buffers_is_given_up(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    """A polite close would wait for ever until the server has taken what is buffered."""
    monkeypatch.setattr(connection_module, "_PING_INTERVAL_S", 0.2)
    async with join(nats_server) as bus:
        down = asyncio.Event()
        bus.connection.watch_link(reconnected=lambda: None, disconnected=down.set)
        nats_server.pause()
        for _ in range(40):  # far more than the kernel takes for the two sockets
            await bus.connection.publish("nobody.listens", bytes(1_000_000))

        async with asyncio.timeout(5):
            await down.wait()

        await nats_server.restart(hard=True)
        await eventually(lambda: bus.connection.reconnects == 1, describe="the reconnect")


async def test_whoever_publishes_while_the_socket_breaks_is_not_hurt(bus: Bus):
    """uvloop's closed sockets raise RuntimeErrors, which ended whole services."""
    hurt: list[Exception] = []

    async def publish_after(turns: int) -> None:
        await _turns(turns)
        for _ in range(3):
            try:
                await bus.connection.publish("nobody.listens", b"")
            except BusDisconnected:
                pass
            except Exception as problem:  # noqa: BLE001 (whatever it is)
                hurt.append(problem)

    for turns in range(6):
        async with background(*(publish_after(number) for number in range(8))):
            await _turns(turns)
            _break(bus)
            await _until_reconnected(bus, bus.connection.reconnects + 1)

    assert not hurt


async def test_a_reconnect_whose_socket_breaks_at_any_moment_is_tried_again(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    """nats-py gives up reconnecting, without a word, at an error that it does not expect."""
    monkeypatch.setattr(connection_module, "_RECONNECT_WAIT_S", 0.01)
    opened = 0
    open_connection = asyncio.open_connection

    async def breaking(
        *where: Any, **options: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        nonlocal opened
        reader, writer = await open_connection(*where, **options)
        opened += 1
        breaker.create_task(_break_after(opened, writer))
        return reader, writer

    async with join(nats_server) as bus:
        async with asyncio.TaskGroup() as breaker:
            monkeypatch.setattr(asyncio, "open_connection", breaking)
            _break(bus)
            await eventually(lambda: opened > 60, describe=lambda: f"60 attempts, not {opened}")
            monkeypatch.setattr(asyncio, "open_connection", open_connection)

        await eventually(lambda: _answers(bus), describe="the server to answer again")


def _break(bus: Bus) -> None:
    """End the link as the loop does when a write fails."""
    client = bus.connection._client
    assert isinstance(client, AbruptClient)
    client._drop_socket()


async def _until_reconnected(bus: Bus, times: int) -> None:
    await eventually(lambda: bus.connection.reconnects >= times, describe="the reconnect")


async def _answers(bus: Bus) -> bool:
    try:
        return bool(await bus.connection.request("$JS.API.INFO", b""))
    except (BusDisconnected, Unanswered):
        return False


async def _turns(number: int) -> None:
    """Let the loop go round so many times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def _break_after(turns: int, writer: asyncio.StreamWriter) -> None:
    await _turns(turns)
    writer.transport.abort()


async def test_no_socket_is_left_open_by_attempts_to_reconnect_that_failed_half_way(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    """A frozen server still accepts connections, and then says nothing."""
    monkeypatch.setattr(connection_module, "_PING_INTERVAL_S", 0.1)
    monkeypatch.setattr(connection_module, "_CONNECT_TIMEOUT_S", 0.1)
    opened: list[asyncio.StreamWriter] = []
    open_connection = asyncio.open_connection

    async def noting(
        *where: Any, **options: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await open_connection(*where, **options)
        opened.append(writer)
        return reader, writer

    monkeypatch.setattr(asyncio, "open_connection", noting)
    async with join(nats_server) as bus:
        nats_server.pause()
        await eventually(lambda: len(opened) > 3, describe="several attempts")
        nats_server.resume()
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")

        assert [one for one in opened if not one.transport.is_closing()] == opened[-1:]


async def test_a_reconnect_that_succeeds_just_when_the_connection_ends_leaves_nothing_behind(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    """asyncio.wait_for returns what it got then, and nats-py goes on as if nobody had left."""
    opened: list[asyncio.StreamWriter] = []
    reached = asyncio.Event()
    open_connection = asyncio.open_connection

    async def telling(
        *where: Any, **options: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await open_connection(*where, **options)
        opened.append(writer)
        reached.set()
        return reader, writer

    joined = asyncio.Event()

    async def restart() -> None:
        await joined.wait()
        await nats_server.restart(hard=True)

    monkeypatch.setattr(asyncio, "open_connection", telling)
    async with background(restart()), asyncio.timeout(10):
        async with join(nats_server) as bus:
            client = bus.connection._client
            reached.clear()
            joined.set()
            await reached.wait()
        task, sockets = client._reconnection_task, [one.transport for one in opened]
        left = [one for one in sockets if not one.is_closing()]

    assert task is not None
    assert task.done()
    assert not left


async def test_an_attempt_to_reconnect_ends_when_another_takes_its_place(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    """As where a cancellation gets lost because the link breaks again in that moment."""
    begun = asyncio.Queue[asyncio.Task[Any]]()

    async def lose_a_cancellation() -> None:
        task = asyncio.current_task()
        assert task is not None
        await begun.put(task)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    async with asyncio.timeout(30):
        async with join(nats_server) as bus:
            client = bus.connection._client
            monkeypatch.setattr(client, "_select_next_server", lose_a_cancellation)
            await client._process_op_err(OSError("broken"))
            first = await begun.get()
            client._status = client.CONNECTED
            await client._process_op_err(OSError("broken again"))
            second = await begun.get()
            assert first.done()
        assert second.done()


async def test_what_was_not_on_the_wire_when_the_link_broke_is_never_sent(
    bus: Bus, nats_server: NatsServer
):
    arrived: list[bytes] = []

    async def heard(message: Msg) -> None:
        arrived.append(message.data)

    async with join(nats_server, "operator") as other:
        await other.connection.subscribe("late.>", heard)
        await other.connection.request("$JS.API.INFO", b"")
        nats_server.pause()
        for _ in range(40):
            await bus.connection.publish("nobody.listens", bytes(1_000_000))
        client = bus.connection._client
        await eventually(lambda: not client._pending, describe="the socket to be stuffed")
        for _ in range(10):
            await bus.connection.publish("late.message", b"late")
        await nats_server.restart(hard=True)
        await eventually(lambda: bus.connection.reconnects, describe="us to be back")
        await eventually(lambda: other.connection.reconnects, describe="the other to be back")
        await bus.connection.publish("late.marker", b"marker")
        await eventually(lambda: arrived, describe="the marker")

    assert arrived == [b"marker"]


async def test_a_connection_that_the_server_ends_for_good_ends_its_user(bus: Bus):
    """Only a new process can help: nats-py does not reconnect after such an error."""
    with pytest.raises(BusClosed, match="maximum payload violation"):
        await _use_until_closed(bus)


async def _use_until_closed(bus: Bus) -> None:
    server = BusSettings(url=f"nats://{bus.connection._client.connected_url.netloc}")  # pyright: ignore[reportOptionalMemberAccess]
    async with connect(server, "scheduler") as connection:
        too_much = bytes(connection.max_payload)
        await connection.publish("anything", too_much, headers={"And": "a header"})
        async with asyncio.timeout(5):
            await asyncio.Event().wait()


async def test_leaving_while_the_server_is_frozen_does_not_take_long(nats_server: NatsServer):
    async with join(nats_server) as bus:
        nats_server.pause()
        for _ in range(40):
            await bus.connection.publish("nobody.listens", bytes(1_000_000))
        since = time.monotonic()

    assert time.monotonic() - since < 5


async def test_leaving_in_the_middle_of_connecting_leaves_nothing_behind(nats_server: NatsServer):
    """Warnings about unclosed sockets fail the run."""

    async def member() -> None:
        async with connect(BusSettings(url=nats_server.url), "scheduler"):
            await asyncio.Event().wait()

    for turns in range(40):
        joining = asyncio.create_task(member())
        for _ in range(turns):
            await asyncio.sleep(0)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
    gc.collect()
