"""From what stands on INTENT to what stands on OUTCOME, on a real bus: one answer that counts.

The API server is a scripted one that can lose its answers.
"""

import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    Verb,
)
from stromboli.contracts.leases import LeaseValue, lease_subject
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    AssumedPod,
    FenceAnswered,
    GangBound,
    GatewayTurn,
    OutcomeLog,
    Reason,
    Refused,
    Uncertain,
)
from stromboli.contracts.streams import INTENT, INTENT_CONSUMER, LEASES, OUTCOME
from stromboli.gateway import gangs, lease_book
from stromboli.gateway.answered import AnsweredLog
from stromboli.gateway.applying import Applier
from stromboli.gateway.gangs import GangBinder
from stromboli.gateway.handling import IntentHandling
from stromboli.gateway.lease_book import LeaseBook
from stromboli.gateway.placing import Places
from stromboli.runtime.bus import intake as intake_module
from stromboli.runtime.bus.dead_letters import DeadLetterOffice
from stromboli.runtime.bus.intake import IntentIntake
from stromboli.runtime.bus.leases import held_lease
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.scripted_objects import Answer, Scripted, an_object, scripted, status
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

GATEWAY = Epoch(1, 10)
OWNER = {"uid": "uid-job", "controller": True}
KEY = "vcjob/ns/job"


class Outcomes:
    """Everything on OUTCOME that counts, as a sender reads it."""

    def __init__(self) -> None:
        self.counting: list[AnyOutcome] = []
        self.read_up_to = 0
        self._log = OutcomeLog()

    def attach(self, position: LogPosition) -> int:
        self.counting.clear()
        self._log.clear()
        return 1

    def apply(self, message: LogMessage) -> None:
        self.read_up_to = message.sequence
        outcome = self._log.counting(codec.outcomes.decode(message.payload))
        if outcome is not None:
            self.counting.append(outcome)

    def caught_up(self) -> None: ...


@dataclass
class Side:
    """The intents' side of a gateway, and a sender."""

    bus: Bus
    sender: Bus
    api: Scripted
    gateway: Epoch = GATEWAY
    outcomes: Outcomes = field(default_factory=Outcomes)
    answered: AnsweredLog = field(default_factory=AnsweredLog)
    announced: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        bus = self.bus
        readers = [
            LogReader(
                bus.connection,
                bus.clock,
                stream=OUTCOME.name,
                filters=["vc.outcome.>"],
                listener=listener,
            )
            for listener in (self.outcomes, self.answered)
        ]
        for service in ("scheduler", "controllers"):
            turn = GatewayTurn(service=service, gateway=self.gateway)
            await bus.publisher.publish(turn.subject(), codec.encode(turn))
        intake = IntentIntake(bus.connection, bus.clock, self._handling(), owner="g")
        async with background(*(reader.run() for reader in readers)):
            await eventually(
                lambda: self.answered.turn_of("controllers") == self.gateway, describe="our turn"
            )
            async with background(intake.run()):
                await eventually(self._has_taken_over, describe="the intake to own INTENT")
                yield

    async def _has_taken_over(self) -> bool:
        return len(await self.bus.jetstream.consumer_names(INTENT.name)) == 1

    def _handling(self) -> IntentHandling:
        bus, rng = self.bus, random.Random(1)
        places = Places(self.answered.settled, nodes={"n1"})
        return IntentHandling(
            self.gateway,
            bus.publisher,
            bus.clock,
            DeadLetterOffice(bus.publisher, bus.clock, "gateway"),
            Applier(self.api.kube, rng, bus.clock, self._version_of),
            GangBinder(self.api.kube, places, rng, bus.clock, self.answered.is_uncertain),
            LeaseBook(bus.jetstream, bus.publisher),
            self.answered,
            follows=frozenset({"pod"}),
            announce=lambda kind, version: self.announced.append((kind, version)),
            is_leading=lambda: True,
        )

    def _version_of(self, kind: str, _key: tuple[str, str], _uid: str) -> str:
        raise LookupError(f"nobody has thought of a {kind} yet")

    async def leads(self, service: str, holder: str = "one") -> Epoch:
        """This service has a leader (another one than before), which has no fence yet."""
        value = LeaseValue(holder, f"keeper of {holder}")
        return await self._write_lease(service, value)

    async def notes_fence(self, service: str, epoch: Epoch, fence: int) -> None:
        created = (await self.bus.jetstream.stream_info(INTENT.name)).created
        await self._write_lease(
            service, LeaseValue("one", "keeper of one", epoch.revision, created, fence)
        )

    async def _write_lease(self, service: str, value: LeaseValue) -> Epoch:
        subject, payload = lease_subject(service), msgspec.json.encode(value)
        await self.bus.publisher.publish(subject, payload)
        stored = await self.bus.jetstream.last_message(LEASES.name, subject)
        bucket = await self.bus.jetstream.stream_info(LEASES.name)
        assert stored is not None
        held = held_lease(stored, bucket.created)
        assert held is not None
        return held.epoch

    async def ask(self, intent: AnyIntent, *, again: bool = False) -> int:
        """Store it; `again` as a server does that has forgotten the first time."""
        ack = await self.sender.publisher.publish(
            intent.subject(), codec.encode(intent), message_id="" if again else intent.id
        )
        return ack.seq

    async def until_empty(self) -> list[AnyOutcome]:
        """Every intent has ended; what counts of what was answered."""

        async def empty() -> bool:
            return await self.bus.messages(INTENT.name) == 0

        await eventually(empty, interval_s=0.02, describe="INTENT to be empty")
        stored = (await self.bus.jetstream.stream_info(OUTCOME.name)).state.last_seq
        created = (await self.bus.jetstream.stream_info(OUTCOME.name)).created
        await eventually(
            lambda: self.answered.knows_all(created, stored) and self.outcomes.read_up_to == stored,
            describe="OUTCOME to be read",
        )
        return self.outcomes.counting


@pytest.fixture
async def side(
    bus: Bus, nats_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Side]:
    monkeypatch.setattr(gangs, "_LOOK_S", 0.3)
    monkeypatch.setattr(gangs, "_SHOWN_S", 0.05)
    monkeypatch.setattr(lease_book, "_PATIENCE_S", 0.3)
    monkeypatch.setattr(intake_module, "_RETRY_S", 0.01)
    async with join(nats_server, "controllers") as sender, scripted(tmp_path) as api:
        yield Side(bus, sender, api)


def creation(epoch: Epoch, number: int = 1, **other: Any) -> CreateObject:
    name = f"pod-{number}"
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": [OWNER]},
    }
    return CreateObject(
        id=f"create-{number}",
        key=KEY,
        service="controllers",
        epoch=epoch,
        kind="pod",
        namespace="ns",
        name=name,
        owner_uid="uid-job",
        manifest=msgspec.json.encode(manifest),
        **other,
    )


def gang(epoch: Epoch, *names: str, attempt: int = 1, lives_s: float = 0.4) -> BindGang:
    return BindGang(
        id=f"bind-{attempt}",
        key=KEY,
        service="scheduler",
        epoch=epoch,
        lives_s=lives_s,
        namespace="ns",
        name="group",
        attempt=str(attempt),
        binds=tuple(PodBinding(name, f"uid-{name}", "n1") for name in names),
    )


def fence(epoch: Epoch, service: str = "scheduler") -> Fence:
    return Fence(
        id=f"fence-{epoch}",
        key=f"fence/{service}/-",
        service=service,
        epoch=epoch,
        contract=CONTRACT,
    )


def created(number: int, version: int) -> Answer:
    return 201, an_object(f"pod-{number}", version=version)


# Every intent has one answer.


async def test_an_intent_is_answered_in_the_name_of_its_gateway_with_a_version(side: Side):
    epoch = await side.leads("controllers")
    side.api.on("POST pods", lambda: created(1, 7))
    async with side.running():
        await side.ask(creation(epoch))
        (outcome,) = await side.until_empty()

    assert isinstance(outcome, Applied)
    assert (outcome.intent_id, outcome.gateway) == ("create-1", GATEWAY)
    assert (outcome.uid, outcome.resource_version) == ("uid-pod-1", "7")
    assert side.announced == [("pod", "7")]


async def test_an_intent_that_was_stored_twice_is_applied_and_answered_once(side: Side):
    epoch = await side.leads("controllers")
    side.api.on("POST pods", lambda: created(1, 7))
    async with side.running():
        await side.ask(creation(epoch))
        await side.ask(creation(epoch), again=True)
        outcomes = await side.until_empty()

    assert [outcome.intent_id for outcome in outcomes] == ["create-1"]
    assert side.api.count("POST /api/v1/namespaces/ns/pods") == 1


async def test_what_a_predecessor_answered_is_not_answered_again(side: Side):
    epoch = await side.leads("controllers")
    side.api.on("POST pods", lambda: created(1, 7))
    async with side.running():
        await side.ask(creation(epoch))
        await side.until_empty()
    side.gateway, side.answered = Epoch(1, 20), AnsweredLog()
    async with side.running():
        await side.ask(creation(epoch), again=True)
        await side.ask(creation(epoch, 2))
        outcomes = await side.until_empty()

    said = [(outcome.intent_id, outcome.gateway) for outcome in outcomes]
    assert said == [("create-1", GATEWAY), ("create-2", Epoch(1, 20))]


async def test_a_mistake_of_ours_leaves_it_open_what_was_done(side: Side):
    epoch = await side.leads("controllers")
    wish = PatchObject(
        id="patch",
        key=KEY,
        service="controllers",
        epoch=epoch,
        kind="vcjob",
        namespace="ns",
        name="job",
        uid="uid-job",
        subresource="status",
        patch=b'{"status":{}}',
    )
    async with side.running():
        await side.ask(wish)
        (outcome,) = await side.until_empty()

    assert isinstance(outcome, Uncertain)
    assert "nobody has thought of a vcjob yet" in outcome.message
    assert await side.bus.messages("DEAD") == 1


# What can't be read.


async def test_what_can_not_be_read_is_refused_if_it_says_whose_it_is(side: Side):
    async with side.running():
        await side.sender.publisher.publish(
            "vc.intent.0.controllers.delete.pod", b"\xc1", message_id="theirs"
        )
        (outcome,) = await side.until_empty()

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNREADABLE
    assert (outcome.intent_id, outcome.service) == ("theirs", "controllers")
    assert (outcome.verb, outcome.kind, outcome.gateway) == (Verb.DELETE, "pod", GATEWAY)
    assert await side.bus.messages("DEAD") == 1


@pytest.mark.parametrize(
    ("subject", "message_id"),
    [
        ("vc.intent.0.controllers.delete.pod", ""),
        ("vc.intent.0.controllers.dance.pod", "theirs"),
        ("vc.intent.rubbish", "theirs"),
    ],
    ids=["no id", "no verb of ours", "no subject of ours"],
)
async def test_what_can_not_be_read_and_is_nobodys_is_only_put_aside(
    side: Side, subject: str, message_id: str
):
    async with side.running():
        await side.sender.publisher.publish(subject, b"\xc1", message_id=message_id)
        outcomes = await side.until_empty()

    assert outcomes == []
    assert await side.bus.messages("DEAD") == 1


async def test_an_unknown_type_is_refused_at_once_and_holds_up_nobody(side: Side):
    epoch = await side.leads("controllers")
    side.api.on("POST pods", lambda: created(1, 7))
    unknown = {
        "type": "teleport.v9",
        "id": "teleport-1",
        "key": KEY,
        "service": "controllers",
        "shard": "east",
    }
    async with side.running():
        await side.sender.publisher.publish(
            "vc.intent.0.controllers.create.pod", msgspec.msgpack.encode(unknown), message_id="x"
        )
        await side.ask(creation(epoch))
        refused, applied = await side.until_empty()

    assert isinstance(refused, Refused)
    assert refused.reason is Reason.UNKNOWN_TYPE
    assert (refused.intent_id, refused.key, refused.shard) == ("teleport-1", KEY, "east")
    assert isinstance(applied, Applied)
    assert await side.bus.messages("DEAD") == 1


# Whose turn it is.


def let_begin(monkeypatch: pytest.MonkeyPatch, deliveries: int) -> None:
    """A gateway has at most so many intents under way."""
    consumer = msgspec.structs.replace(INTENT_CONSUMER, max_ack_pending=deliveries)
    monkeypatch.setattr(intake_module, "INTENT_CONSUMER", consumer)


async def test_of_a_deposed_leader_only_what_may_have_been_begun_is_finished(
    side: Side, monkeypatch: pytest.MonkeyPatch
):
    let_begin(monkeypatch, 1)
    former = await side.leads("controllers", "one")
    for number in (1, 2):
        await side.ask(creation(former, number))
    await side.leads("controllers", "two")
    side.api.on("POST pods", lambda: created(1, 7))
    async with side.running():
        finished, refused = await side.until_empty()

    assert isinstance(finished, Applied)
    assert finished.intent_id == "create-1"
    assert isinstance(refused, Refused)
    assert (refused.intent_id, refused.reason) == ("create-2", Reason.FENCED)


async def test_a_fence_is_answered_with_what_was_written_and_what_is_not_certain(side: Side):
    former = await side.leads("scheduler", "zero")
    for name in ("a", "b", "c"):
        side.api.put("pods", an_object(name))
    side.api.on("POST pods/a/binding", lambda: bound(side, "a", 8))
    side.api.on("POST pods/b/binding", lambda: None)
    side.api.on("POST pods/c/binding", lambda: status(403, "Forbidden"))
    async with side.running():
        await side.ask(gang(former, "a", "b", "c"))
        await side.until_empty()
        epoch = await side.leads("scheduler", "one")
        sequence = await side.ask(fence(epoch))
        await side.notes_fence("scheduler", epoch, sequence)
        told, answer = await side.until_empty()

    assert isinstance(told, GangBound)
    assert [(pod.bound, pod.uncertain, pod.reason) for pod in told.pods] == [
        (True, False, None),
        (False, True, None),
        (False, False, Reason.FORBIDDEN),
    ]
    assert told.resource_version == "8"
    assert isinstance(answer, FenceAnswered)
    assert answer.epoch == epoch
    assert answer.versions == {"pod": "8"}
    assert answer.assumed == (AssumedPod("ns", "b", "uid-b", "n1"),)


def bound(side: Side, name: str, version: int) -> Answer:
    side.api.place(name, "n1", version)
    return 201, {"kind": "Status", "status": "Success"}


async def test_a_bind_that_is_asked_for_again_is_certain_in_the_end(side: Side):
    epoch = await side.leads("scheduler")
    side.api.put("pods", an_object("a"))
    side.api.on("POST pods/a/binding", lambda: None)
    async with side.running():
        await side.ask(gang(epoch, "a"))
        await side.until_empty()
        assert side.answered.is_uncertain("uid-a")

        side.api.on("POST pods/a/binding", lambda: bound(side, "a", 9))
        await side.ask(gang(epoch, "a", attempt=2))
        _, again = await side.until_empty()

    assert isinstance(again, GangBound)
    assert [pod.bound for pod in again.pods] == [True]
    assert again.resource_version == "9"
    assert not side.answered.is_uncertain("uid-a")


@pytest.mark.parametrize("revision", [1, 2**62])
async def test_a_fence_that_no_lease_names_is_refused_and_stops_nobody(side: Side, revision: int):
    epoch = await side.leads("scheduler")
    side.api.put("pods", an_object("a"))
    side.api.on("POST pods/a/binding", lambda: bound(side, "a", 9))
    async with side.running():
        await side.ask(fence(Epoch(epoch.bucket_created_ns, epoch.revision + revision)))
        await side.ask(gang(epoch, "a"))
        refused, told = await side.until_empty()

    assert isinstance(refused, Refused)
    assert (refused.verb, refused.reason) == (Verb.FENCE, Reason.FENCED)
    assert isinstance(told, GangBound)
    assert [pod.bound for pod in told.pods] == [True]


async def test_the_fence_of_another_release_is_refused_with_a_reason(side: Side):
    epoch = await side.leads("scheduler")
    strange = msgspec.structs.replace(fence(epoch), contract=CONTRACT + 1)
    async with side.running():
        await side.ask(strange)
        (refused,) = await side.until_empty()

    assert isinstance(refused, Refused)
    assert refused.reason is Reason.NOT_ALLOWED
    assert f"version {CONTRACT + 1}" in refused.message
