import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.facts import KindSynced, ObjectGone, ObjectSeen
from stromboli.contracts.streams import STATE
from stromboli.runtime.bus import reader as reader_module
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.bus.streams import reconcile
from stromboli.runtime.bus.view import Delta, View
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


@dataclass
class Seen:
    """What a view told its observer."""

    deltas: list[Delta[int]] = field(default_factory=list[Delta[int]])
    synced_kinds: list[str] = field(default_factory=list[str])
    bad: list[str] = field(default_factory=list[str])

    def changed(self, delta: Delta[int]) -> None:
        self.deltas.append(delta)

    def synced(self, kind: str) -> None:
        self.synced_kinds.append(kind)

    def unreadable(self, message: LogMessage, reason: str) -> None:
        self.bad.append(message.subject)

    @property
    def story(self) -> list[tuple[str, int | None, int | None]]:
        """(name, old, new) of every change, in order."""
        return [
            (d.name, d.old.object if d.old else None, d.new.object if d.new else None)
            for d in self.deltas
        ]


def decode(kind: str, projection: msgspec.Raw) -> int:
    return msgspec.msgpack.decode(projection, type=int)


def seen(name: str, value: int, *, kind: str = "pod") -> ObjectSeen:
    return ObjectSeen(
        kind=kind,
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        resource_version=str(value),
        projection=msgspec.Raw(msgspec.msgpack.encode(value)),
    )


def gone(name: str, value: int) -> ObjectGone:
    return ObjectGone(
        kind="pod",
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        resource_version=str(value),
        projection=msgspec.Raw(msgspec.msgpack.encode(value)),
    )


async def say(bus: Bus, *facts: ObjectSeen | ObjectGone | KindSynced) -> None:
    """Publish as many times as it takes: a test kills the server while facts are written."""
    for fact in facts:
        async with asyncio.timeout(20):
            while True:
                try:
                    await bus.publisher.publish(fact.subject(), codec.encode(fact))
                    break
                except BusError:
                    await asyncio.sleep(0.05)


async def mark(bus: Bus, *kinds: str) -> None:
    """Say that the list of each kind is complete on the STATE that is there now."""
    info = await bus.jetstream.stream_info("STATE")
    for kind in kinds or ("pod",):
        await say(
            bus,
            KindSynced(kind=kind, incarnation=info.created, resource_version="1", count=0),
        )


@dataclass
class Following:
    """A view that a reader feeds."""

    view: View[int]
    seen: Seen
    reader: LogReader

    @property
    def values(self) -> dict[str, int]:
        return {
            name: entry.object
            for kind in self.view.kinds
            for (_, name), entry in self.view.objects(kind).items()
        }

    async def until(self, values: dict[str, int], deadline_s: float = 15) -> None:
        await eventually(
            lambda: self.values == values,
            deadline_s=deadline_s,
            describe=lambda: f"{values}, have {self.values}",
        )


@contextlib.asynccontextmanager
async def following(
    bus: Bus,
    *,
    kinds: Sequence[str] = ("pod",),
    filters: Sequence[str] = (),
    heartbeat_s: float = 0.25,
) -> AsyncGenerator[Following]:
    observer = Seen()
    view = View(kinds, decode, observer)
    reader = LogReader(
        bus.connection,
        bus.clock,
        stream="STATE",
        filters=filters,
        listener=view,
        heartbeat_s=heartbeat_s,
    )
    async with background(reader.run()):
        yield Following(view, observer, reader)


async def test_what_stands_there_is_replayed_and_what_comes_follows(bus: Bus):
    await say(bus, seen("a", 1), seen("a", 2), seen("b", 1))
    await mark(bus)
    async with following(bus) as it:
        await it.until({"a": 2, "b": 1})
        await eventually(lambda: it.seen.synced_kinds == ["pod"], describe="the sync")
        await say(bus, seen("c", 1), seen("a", 3), gone("b", 2))
        await it.until({"a": 3, "c": 1})

    assert it.seen.story == [
        ("a", None, 2),
        ("b", None, 1),
        ("c", None, 1),
        ("a", 2, 3),
        ("b", 1, None),
    ]
    assert it.reader.resets == 0


async def test_an_empty_state_is_not_an_empty_cluster(bus: Bus):
    async with following(bus) as it:
        await eventually(lambda: not it.view._replaying, describe="the end of the replay")
        assert it.view.unsynced == ("pod",)

        await mark(bus)

        await eventually(lambda: not it.view.unsynced, describe="the sync")
        assert it.values == {}


async def test_a_marker_of_another_incarnation_does_not_sync(bus: Bus):
    await say(bus, KindSynced(kind="pod", incarnation="2020-01-01", resource_version="1", count=0))
    async with following(bus) as it:
        await eventually(lambda: it.view.sequence == 1, describe="the old marker")
        await eventually(lambda: not it.view._replaying, describe="the end of the replay")

        assert it.view.unsynced == ("pod",)


async def test_only_what_the_filters_name_is_read(bus: Bus):
    await say(bus, seen("p", 1), seen("n", 1, kind="node"), seen("q", 1, kind="queue"))
    await mark(bus, "pod", "queue", "node")
    filters = [
        "vc.state.pod.>",
        "vc.state.queue.>",
        "vc.state.sync.-.pod",
        "vc.state.sync.-.queue",
    ]
    async with following(bus, kinds=["pod", "queue", "node"], filters=filters) as it:
        await eventually(lambda: it.view.unsynced == ("node",), describe="pod and queue synced")
        assert it.values == {"p": 1, "q": 1}

        await say(bus, seen("n", 2, kind="node"), seen("p", 2))
        await it.until({"p": 2, "q": 1})

    async with following(bus, filters=["vc.state.pod.>"]) as it:
        await it.until({"p": 2})


async def test_a_killed_server_is_read_on_without_loss_or_repetition(
    bus: Bus, nats_server: NatsServer
):
    await say(bus, *(seen(f"p{n}", 1) for n in range(20)))
    await mark(bus)
    async with following(bus, heartbeat_s=1.0) as it:
        await eventually(lambda: not it.view.unsynced, describe="the sync")
        before = it.view.incarnation
        for round_ in (2, 3):
            await nats_server.restart(hard=True)
            since = time.monotonic()
            await say(bus, seen("p0", round_))
            await eventually(
                lambda expected=round_: it.values["p0"] == expected, describe="news after the kill"
            )
            assert time.monotonic() - since < 3

        assert it.view.incarnation == before
        assert not it.view.unsynced

    assert it.seen.story == [
        *((f"p{n}", None, 1) for n in range(20)),
        ("p0", 1, 2),
        ("p0", 2, 3),
    ]


async def test_facts_written_while_the_server_dies_again_and_again_all_arrive(
    bus: Bus, nats_server: NatsServer
):
    async def write() -> None:
        for value in range(1, 60):
            await say(bus, seen("a", value), seen("b", value))

    async with following(bus) as it:
        async with background(write()) as (writing,):
            for kill_at in (10, 25, 40):
                await eventually(
                    lambda at=kill_at: it.values.get("a", 0) >= at, describe=f"fact {kill_at}"
                )
                await nats_server.restart(hard=True)
            async with asyncio.timeout(20):
                await writing
        await it.until({"a": 59, "b": 59})

    for name in ("a", "b"):
        news = [new for who, _, new in it.seen.story if who == name and new is not None]
        assert news == sorted(news), "a view never goes back"


async def test_a_frozen_server_is_read_on_when_it_thaws(bus: Bus, nats_server: NatsServer):
    await say(bus, seen("a", 1))
    async with following(bus, heartbeat_s=0.2) as it:
        await it.until({"a": 1})
        await eventually(lambda: it.reader.attached, describe="the reader to be attached")
        nats_server.pause()
        await eventually(lambda: it.reader.resets == 1, deadline_s=5, describe="the silence")
        nats_server.resume()
        await say(bus, seen("a", 2))
        await it.until({"a": 2})

    assert it.seen.story == [("a", None, 1), ("a", 1, 2)]


async def test_after_a_total_loss_objects_stay_until_the_new_list_is_complete(
    bus: Bus, nats_server: NatsServer
):
    await say(bus, seen("kept", 1), seen("lost", 1), *(seen(f"x{n}", 1) for n in range(30)))
    await mark(bus)
    async with following(bus) as it:
        await eventually(lambda: not it.view.unsynced, describe="the sync")
        old = it.view.incarnation
        await nats_server.lose_all_data()
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        await reconcile(bus.jetstream, [STATE])
        await eventually(lambda: it.view.incarnation not in {"", old}, describe="the new log")
        assert it.view.unsynced == ("pod",)
        assert len(it.values) == 32

        await say(bus, seen("kept", 2), seen("new", 1))
        await eventually(lambda: it.values.get("new") == 1, describe="the new object")
        assert it.values["lost"] == 1, "nothing is swept before the marker"
        await mark(bus)

        await it.until({"kept": 2, "new": 1})
        assert not it.view.unsynced

    assert ("lost", 1, None) in it.seen.story
    assert it.seen.synced_kinds == ["pod", "pod"]


async def test_a_stream_that_is_recreated_by_hand_is_another_log(bus: Bus):
    await say(bus, *(seen(f"x{n}", 1) for n in range(20)))
    await mark(bus)
    async with following(bus, heartbeat_s=0.2) as it:
        await eventually(lambda: not it.view.unsynced, describe="the sync")
        await bus.connection.request("$JS.API.STREAM.DELETE.STATE", b"")
        await reconcile(bus.jetstream, [STATE])
        # More than the old one had, so that its last sequence is above what was read.
        await say(bus, *(seen(f"y{n}", 1) for n in range(30)))
        await mark(bus)

        await it.until({f"y{n}": 1 for n in range(30)})

    assert bus.connection.reconnects == 0


async def test_a_consumer_deleted_behind_our_back_is_made_again(bus: Bus):
    await say(bus, seen("a", 1))
    async with following(bus, heartbeat_s=0.2) as it:
        await it.until({"a": 1})
        (name,) = await bus.jetstream.consumer_names("STATE")
        await bus.jetstream.delete_consumer("STATE", name)
        await say(bus, seen("a", 2), seen("b", 1))

        await it.until({"a": 2, "b": 1})

    assert it.seen.story == [("a", None, 1), ("a", 1, 2), ("b", None, 1)]


async def test_twenty_thousand_subjects_are_replayed(bus: Bus):
    futures = [
        await bus.publisher.send((fact := seen(f"p{n}", n)).subject(), codec.encode(fact))
        for n in range(20_000)
    ]
    async with asyncio.timeout(30):
        await asyncio.wait(futures)
    await mark(bus)

    async with following(bus, heartbeat_s=1.0) as it:
        await eventually(lambda: not it.view.unsynced, deadline_s=30, describe="the sync")
        assert len(it.view.objects("pod")) == 20_000
        assert it.values["p19999"] == 19_999

    assert it.reader.resets == 0


async def test_a_replay_whose_last_message_expires_before_it_is_delivered_still_ends(bus: Bus):
    """The server counts it as pending, and then it is never sent."""

    class Slow:
        def __init__(self) -> None:
            self.applied = 0
            self.pending = 0
            self.is_caught_up = False

        def attach(self, position: LogPosition) -> int:
            return 1

        def apply(self, message: LogMessage) -> None:
            if not self.applied:
                time.sleep(2.5)  # blocks on purpose: the server has to stop sending
            self.applied += 1
            self.pending = message.pending

        def caught_up(self) -> None:
            self.is_caught_up = True

    # More than the server sends ahead of our answers.
    sent = [
        await bus.publisher.send(f"vc.state.pod.ns.b{n}", bytes(1_000_000), ttl_s=2)
        for n in range(60)
    ]
    async with asyncio.timeout(10):
        await asyncio.wait(sent)
    listener = Slow()
    reader = LogReader(bus.connection, bus.clock, stream="STATE", listener=listener)
    async with background(reader.run()):
        await eventually(lambda: listener.is_caught_up, describe="the end of the replay")

    assert listener.pending > 0, "the server did not have to stop, so nothing was tested"
    assert reader.resets == 0


async def test_a_listener_that_fails_ends_its_reader(bus: Bus):
    """nats-py would log the error and go on with the next message, and one would be missing."""

    class Broken:
        def attach(self, position: LogPosition) -> int:
            return 1

        def apply(self, message: LogMessage) -> None:
            raise LookupError("a bug")

        def caught_up(self) -> None: ...

    await say(bus, seen("a", 1))
    reader = LogReader(bus.connection, bus.clock, stream="STATE", listener=Broken())

    with pytest.raises(LookupError, match="a bug"):
        async with asyncio.timeout(5):
            await reader.run()


async def test_absence_counts_from_the_last_thing_heard(
    bus: Bus, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    """Attempts that fail are not contact: tombstones expire while they go on."""
    monkeypatch.setattr(reader_module, "_RETRY_S", 0.05)
    positions: list[LogPosition] = []

    class Noting:
        def attach(self, position: LogPosition) -> int:
            positions.append(position)
            return 1

        def apply(self, message: LogMessage) -> None: ...

        def caught_up(self) -> None: ...

    await say(bus, seen("a", 1))
    reader = LogReader(
        bus.connection, bus.clock, stream="STATE", listener=Noting(), heartbeat_s=0.1
    )
    async with background(reader.run()):
        await eventually(lambda: reader.attached, describe="the reader to be attached")
        assert positions[0].away_s == 0
        # From here on every attempt looks at the stream and then fails to read it: the server
        # accepts no heartbeat this short.
        reader._heartbeat_s = 0.01
        for name in await bus.jetstream.consumer_names("STATE"):
            await bus.jetstream.delete_consumer("STATE", name)
        await eventually(lambda: len(positions) > 4, describe="some attempts")

    times = [position.away_s for position in positions]
    assert times == sorted(times)
    assert times[-1] > times[1] > 0


async def test_a_reader_leaves_no_consumer_behind(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, nats_server: NatsServer
):
    monkeypatch.setattr(reader_module, "_CONSUMER_OUTLIVES_US_S", 1)
    await say(bus, seen("a", 1))
    async with join(nats_server, "scheduler") as scheduler:
        async with following(scheduler) as it:
            await it.until({"a": 1})
            assert len(await bus.jetstream.consumer_names("STATE")) == 1

        async def nobody() -> bool:
            return not await bus.jetstream.consumer_names("STATE")

        await eventually(nobody, deadline_s=10, interval_s=0.1, describe="no consumers")
