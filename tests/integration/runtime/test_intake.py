import asyncio
import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import (
    CONTRACT,
    AnyIntent,
    BindGang,
    CreateObject,
    Fence,
    PatchObject,
    PodBinding,
)
from stromboli.contracts.partitions import job_key
from stromboli.contracts.streams import INTENT, INTENT_CONSUMER
from stromboli.runtime.bus import intake as intake_module
from stromboli.runtime.bus.asking import ask
from stromboli.runtime.bus.dead_letters import Unreadable
from stromboli.runtime.bus.errors import BusError, PublishUncertain
from stromboli.runtime.bus.intake import Delivery, IntentIntake, UnknownIntent
from stromboli.runtime.bus.ordering import Batch
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

ONE, TWO = (job_key("vcjob", "ns", f"job-{number}") for number in (1, 2))
SUBJECT = "vc.intent.0.controllers.delete.pod"


def intent(key: str, number: int, *, service: str = "controllers") -> PatchObject:
    """A patch: nothing of its key may be worked on beside it."""
    return PatchObject(
        id=f"{key}#{number}",
        key=key,
        service=service,
        kind="pod",
        namespace="ns",
        name=f"pod-{number}",
        uid="uid",
        patch=b"{}",
    )


def creation(key: str, number: int, *, name: str = "") -> CreateObject:
    return CreateObject(
        id=f"{key}#{number}",
        key=key,
        service="controllers",
        kind="pod",
        namespace="ns",
        name=name or f"pod-{number}",
        manifest=b"{}",
    )


def gang_part(key: str, part: int, parts: int, *, patience_s: float = 60) -> BindGang:
    return BindGang(
        id=f"{key}#gang-{part}",
        key=key,
        service="scheduler",
        lives_s=patience_s,
        namespace="ns",
        name="gang",
        attempt="1",
        part=part,
        parts=parts,
        binds=(PodBinding(f"pod-{part}", "uid", "node"),),
    )


def fence(number: int = 1) -> Fence:
    return Fence(
        id=f"fence#{number}",
        key="fence/scheduler/-",
        service="scheduler",
        epoch=Epoch(1, number),
        contract=CONTRACT,
    )


Bad = tuple[Unreadable, str, str]
"""A message, why it can't be read, and what its sender called it."""


@dataclass
class Recording:
    """A handler that remembers, and that can be held up per key or made to fail."""

    begun: list[str] = field(default_factory=list[str])
    handled: list[str] = field(default_factory=list[str])
    batches: list[Batch[Delivery]] = field(default_factory=list[Batch[Delivery]])
    bad: list[tuple[Unreadable, str, str]] = field(
        default_factory=list[tuple[Unreadable, str, str]]
    )
    has_arrived: list[str] = field(default_factory=list[str])
    put_aside: list[str] = field(default_factory=list[str])
    gates: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    failing: Callable[[str], Exception | None] = lambda _: None
    failing_aside: Callable[[str], Exception | None] = lambda _: None

    def hold(self, key: str) -> asyncio.Event:
        """Work on this key stops at its beginning until the event is set."""
        self.gates[key] = asyncio.Event()
        return self.gates[key]

    async def handle(self, batch: Batch[Delivery]) -> None:
        name = name_of(batch)
        self.begun.append(name)
        gate = self.gates.get(batch.items[0].key)
        if gate is not None:
            await gate.wait()
        if (problem := self.failing(name)) is not None:
            raise problem
        self.handled.append(name)
        self.batches.append(batch)

    def arrived(self, delivery: Delivery) -> None:
        self.has_arrived.append(id_of(delivery))

    async def unreadable(self, message: Unreadable, reason: str, *, intent_id: str) -> None:
        self.bad.append((message, reason, intent_id))

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None:
        if (again := self.failing_aside(name_of(batch))) is not None:
            raise again
        self.put_aside.append(name_of(batch))

    def of(self, key: str) -> list[int]:
        """The numbers of one key's intents in the order in which they were handled."""
        return [int(n.partition("#")[2]) for n in self.handled if n.startswith(f"{key}#")]


def name_of(batch: Batch[Delivery]) -> str:
    return id_of(batch.items[0].payload)


def id_of(delivery: Delivery) -> str:
    intent = delivery.intent
    return intent.envelope.id if isinstance(intent, UnknownIntent) else intent.id


def taking(bus: Bus, handler: Recording, *, owner: str = "first") -> IntentIntake:
    return IntentIntake(bus.connection, bus.clock, handler, owner=owner)


@contextlib.asynccontextmanager
async def asked(bus: Bus, server: NatsServer, handler: Recording) -> AsyncGenerator[Bus]:
    """An intake that runs, and a service that asks it."""
    async with (
        join(server, "controllers") as sender,
        background(taking(bus, handler).run()),
    ):
        yield sender


async def ask_all(sender: Bus, *intents: AnyIntent) -> None:
    for one in intents:
        async with asyncio.timeout(20):
            while True:
                try:
                    await ask(sender.publisher, one)
                    break
                except BusError:
                    await asyncio.sleep(0.05)


async def until_empty(bus: Bus) -> None:
    async def empty() -> bool:
        return bus.connection.connected and await bus.messages("INTENT") == 0

    await eventually(empty, interval_s=0.02, describe="INTENT to be empty")


def repeated_only(numbers: list[int]) -> bool:
    """May repeat what was not acknowledged, but an intent never overtakes its predecessor."""
    return all(b <= a + 1 for a, b in itertools.pairwise(numbers))


async def test_one_key_is_in_order_while_others_go_on(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    gate = handler.hold(ONE)
    async with asked(bus, nats_server, handler) as sender:
        for number in range(10):
            await ask_all(sender, intent(ONE, number), intent(TWO, number))
        await eventually(lambda: len(handler.handled) == 10, describe="all of the other key")

        assert handler.begun.count(f"{ONE}#0") == 1
        assert handler.of(TWO) == list(range(10))
        assert handler.of(ONE) == []
        gate.set()
        await eventually(lambda: len(handler.handled) == 20, describe="everything")
        await until_empty(bus)

    assert handler.of(ONE) == list(range(10))


async def test_the_pods_of_a_job_are_created_side_by_side_and_its_status_after_them(
    bus: Bus, nats_server: NatsServer
):
    handler = Recording()
    gate = handler.hold(ONE)
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, *(creation(ONE, number) for number in (1, 2, 3)))
        await ask_all(sender, intent(ONE, 4), creation(ONE, 5))
        await eventually(lambda: len(handler.begun) == 3)
        assert handler.begun == [f"{ONE}#{number}" for number in (1, 2, 3)]
        gate.set()
        await eventually(lambda: len(handler.handled) == 5)

    assert handler.of(ONE) == [1, 2, 3, 4, 5]


async def test_two_creations_of_one_name_keep_their_order(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    gate = handler.hold(ONE)
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, creation(ONE, 1, name="same"), creation(ONE, 2, name="same"))
        await ask_all(sender, intent(TWO, 1))
        await eventually(lambda: handler.of(TWO) == [1])
        assert handler.begun == [f"{ONE}#1", f"{TWO}#1"]
        gate.set()
        await eventually(lambda: len(handler.handled) == 3)


async def test_one_consumer_takes_all_intents_also_of_partitions_that_are_no_more(
    bus: Bus, nats_server: NatsServer
):
    handler = Recording()
    intake = taking(bus, handler, owner="all")
    async with join(nats_server, "controllers") as sender, background(intake.run()):
        for number in range(200):
            await ask_all(sender, intent(job_key("vcjob", "ns", f"j{number}"), 0))
        old = codec.encode(intent(ONE, 1))
        await sender.publisher.publish("vc.intent.31.controllers.patch.pod", old)
        await eventually(lambda: len(handler.handled) == 201, describe="all intents")
        await until_empty(bus)
        assert intake.waiting == 0

    (name,) = await bus.jetstream.consumer_names("INTENT")
    assert name.startswith("intents-all-")


async def test_a_new_owner_gets_what_was_not_acknowledged_in_order(
    bus: Bus, nats_server: NatsServer
):
    dying, heir = Recording(), Recording()
    dying.hold(ONE)
    async with asked(bus, nats_server, dying) as sender:
        for number in range(5):
            await ask_all(sender, intent(ONE, number), intent(TWO, number))
        await eventually(lambda: len(dying.handled) == 5, describe="the other key")
        await eventually(lambda: dying.begun.count(f"{ONE}#0"), describe="the held one")
        (old,) = await bus.jetstream.consumer_names("INTENT")
    assert await bus.messages("INTENT") == 5

    async with background(taking(bus, heir, owner="second").run()):
        await until_empty(bus)
        (new,) = await bus.jetstream.consumer_names("INTENT")

    assert heir.of(ONE) == list(range(5))
    assert heir.of(TWO) == []
    assert old.startswith("intents-first-")
    assert new.startswith("intents-second-")


async def test_a_living_predecessor_hears_nothing_more(bus: Bus, nats_server: NatsServer):
    deposed, leader = Recording(), Recording()
    async with asked(bus, nats_server, deposed) as sender:
        await ask_all(sender, intent(ONE, 0))
        await eventually(lambda: deposed.of(ONE) == [0], describe="the first intent")
        async with background(taking(bus, leader, owner="second").run()):
            await eventually_owned_by(bus, "second")
            await ask_all(sender, *(intent(ONE, number) for number in range(1, 6)))
            await eventually(lambda: leader.of(ONE) == [1, 2, 3, 4, 5], describe="the rest")

    assert deposed.of(ONE) == [0]


async def eventually_owned_by(bus: Bus, owner: str) -> None:
    async def owned() -> bool:
        names = await bus.jetstream.consumer_names("INTENT")
        return len(names) == 1 and names[0].startswith(f"intents-{owner}-")

    await eventually(owned, describe=f"{owner} to own INTENT")


async def test_a_killed_server_loses_nothing_and_keeps_the_order(bus: Bus, nats_server: NatsServer):
    handler = Recording()

    async def ask_on() -> None:
        for number in range(40):
            await ask_all(sender, intent(ONE, number), intent(TWO, number))

    async with asked(bus, nats_server, handler) as sender, background(ask_on()) as (asking,):
        for kill_at in (10, 40):
            await eventually(lambda at=kill_at: len(handler.handled) > at, describe="some intents")
            await nats_server.restart(hard=True)
        async with asyncio.timeout(20):
            await asking
        await eventually(
            lambda: handler.of(ONE)[-1:] == handler.of(TWO)[-1:] == [39], describe="the last ones"
        )
        await until_empty(bus)

    for key in (ONE, TWO):
        assert set(handler.of(key)) == set(range(40))
        assert repeated_only(handler.of(key)), handler.of(key)


async def test_after_a_total_loss_new_intents_are_served(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, intent(ONE, 0))
        await eventually(lambda: handler.of(ONE) == [0], describe="the first intent")
        await nats_server.lose_all_data()
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        await reconcile(bus.jetstream, [INTENT])
        await ask_all(sender, intent(ONE, 1))

        await eventually(lambda: handler.of(ONE) == [0, 1], describe="the second intent")
        await until_empty(bus)


async def test_a_consumer_deleted_behind_our_back_is_made_again(
    bus: Bus, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(intake_module, "_HEARTBEAT_S", 0.2)
    monkeypatch.setattr(intake_module, "_SILENCE_S", 0.6)
    handler = Recording()
    async with asked(bus, nats_server, handler) as sender:
        await eventually_owned_by(bus, "first")
        (name,) = await bus.jetstream.consumer_names("INTENT")
        await bus.jetstream.delete_consumer("INTENT", name)
        await ask_all(sender, intent(ONE, 0))

        await eventually(lambda: handler.of(ONE) == [0], describe="the intent")


async def test_what_can_not_be_read_is_put_aside_once(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    async with asked(bus, nats_server, handler) as sender:
        await sender.publisher.publish(SUBJECT, b"\xc1 rubbish", message_id="their own id")
        await sender.publisher.publish(SUBJECT, b"\xc1 more")
        await ask_all(sender, intent(ONE, 0))
        await until_empty(bus)

    (message, reason, intent_id), (_, _, nobodys) = handler.bad
    created = (await bus.jetstream.stream_info("INTENT")).created
    assert message == Unreadable("INTENT", created, SUBJECT, 1, b"\xc1 rubbish")
    assert reason.startswith("not a intent message")
    assert (intent_id, nobodys) == ("their own id", "")
    assert handler.has_arrived == [f"{ONE}#0"]
    assert handler.of(ONE) == [0]


async def test_an_unknown_type_of_intent_is_handed_out_as_such(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    envelope = {
        "type": "teleport.v9",
        "id": f"{ONE}#1",
        "key": ONE,
        "service": "controllers",
    }
    async with asked(bus, nats_server, handler) as sender:
        await sender.publisher.publish(SUBJECT, msgspec.msgpack.encode(envelope))
        await until_empty(bus)

    unknown = handler.batches[0].items[0].payload.intent
    assert isinstance(unknown, UnknownIntent)
    assert unknown.tag == "teleport.v9"
    assert unknown.envelope.key == ONE


async def test_the_parts_of_a_gang_come_together(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, gang_part(ONE, 0, 3), gang_part(ONE, 1, 3), intent(TWO, 0))
        await eventually(lambda: handler.of(TWO) == [0], describe="the other key")
        # Another service speaks about the same job in between.
        await ask_all(sender, intent(ONE, 9), gang_part(ONE, 2, 3))
        await until_empty(bus)

    _, gang, after = handler.batches
    assert gang.complete
    assert [item.payload.intent.id for item in gang.items] == [  # pyright: ignore[reportAttributeAccessIssue]
        f"{ONE}#gang-{part}" for part in range(3)
    ]
    assert name_of(after) == f"{ONE}#9"


async def test_a_gang_whose_part_is_missing_ends_at_its_deadline(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    async with asked(bus, nats_server, handler) as sender:
        since = time.monotonic()
        await ask_all(sender, gang_part(ONE, 0, 2, patience_s=0.6))
        await until_empty(bus)

    (gang,) = handler.batches
    assert not gang.complete
    assert time.monotonic() - since >= 0.6


async def test_a_fence_waits_for_what_came_before_and_holds_what_comes_after(
    bus: Bus, nats_server: NatsServer
):
    handler = Recording()
    before, at_fence = handler.hold(ONE), handler.hold("fence/scheduler/-")

    def own(key: str, number: int) -> PatchObject:
        return intent(key, number, service="scheduler")

    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, own(ONE, 0), own(ONE, 1), fence(), own(TWO, 0), own(ONE, 2))
        await eventually(lambda: handler.begun, describe="the first intent")
        assert handler.begun == [f"{ONE}#0"]

        before.set()
        await eventually(lambda: "fence#1" in handler.begun, describe="the fence")
        assert handler.handled == [f"{ONE}#0", f"{ONE}#1"]

        at_fence.set()
        await until_empty(bus)

    assert handler.handled[2] == "fence#1"
    assert set(handler.handled[3:]) == {f"{TWO}#0", f"{ONE}#2"}


async def test_other_services_pass_by_a_fence(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    before, at_fence = handler.hold(ONE), handler.hold("fence/scheduler/-")
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, intent(ONE, 0, service="scheduler"), fence(), intent(TWO, 0))
        await eventually(lambda: handler.of(TWO) == [0], describe="another service")
        assert handler.begun == [f"{ONE}#0", f"{TWO}#0"]

        before.set()
        await eventually(lambda: "fence#1" in handler.begun, describe="the fence")
        await ask_all(sender, intent(TWO, 1))
        await eventually(lambda: handler.of(TWO) == [0, 1], describe="another service again")
        at_fence.set()
        await until_empty(bus)


async def test_a_redelivery_of_what_is_still_here_is_recognised(bus: Bus, nats_server: NatsServer):
    handler = Recording()
    gate = handler.hold(ONE)
    taken: list[Delivery] = []
    async with join(nats_server, "controllers") as sender:
        intake = taking(bus, handler)
        async with background(intake.run()):
            await ask_all(sender, intent(ONE, 0), intent(ONE, 1))
            await eventually(lambda: intake.waiting == 2, describe="both intents")
            assert intake._consumer is not None
            taken += [item.payload for item in intake._consumer.queue._here.values()]
            for delivery in taken:  # as if the server had waited too long for us
                await bus.connection.publish(delivery.reply, b"-NAK")
            await eventually_redelivered(bus, 2)
            gate.set()
            await until_empty(bus)

    assert handler.of(ONE) == [0, 1]


async def eventually_redelivered(bus: Bus, wanted: int) -> None:
    async def redelivered() -> bool:
        return await redeliveries(bus) == wanted

    await eventually(redelivered, describe=f"{wanted} redeliveries")


async def redeliveries(bus: Bus) -> int:
    (name,) = await bus.jetstream.consumer_names("INTENT")
    answer = await bus.connection.request(f"$JS.API.CONSUMER.INFO.INTENT.{name}", b"")
    return msgspec.json.decode(answer.data)["num_redelivered"]


async def test_work_that_outlasts_the_servers_patience_is_not_begun_twice(
    bus: Bus, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    """It is delivered again, and recognised; nobody tells the server that it is in progress."""
    consumer = msgspec.structs.replace(INTENT_CONSUMER, ack_wait_s=0.5)
    monkeypatch.setattr(intake_module, "INTENT_CONSUMER", consumer)
    handler = Recording()
    gate = handler.hold(ONE)
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, intent(ONE, 0), intent(ONE, 1), intent(TWO, 0))
        await eventually(lambda: handler.of(TWO) == [0], describe="the other key")
        await eventually(
            lambda: handler.has_arrived.count(f"{ONE}#0") > 2, describe="it to come again, twice"
        )
        gate.set()
        await until_empty(bus)

    assert handler.begun == [f"{ONE}#0", f"{TWO}#0", f"{ONE}#1"]


async def test_only_the_first_deliveries_of_an_owner_may_have_been_begun_before(
    bus: Bus, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    """As many as a former owner could have had under way, which are the oldest."""
    consumer = msgspec.structs.replace(INTENT_CONSUMER, max_ack_pending=3)
    monkeypatch.setattr(intake_module, "INTENT_CONSUMER", consumer)
    dying, heir = Recording(), Recording()
    dying.hold(ONE)
    async with asked(bus, nats_server, dying) as sender:
        await ask_all(sender, intent(ONE, 0), intent(TWO, 1))
        await eventually(lambda: dying.of(TWO) == [1], describe="the other key")
        await ask_all(sender, *(intent(ONE, number) for number in range(2, 7)))
        # Three are unacknowledged: the server holds back the others.
        await eventually(lambda: len(dying.has_arrived) == 4, describe="as many as may")
    async with background(taking(bus, heir, owner="second").run()):
        await until_empty(bus)

    had = {0, 2, 3}
    deliveries = [item.payload for batch in heir.batches for item in batch.items]
    assert heir.of(ONE) == [0, 2, 3, 4, 5, 6]
    assert {int(id_of(d).partition("#")[2]) for d in deliveries if d.may_have_begun} == had
    assert {f"{ONE}#{number}" for number in had} <= set(dying.has_arrived)


async def test_what_is_stored_after_an_owner_took_over_was_begun_by_nobody(
    bus: Bus, nats_server: NatsServer
):
    handler = Recording()
    async with asked(bus, nats_server, handler) as sender:
        await eventually_owned_by(bus, "first")
        await ask_all(sender, intent(ONE, 0), intent(TWO, 0))
        await until_empty(bus)

    assert [batch.items[0].payload.may_have_begun for batch in handler.batches] == [False, False]


async def test_after_a_reconnect_what_was_there_before_may_have_been_begun(
    bus: Bus, nats_server: NatsServer
):
    """By ourselves, or by somebody who led in between."""
    handler = Recording()
    gate = handler.hold(ONE)
    async with asked(bus, nats_server, handler) as sender:
        await eventually_owned_by(bus, "first")
        await ask_all(sender, intent(ONE, 0), intent(ONE, 1))
        await eventually(lambda: handler.begun, describe="the first intent")
        await nats_server.restart(hard=True)
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        gate.set()
        await until_empty(bus)

    said = [
        (id_of(batch.items[0].payload), batch.items[0].payload.may_have_begun)
        for batch in handler.batches
    ]
    assert said[0] == (f"{ONE}#0", False)
    assert said[-1] == (f"{ONE}#1", True)


async def test_an_intent_that_keeps_failing_is_put_aside_and_its_successors_go_on(
    bus: Bus, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(intake_module, "_RETRY_S", 0.01)
    handler = Recording(failing=lambda name: LookupError(name) if name == f"{ONE}#1" else None)
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, *(intent(ONE, number) for number in range(4)))
        await until_empty(bus)

    assert handler.of(ONE) == [0, 2, 3]
    assert handler.begun.count(f"{ONE}#1") == 3
    assert handler.put_aside == [f"{ONE}#1"]


async def test_an_intent_without_an_outcome_comes_again_before_its_successors(
    bus: Bus, nats_server: NatsServer
):
    troubles: dict[str, int] = defaultdict(int)

    def twice(name: str) -> Exception | None:
        troubles[name] += 1
        if name == f"{ONE}#1" and troubles[name] <= 2:
            return PublishUncertain("vc.outcome", "the test wants it")
        return None

    handler = Recording(failing=twice)
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, *(intent(ONE, number) for number in range(4)))
        await until_empty(bus)

    assert handler.of(ONE) == [0, 1, 2, 3]
    assert handler.begun == [f"{ONE}#{number}" for number in (0, 1, 1, 1, 2, 3)]
    assert not handler.put_aside


async def test_what_can_not_even_be_put_aside_is_not_acknowledged(
    bus: Bus, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(intake_module, "_RETRY_S", 0.01)
    unavailable = [PublishUncertain("vc.dead", "the test wants it")]
    handler = Recording(
        failing=lambda name: LookupError(name) if name == f"{ONE}#0" else None,
        failing_aside=lambda _: unavailable.pop() if unavailable else None,
    )
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, intent(ONE, 0), intent(ONE, 1))
        await until_empty(bus)

    assert handler.put_aside == [f"{ONE}#0"]
    assert handler.begun.count(f"{ONE}#0") == 6
    assert handler.of(ONE) == [1]


async def test_a_handler_with_a_bug_in_putting_aside_ends_the_intake(
    bus: Bus, nats_server: NatsServer
):
    """It must not go on in silence with a message that is neither applied nor kept."""

    class Broken(Recording):
        async def unreadable(self, message: Unreadable, reason: str, *, intent_id: str) -> None:
            raise LookupError("a bug")

    async with join(nats_server, "controllers") as sender:
        await sender.publisher.publish(SUBJECT, b"rubbish")

        with pytest.raises(ExceptionGroup) as ended:
            async with asyncio.timeout(5):
                await taking(bus, Broken()).run()

    assert ended.group_contains(LookupError, match="a bug")


async def test_work_that_outlives_the_connection_ends_before_anything_goes_on(
    bus: Bus, nats_server: NatsServer
):
    handler = Recording()
    gate = handler.hold(ONE)
    async with asked(bus, nats_server, handler) as sender:
        await ask_all(sender, intent(ONE, 0), intent(ONE, 1))
        await eventually(lambda: handler.begun, describe="the first intent")
        await nats_server.restart(hard=True)
        await eventually(lambda: bus.connection.reconnects, describe="the reconnect")
        await ask_all(sender, intent(ONE, 2))
        assert handler.begun == [f"{ONE}#0"]
        gate.set()
        await until_empty(bus)

    assert repeated_only(handler.of(ONE))
    assert set(handler.of(ONE)) == {0, 1, 2}
