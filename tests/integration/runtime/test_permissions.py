"""What each service needs works, with exactly these modules; everything else is refused.

The server is configured from the same table that the services are written against.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import msgspec
import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.facts import KindSynced, ObjectSeen
from stromboli.contracts.intents import (
    CONTRACT,
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    GenerateSecret,
    PatchObject,
    Verb,
)
from stromboli.contracts.leases import LEASE_PROOF, lease_subject
from stromboli.contracts.nats_config import users_block
from stromboli.contracts.outcomes import AnyOutcome, FenceAnswered, GatewayTurn
from stromboli.contracts.permissions import ROWS, SERVICES, Row
from stromboli.contracts.streams import JOURNAL, LEASES, OUTCOME, STATE, STREAMS
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.asking import OutcomeListener, ask, outcome_reader
from stromboli.runtime.bus.confirmed_read import read_confirmed
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.runtime.bus.errors import NotPermitted, PublishRefused
from stromboli.runtime.bus.fences import Fencing
from stromboli.runtime.bus.intake import Delivery, IntentIntake
from stromboli.runtime.bus.journal import Journal
from stromboli.runtime.bus.leases import LeaseKeeper
from stromboli.runtime.bus.ordering import Batch
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.bus.streams import reconcile, wait_for
from stromboli.runtime.bus.view import Delta, View
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

PASSWORDS = {service: f"the word of {service}" for service in SERVICES}


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "secured", config=users_block(PASSWORDS)) as server:
        yield server


@pytest.fixture
async def gateway(secured: NatsServer) -> AsyncIterator[Bus]:
    async with join(secured, "gateway", password=PASSWORDS["gateway"]) as member:
        await reconcile(member.jetstream, (*STREAMS, JOURNAL))
        yield member


@contextlib.asynccontextmanager
async def member(server: NatsServer, service: str) -> AsyncGenerator[Bus]:
    async with join(server, service, password=PASSWORDS[service]) as bus:
        yield bus


class Quiet:
    def changed(self, delta: Delta[int]) -> None: ...

    def synced(self, kind: str) -> None: ...

    def unreadable(self, message: LogMessage, reason: str) -> None: ...


class Everything:
    """Reads a whole stream."""

    def __init__(self) -> None:
        self.subjects: list[str] = []

    def attach(self, position: LogPosition) -> int:
        return 1

    def apply(self, message: LogMessage) -> None:
        self.subjects.append(message.subject)

    def caught_up(self) -> None: ...


async def publish_a_pod(gateway: Bus) -> None:
    created = (await gateway.jetstream.stream_info(STATE.name)).created
    pod = ObjectSeen(
        kind="pod",
        namespace="ns",
        name="a",
        uid="u",
        resource_version="1",
        projection=msgspec.Raw(msgspec.msgpack.encode(1)),
    )
    marker = KindSynced(kind="pod", incarnation=created, resource_version="1", count=1)
    await gateway.publisher.publish(pod.subject(), codec.encode(pod), expect_last=0)
    await gateway.publisher.publish(marker.subject(), codec.encode(marker), expect_last=0)


async def read_state(bus: Bus, *, filters: tuple[str, ...] = ()) -> None:
    view = View(["pod"], lambda _, raw: msgspec.msgpack.decode(raw, type=int), Quiet())
    reader = LogReader(bus.connection, bus.clock, stream="STATE", filters=filters, listener=view)
    async with background(reader.run()):
        await eventually(lambda: not view.unsynced, describe=f"{bus.connection.service} to sync")
    assert len(view.objects("pod")) == 1


async def read_all(bus: Bus, stream: str, wanted: int = 1) -> None:
    listener = Everything()
    reader = LogReader(bus.connection, bus.clock, stream=stream, listener=listener)
    async with background(reader.run()):
        await eventually(lambda: len(listener.subjects) == wanted, describe=f"all of {stream}")


def keeper_of(bus: Bus) -> LeaseKeeper:
    return LeaseKeeper(
        bus.jetstream,
        bus.publisher,
        bus.clock,
        service=bus.connection.service,
        holder="h",
        life_s=1,
    )


async def hold_a_lease(bus: Bus) -> None:
    keeper = keeper_of(bus)
    subject = lease_subject(bus.connection.service)
    async with asyncio.timeout(5), keeper.lead() as lease:

        async def renewed() -> bool:
            stored = await bus.jetstream.last_message(LEASES.name, subject)
            return stored is not None and stored.sequence > lease.epoch.revision

        await eventually(renewed, describe="a renewal")
        assert lease.held
    released = await bus.jetstream.last_message(LEASES.name, subject)
    assert released is not None
    assert released.headers["KV-Operation"] == "DEL"


def intent_of(row: Row) -> AnyIntent:
    """The intent that this row of the table allows."""
    body: dict[str, object] = {
        "id": f"{row.verb}-{row.kind}-{row.subresource}",
        "service": row.service,
        "key": "vcjob/ns/a",
        "kind": row.kind,
        "namespace": "ns",
        "name": "a",
    }
    match row.verb:
        case Verb.CREATE:
            intent, body["manifest"] = CreateObject, b"{}"
        case Verb.PATCH:
            intent, body["uid"], body["patch"] = PatchObject, "u", b"{}"
        case Verb.DELETE:
            intent, body["uid"] = DeleteObject, "u"
        case Verb.EVICT:
            intent, body["uid"] = EvictPod, "u"
        case Verb.BIND:
            intent, body["attempt"], body["binds"] = BindGang, "1", [["a", "u", "n"]]
        case Verb.GENERATE:
            intent, body["recipe"] = GenerateSecret, "ssh-key-pair"
            body |= {"owner_kind": "vcjob", "owner_name": "a", "owner_uid": "u"}
        case Verb.FENCE:
            raise AssertionError("a fence needs no row")
    tag = intent.__struct_config__.tag
    return codec.intents.decode(msgspec.msgpack.encode({"type": tag, **body}))


GATEWAY = Epoch(1, 1)


def answer_to(intent: Fence) -> FenceAnswered:
    return FenceAnswered(
        intent_id=intent.id,
        service=intent.service,
        verb=Verb.FENCE,
        kind=CLUSTER,
        key=intent.key,
        gateway=GATEWAY,
        epoch=intent.epoch,
    )


async def announce(gateway: Bus, service: str) -> None:
    """From here on the gateway's answers to this service count."""
    turn = GatewayTurn(service=service, gateway=GATEWAY)
    last = await gateway.jetstream.last_message(OUTCOME.name, turn.subject())
    expected = 0 if last is None else last.sequence
    await gateway.publisher.publish(turn.subject(), codec.encode(turn), expect_last=expected)


class AnsweringFences:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.handled: list[str] = []

    async def handle(self, batch: Batch[Delivery]) -> None:
        intent = batch.items[0].payload.intent
        if isinstance(intent, Fence):
            answer = answer_to(intent)
            await self._bus.publisher.publish(answer.subject(), codec.encode(answer))
        self.handled.append(type(intent).__name__)

    def arrived(self, delivery: Delivery) -> None: ...

    async def unreadable(self, message: Unreadable, reason: str, *, intent_id: str) -> None: ...

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None: ...


async def test_the_gateway_can_do_its_work(gateway: Bus):
    await wait_for(gateway.jetstream, (*STREAMS, JOURNAL))
    changed = msgspec.structs.replace(STATE, description="another")
    await reconcile(gateway.jetstream, [changed])
    await publish_a_pod(gateway)
    await read_state(gateway)
    stored = await gateway.jetstream.last_message("STATE", "vc.state.pod.ns.a")
    assert stored is not None
    await hold_a_lease(gateway)
    lease = await read_confirmed(
        gateway.jetstream,
        gateway.publisher,
        stream=LEASES.name,
        subject=lease_subject("scheduler"),
        proof=LEASE_PROOF,
    )
    assert lease is None
    await announce(gateway, "scheduler")
    await announce(gateway, "scheduler")
    await gateway.publisher.publish("vc.outcome.scheduler.bind.pod", b"")
    await read_all(gateway, "OUTCOME", wanted=3)
    await gateway.publisher.publish("vc.history.ns.a", b"")
    office = DeadLetterOffice(gateway.publisher, gateway.clock, "gateway")
    await office.put_aside(Unreadable("STATE", "x", "vc.state.a.b.c", 1, b""), "bad")
    assert await gateway.messages("DEAD") == 1
    journal = Journal(gateway.publisher)
    journal.note("vc.state.pod.ns.a", b"", incarnation="x", sequence=1)

    async def noted() -> bool:
        return await gateway.messages("JOURNAL") == 1

    async with background(journal.run()):
        await eventually(noted, describe="the delta in JOURNAL")


@pytest.mark.parametrize("service", ["scheduler", "controllers"])
async def test_a_deciding_service_can_do_its_work(gateway: Bus, secured: NatsServer, service: str):
    await publish_a_pod(gateway)
    await announce(gateway, service)
    handler = AnsweringFences(gateway)
    intake = IntentIntake(gateway.connection, gateway.clock, handler, owner="g")
    async with member(secured, service) as bus, background(intake.run()):
        await wait_for(bus.jetstream, STREAMS)
        await read_state(bus)
        await read_state(bus, filters=("vc.state.pod.>", "vc.state.sync.-.pod"))
        await hold_a_lease(bus)
        await fence_off(bus)
        rows = [row for row in ROWS if row.service == service]
        for row in rows:
            await ask(bus.publisher, intent_of(row))
        await bus.publisher.publish("vc.history.ns.a", b"")
        office = DeadLetterOffice(bus.publisher, bus.clock, service)
        await office.put_aside(Unreadable("STATE", "x", "vc.state.a.b.c", 1, b""), "bad")
        assert await gateway.messages("DEAD") == 1
        await eventually(lambda: len(handler.handled) == 1 + len(rows), describe="all intents")

    async def all_acknowledged() -> bool:
        return await gateway.messages("INTENT") == 0

    await eventually(all_acknowledged, describe="the acknowledgements")


async def fence_off(bus: Bus) -> None:
    keeper = keeper_of(bus)
    async with keeper.lead() as lease:
        fencing = Fencing(
            bus.jetstream,
            bus.publisher,
            bus.clock,
            keeper=keeper,
            lease=lease,
            service=bus.connection.service,
            shard=CLUSTER,
        )
        reader = outcome_reader(bus.connection, bus.clock, OutcomeListener(fencing.hear))
        async with background(reader.run()), asyncio.timeout(10):
            await eventually(lambda: reader.attached, describe="the outcome reader")
            answer = await fencing.run()
    assert answer.epoch == lease.epoch


async def test_admission_can_do_its_work(gateway: Bus, secured: NatsServer):
    await publish_a_pod(gateway)
    async with member(secured, "admission") as admission:
        await wait_for(admission.jetstream, STREAMS)
        await read_state(admission)
        await admission.publisher.publish("vc.history.ns.a", b"")


async def test_an_operator_can_read_everything_and_write_nothing(gateway: Bus, secured: NatsServer):
    await publish_a_pod(gateway)
    for subject in ("vc.journal.pod.ns.a", "vc.outcome.scheduler.bind.pod", "vc.history.ns.a"):
        await gateway.publisher.publish(subject, b"")
    passing: list[str] = []

    async def hear(message: Msg) -> None:
        passing.append(message.subject)

    async with member(secured, "operator") as operator, member(secured, "scheduler") as scheduler:
        await read_state(operator)
        for stream in ("JOURNAL", "OUTCOME", "HISTORY"):
            await read_all(operator, stream)
        await operator.connection.subscribe("vc.intent.>", hear)
        await operator.messages("INTENT")
        await scheduler.publisher.publish("vc.intent.1.scheduler.bind.pod", b"")
        await eventually(lambda: passing, describe="the intent passing by")

        for subject in ("vc.state.pod.ns.a", "vc.history.ns.a", "vc.intent.1.scheduler.bind.pod"):
            with pytest.raises(PublishRefused, match="may not publish"):
                await operator.publisher.publish(subject, b"")


@pytest.mark.parametrize(
    ("service", "subject"),
    [
        ("scheduler", "vc.state.pod.ns.a"),
        ("scheduler", "vc.state.sync.-.pod"),
        ("scheduler", "vc.journal.pod.ns.a"),
        ("scheduler", "vc.outcome.scheduler.bind.pod"),
        ("scheduler", "vc.intent.1.controllers.create.pod"),
        ("scheduler", "vc.intent.1.scheduler.create.pod"),
        ("scheduler", "vc.intent.1.scheduler.delete.pod"),
        ("scheduler", "$KV.LEASES.controllers.-"),
        ("scheduler", "$KV.LEASES.gateway.-"),
        ("controllers", "vc.intent.1.controllers.bind.pod"),
        ("controllers", "vc.intent.1.scheduler.bind.pod"),
        ("controllers", "$KV.LEASES.scheduler.-"),
        ("admission", "vc.intent.1.controllers.create.pod"),
        ("admission", "vc.state.queue.-.q"),
        ("admission", "$KV.LEASES.admission.-"),
        ("gateway", "vc.intent.1.scheduler.bind.pod"),
        ("gateway", "$KV.LEASES.scheduler.-"),
    ],
)
async def test_nobody_writes_what_is_anothers_to_write(
    gateway: Bus, secured: NatsServer, service: str, subject: str
):
    async with member(secured, service) as bus:
        with pytest.raises(PublishRefused, match="may not publish"):
            await bus.publisher.publish(subject, b"")
        with pytest.raises(PublishRefused, match="may not publish"):
            await bus.publisher.publish_until_acked(subject, b"", message_id="one")

        assert bus.connection.connected


@pytest.mark.parametrize(
    ("service", "call"),
    [
        ("scheduler", "STREAM.DELETE.STATE"),
        ("scheduler", "STREAM.PURGE.STATE"),
        ("scheduler", "STREAM.UPDATE.STATE"),
        ("scheduler", "STREAM.MSG.DELETE.STATE"),
        ("scheduler", "STREAM.CREATE.OTHER"),
        ("scheduler", "CONSUMER.CREATE.INTENT.mine"),
        ("scheduler", "CONSUMER.CREATE.INTENT.mine.vc.intent.1.>"),
        ("scheduler", "CONSUMER.DURABLE.CREATE.INTENT.mine"),
        ("scheduler", "CONSUMER.DELETE.INTENT.partition-1-x"),
        ("scheduler", "CONSUMER.DELETE.STATE.another"),
        ("scheduler", "CONSUMER.CREATE.OUTCOME.mine.vc.outcome.controllers.>"),
        ("scheduler", "CONSUMER.CREATE.OUTCOME.mine"),
        ("scheduler", "CONSUMER.CREATE.HISTORY.mine"),
        ("scheduler", "CONSUMER.MSG.NEXT.INTENT.partition-1-x"),
        ("operator", "CONSUMER.CREATE.INTENT.mine"),
        ("operator", "STREAM.DELETE.DEAD"),
        ("admission", "CONSUMER.CREATE.OUTCOME.mine"),
        ("admission", "STREAM.DELETE.STATE"),
        ("gateway", "STREAM.DELETE.STATE"),
        ("gateway", "STREAM.PURGE.INTENT"),
    ],
)
async def test_nobody_administers_what_is_not_theirs(
    gateway: Bus, secured: NatsServer, service: str, call: str
):
    async with member(secured, service) as bus:
        with pytest.raises(NotPermitted, match=service):
            await bus.connection.request(f"$JS.API.{call}", b"{}")

        assert await bus.messages("STATE") == 0


async def test_a_filter_in_the_body_does_not_widen_what_the_subject_allows(
    gateway: Bus, secured: NatsServer
):
    async with member(secured, "scheduler") as scheduler:
        config = {
            "name": "mine",
            "filter_subject": "vc.outcome.controllers.>",
            "ack_policy": "none",
        }
        answer = await scheduler.connection.request(
            "$JS.API.CONSUMER.CREATE.OUTCOME.mine.vc.outcome.scheduler.>",
            msgspec.json.encode({"stream_name": "OUTCOME", "config": config}),
        )

    assert "error" in msgspec.json.decode(answer.data)


@pytest.mark.parametrize("subject", ["vc.state.pod.ns.a", "vc.intent.1.scheduler.bind.pod"])
async def test_a_consumer_can_not_speak_where_its_owner_may_not(
    gateway: Bus, secured: NatsServer, subject: str
):
    """The server does not check where a consumer delivers to, but no stream listens to it."""
    for number in range(3):
        await gateway.publisher.publish("vc.history.ns.a", b"%d" % number)
    async with member(secured, "operator") as operator:
        consumer = {"name": "sly", "deliver_subject": subject, "deliver_policy": "all"}
        await operator.jetstream.create_consumer("HISTORY", {**consumer, "ack_policy": "none"})
        await read_all(operator, "HISTORY", wanted=3)

    assert await gateway.messages("STATE") == 0
    assert await gateway.messages("INTENT") == 0


@pytest.mark.parametrize(
    ("service", "subject"),
    [
        ("scheduler", "_INBOX.gateway.>"),
        ("scheduler", "_INBOX.>"),
        ("scheduler", ">"),
        ("scheduler", "vc.intent.>"),
        ("controllers", "$JS.ACK.>"),
        ("operator", "_INBOX.scheduler.>"),
    ],
)
async def test_nobody_listens_where_others_are_answered(
    gateway: Bus, secured: NatsServer, service: str, subject: str
):
    problems: list[str] = []

    async def on_error(problem: Exception) -> None:
        problems.append(str(problem))

    client = await nats.connect(
        secured.url, user=service, password=PASSWORDS[service], error_cb=on_error
    )
    heard = await client.subscribe(subject)
    await eventually(lambda: problems, describe="the server's refusal")
    refusal = f'permissions violation for subscription to "{subject}"'
    assert refusal.lower() in problems[0].lower()
    await gateway.messages("STATE")
    with pytest.raises(nats.errors.TimeoutError):
        await heard.next_msg(timeout=0.1)
    await client.close()


@pytest.mark.parametrize("password", [None, "guessed"])
async def test_nobody_comes_in_without_the_right_password(
    secured: NatsServer, password: str | None
):
    client = Client()
    user = "gateway" if password else None
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await client.connect(secured.url, user=user, password=password, allow_reconnect=False)
    await client.close()


async def test_a_stream_that_may_not_be_looked_at_is_not_waited_for(
    gateway: Bus, secured: NatsServer
):
    unknown = msgspec.structs.replace(STATE, name="SECRET")
    async with member(secured, "scheduler") as scheduler:
        with pytest.raises(NotPermitted):
            await wait_for(scheduler.jetstream, [unknown])


async def test_outcomes_of_another_service_are_not_heard(gateway: Bus, secured: NatsServer):
    heard: list[AnyOutcome] = []
    async with member(secured, "scheduler") as scheduler:
        for service in ("controllers", "scheduler"):
            await announce(gateway, service)
        listener = OutcomeListener(heard.append)
        reader = outcome_reader(scheduler.connection, scheduler.clock, listener)
        async with background(reader.run()):
            await eventually(lambda: reader.attached, describe="the outcome reader")
            for service in ("controllers", "scheduler"):
                fence = Fence(
                    id="i", key="k", service=service, epoch=Epoch(1, 1), contract=CONTRACT
                )
                answer = answer_to(fence)
                await gateway.publisher.publish(answer.subject(), codec.encode(answer))
            await eventually(lambda: heard, describe="our own outcome")

    assert [outcome.service for outcome in heard] == ["scheduler"]
