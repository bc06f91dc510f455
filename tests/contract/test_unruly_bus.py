"""The bus in memory answers as nats-server does: the same calls to both, and the same answers."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from nats.aio.msg import Msg

from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.delivery import place_of
from stromboli.runtime.bus.errors import JetStreamError, PublishRefused
from stromboli.runtime.bus.jetstream import NANOSECONDS, JetStream
from stromboli.runtime.bus.publisher import (
    EXPECTED_LAST_ON,
    MESSAGE_ID,
    MESSAGE_TTL,
    publishing,
)
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.fault_plan import FaultPlan
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.unruly_bus import UnrulyBus
from stromboli.testkit.virtual_time import Process, VirtualClock, run_virtually
from stromboli.testkit.waiting import eventually

Script = Callable[[Bus], Awaitable[list[object]]]

_FACTS = {
    "name": "FACTS",
    "subjects": ["facts.>"],
    "retention": "limits",
    "storage": "file",
    "max_msgs_per_subject": 1,
    "duplicate_window": 2 * NANOSECONDS,
    "allow_msg_ttl": True,
    "subject_delete_marker_ttl": NANOSECONDS,
    "allow_rollup_hdrs": True,
}
_QUEUE = {
    "name": "QUEUE",
    "subjects": ["queue.>"],
    "retention": "workqueue",
    "storage": "file",
    "discard": "new",
}


async def failure_of(work: Awaitable[object]) -> object:
    """What came out, in a form that both servers can have in common."""
    try:
        return await work
    except JetStreamError as problem:
        return (problem.code, problem.error_code, problem.description)
    except PublishRefused as problem:
        return (type(problem).__name__, problem.code, problem.description)


async def streams(bus: Bus) -> list[object]:
    jetstream = bus.jetstream
    created = await jetstream.create_stream(_FACTS)
    again = await jetstream.create_stream(_FACTS)
    updated = await jetstream.update_stream({**_FACTS, "max_msgs_per_subject": 2})
    return [
        await failure_of(jetstream.stream_info("NONE")),
        created.created == again.created == updated.created,
        updated.config["max_msgs_per_subject"],
        await failure_of(jetstream.create_stream({**_FACTS, "max_msgs_per_subject": 3})),
        created.state.last_seq,
        created.state.messages,
    ]


async def expectations(bus: Bus) -> list[object]:
    await bus.jetstream.create_stream(_FACTS)
    publish = bus.publisher.publish
    on_a = {EXPECTED_LAST_ON: "facts.a"}
    return [
        await failure_of(publish("facts.a", b"1", expect_last=0)),
        await failure_of(publish("facts.a", b"2", expect_last=0)),
        await failure_of(publish("facts.a", b"2", expect_last=1)),
        await failure_of(publish("facts.b", b"1", headers=on_a, expect_last=1)),
        await failure_of(publish("facts.b", b"1", headers=on_a, expect_last=2)),
        await failure_of(publish("nobody.stores.this", b"1")),
        await failure_of(bus.jetstream.last_message("FACTS", "facts.a")),
        await failure_of(bus.jetstream.last_message("FACTS", "facts.c")),
        await failure_of(bus.jetstream.last_message("NONE", "facts.c")),
        await bus.jetstream.subjects("FACTS", "facts.*"),
        (await bus.jetstream.stream_info("FACTS")).state.messages,
    ]


async def message_ids(bus: Bus) -> list[object]:
    await bus.jetstream.create_stream(_FACTS)
    await bus.jetstream.create_stream(_QUEUE)
    publish = bus.publisher.publish
    answers: list[object] = [
        await publish("facts.a", b"1", message_id="one"),
        await publish("facts.a", b"1", message_id="one"),
        await publish("facts.b", b"2", message_id="one"),
        # An expectation is looked at first, also when the message is a duplicate.
        await failure_of(publish("facts.a", b"1", message_id="one", expect_last=77)),
        # What was refused has not used up its id.
        await failure_of(publish("facts.a", b"1", message_id="two", expect_last=77)),
        await failure_of(publish("facts.a", b"1", message_id="two", expect_last=1)),
        await failure_of(publish("queue.a", b"1", message_id="one")),
        await failure_of(publish("queue.a", b"1", ttl_s=1)),
    ]
    stored = await bus.jetstream.last_message("FACTS", "facts.a")
    assert stored is not None
    return [*answers, stored.headers.get(MESSAGE_ID)]


async def lives(bus: Bus) -> list[object]:
    await bus.jetstream.create_stream(_FACTS)
    await bus.publisher.publish("facts.a", b"1", ttl_s=1)
    heard = _Heard()
    async with _reading(bus, heard):
        await heard.until(2)
        # The marker has a life too, after which nothing stands there.
        await eventually(lambda: _is_gone(bus))
    marker = heard.messages[1]
    return [
        (marker.subject, marker.sequence, marker.payload),
        (marker.headers["Nats-Marker-Reason"], marker.headers[MESSAGE_TTL]),
        await failure_of(bus.publisher.publish("facts.a", b"2", expect_last=0)),
    ]


async def _is_gone(bus: Bus) -> bool:
    return await bus.jetstream.last_message("FACTS", "facts.a") is None


async def reading(bus: Bus) -> list[object]:
    await bus.jetstream.create_stream({**_FACTS, "max_msgs_per_subject": -1})
    for number in range(3):
        await bus.publisher.publish(f"facts.{number}.x", b"%d" % number, headers={"A": "b"})
    heard = _Heard(first=2)
    async with _reading(bus, heard, filters=["facts.*.x", "facts.other"]):
        await heard.until(2)
        await bus.publisher.publish("facts.none", b"")
        await bus.publisher.publish("facts.other", b"4")
        await heard.until(3)
    return [
        heard.caught_up_after,
        [(m.subject, m.sequence, m.payload, m.headers, m.pending) for m in heard.messages],
    ]


async def the_last_of_each_subject(bus: Bus) -> list[object]:
    await bus.jetstream.create_stream({**_FACTS, "max_msgs_per_subject": -1})
    for subject in ("facts.a", "facts.b", "facts.a", "facts.c"):
        await bus.publisher.publish(subject, b"")
    places: list[object] = []

    async def take(message: Msg) -> None:
        places.append((message.subject, place_of(message.reply)._replace(timestamp_ns=0)))

    inbox = bus.connection.new_inbox("last")
    await bus.connection.subscribe(inbox, take)
    config = {
        "name": "last",
        "deliver_subject": inbox,
        "deliver_policy": "last_per_subject",
        "ack_policy": "none",
        "filter_subjects": ["facts.a", "facts.b", "facts.d"],
    }
    created = await bus.jetstream.create_consumer("FACTS", config)
    await eventually(lambda: len(places) == 2)
    await bus.publisher.publish("facts.c", b"")
    await bus.publisher.publish("facts.d", b"")
    await eventually(lambda: len(places) == 3)
    return [created.num_pending, places]


async def a_work_queue(bus: Bus) -> list[object]:
    jetstream, answers = bus.jetstream, list[object]()
    await jetstream.create_stream(_QUEUE)
    for number in range(4):
        await bus.publisher.publish(f"queue.{number}", b"%d" % number)
    first = await _Queue.listen(bus, "first", max_ack_pending=2, ack_wait_s=1.0)
    answers += [
        first.pending,
        await failure_of(_Queue.listen(bus, "second", max_ack_pending=2, ack_wait_s=1.0)),
        await jetstream.consumer_names("QUEUE"),
        await first.take(2),
    ]
    await first.acknowledge(0, b"+ACK")
    # Room for one more; then those that were not acknowledged come again.
    answers += [await first.take(1), (await jetstream.stream_info("QUEUE")).state.messages]
    answers += [await first.take(2)]
    await jetstream.delete_consumer("QUEUE", "first")
    answers += [await failure_of(jetstream.delete_consumer("QUEUE", "first"))]
    # Whoever comes next gets all that is left, in order, as if for the first time.
    third = await _Queue.listen(bus, "third", max_ack_pending=10, ack_wait_s=30.0)
    answers += [await third.take(3)]
    for index in range(3):
        await third.acknowledge(index, b"+ACK")
    await bus.publisher.publish("queue.9", b"9")
    answers += [await third.take(1)]
    state = (await jetstream.stream_info("QUEUE")).state
    answers += [state.messages, state.first_seq, state.last_seq]
    return answers


async def heartbeats(bus: Bus) -> list[object]:
    await bus.jetstream.create_stream(_QUEUE)
    queue = await _Queue.listen(bus, "beating", max_ack_pending=2, ack_wait_s=30.0, heartbeat_s=0.2)
    await bus.publisher.publish("queue.1", b"1")
    await queue.take(1)
    await eventually(lambda: (queue.beat or {}).get("Nats-Last-Consumer") == "1")
    assert queue.beat is not None
    return [sorted(queue.beat.items()), queue.beat_reply]


class _Heard:
    """A listener that keeps everything."""

    def __init__(self, first: int = 1) -> None:
        self._first = first
        self.messages: list[LogMessage] = []
        self.caught_up_after: list[int] = []
        self._news = asyncio.Event()

    def attach(self, position: LogPosition) -> int:
        del position
        return self._first

    def apply(self, message: LogMessage) -> None:
        self.messages.append(message)
        self._news.set()

    def caught_up(self) -> None:
        self.caught_up_after.append(len(self.messages))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.messages) < count:
                self._news.clear()
                await self._news.wait()


@contextlib.asynccontextmanager
async def _reading(
    bus: Bus, heard: _Heard, *, filters: tuple[str, ...] | list[str] = ()
) -> AsyncGenerator[None]:
    reader = LogReader(bus.connection, bus.clock, stream="FACTS", filters=filters, listener=heard)
    task = asyncio.create_task(reader.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class _Queue:
    """A consumer of the work queue, and what it was sent."""

    def __init__(self, connection: BusConnection) -> None:
        self._connection = connection
        self._messages: list[Msg] = []
        self._taken = 0
        self._news = asyncio.Event()
        self.beat: dict[str, str] | None = None
        self.beat_reply = ""
        self.pending = -1

    @classmethod
    async def listen(
        cls, bus: Bus, name: str, *, max_ack_pending: int, ack_wait_s: float, heartbeat_s: float = 5
    ) -> "_Queue":
        queue = cls(bus.connection)
        inbox = bus.connection.new_inbox(name)
        await bus.connection.subscribe(inbox, queue._take)
        created = await bus.jetstream.create_consumer(
            "QUEUE",
            {
                "name": name,
                "deliver_subject": inbox,
                "deliver_policy": "all",
                "ack_policy": "explicit",
                "ack_wait": int(ack_wait_s * NANOSECONDS),
                "max_ack_pending": max_ack_pending,
                "max_deliver": -1,
                "filter_subject": "queue.>",
                "idle_heartbeat": int(heartbeat_s * NANOSECONDS),
                "inactive_threshold": 60 * NANOSECONDS,
            },
        )
        queue.pending = created.num_pending
        return queue

    async def _take(self, message: Msg) -> None:
        headers: dict[str, str] = message.headers or {}
        if headers.get("Status") == "100":
            self.beat, self.beat_reply = headers, message.reply
            return
        self._messages.append(message)
        self._news.set()

    async def take(self, count: int) -> list[object]:
        async with asyncio.timeout(5):
            while len(self._messages) < self._taken + count:
                self._news.clear()
                await self._news.wait()
        new = self._messages[self._taken :]
        self._taken = len(self._messages)
        return [(m.subject, m.data, place_of(m.reply)._replace(timestamp_ns=0)) for m in new]

    async def acknowledge(self, index: int, how: bytes) -> None:
        await self._connection.publish(self._messages[index].reply, how)


async def _in_memory(script: Script) -> list[object]:
    process, clock = Process("test"), VirtualClock()
    bus = UnrulyBus(FaultPlan(random.Random(0), active=False))
    link, connection = await bus.connect("gateway", process)
    try:
        async with publishing(connection, clock) as publisher:
            return await script(Bus(connection, JetStream(connection), publisher, clock))
    finally:
        link.sever()


@pytest.mark.nats
@pytest.mark.parametrize(
    "script",
    [
        streams,
        expectations,
        message_ids,
        lives,
        reading,
        the_last_of_each_subject,
        a_work_queue,
        heartbeats,
    ],
)
async def test_the_bus_in_memory_answers_as_nats_server_does(
    script: Script, nats_server: NatsServer
) -> None:
    async with join(nats_server) as member:
        real = await script(member)
    assert await asyncio.to_thread(run_virtually, _in_memory(script)) == real
