"""The shell around a core, between a real NATS server and a gateway that the test plays."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from stromboli.contracts.epochs import Epoch
from stromboli.contracts.facts import ObjectSeen
from stromboli.contracts.intents import AnyIntent, CreateObject, Fence, PatchObject
from stromboli.contracts.leases import LeaseValue, lease_subject
from stromboli.contracts.outcomes import AnyOutcome, Applied, AssumedPod, Reason, Refused, refused
from stromboli.contracts.stimuli import (
    FactChanged,
    Instruction,
    OutcomeHeard,
    Ready,
    Stimulus,
    WakeAt,
    WokeUp,
)
from stromboli.contracts.streams import INTENT, LEASES
from stromboli.runtime.deciding import DecidingShell
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.nats_wire import NatsWire, nats_wire
from stromboli.testkit.scripted_gateway import ScriptedGateway, scripted_gateway
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

KEY = "vcjob/ns/job"


def creation(name: str, *, size: int = 0) -> CreateObject:
    return CreateObject(
        id=f"create-{name}",
        key=KEY,
        service="controllers",
        kind="pod",
        namespace="ns",
        name=name,
        manifest=b"x" * size,
    )


def patch(name: str) -> PatchObject:
    return PatchObject(
        id=f"patch-{name}",
        key=KEY,
        service="controllers",
        kind="vcjob",
        namespace="ns",
        name=name,
        uid="uid",
        patch=b"{}",
    )


def applied(intent: AnyIntent, *, version: str = "") -> AnyOutcome:
    assert isinstance(intent, CreateObject | PatchObject)
    return Applied(
        intent_id=intent.id,
        service=intent.service,
        verb=intent.verb,
        kind=intent.kind,
        key=intent.key,
        name=intent.name,
        resource_version=version,
    )


@dataclass
class Script:
    """A core that asks once per turn for what the test wants, and remembers what it was told."""

    wanted: Callable[[], list[Instruction]]
    heard: list[Stimulus]
    insists: bool = False
    """Asks again now and then."""
    waits_for_others: bool = False

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        self.heard.append(stimulus)
        if self.insists and isinstance(stimulus, Ready | WokeUp):
            return [*self.wanted(), WakeAt(now + 0.05)]
        return self.wanted() if isinstance(stimulus, Ready) else []


@dataclass
class Stage:
    """A shell, its core's memory, and the gateway."""

    gateway: ScriptedGateway
    shell: DecidingShell
    heard: list[Stimulus] = field(default_factory=list[Stimulus])

    @property
    def outcomes(self) -> list[AnyOutcome]:
        return [one.outcome for one in self.heard if isinstance(one, OutcomeHeard)]

    @property
    def turns(self) -> int:
        return sum(isinstance(one, Ready) for one in self.heard)

    async def until_answered(self, count: int = 1) -> None:
        await eventually(
            lambda: len(self.outcomes) >= count, deadline_s=20, describe=f"{count} outcomes"
        )


@asynccontextmanager
async def deciding(
    bus: Bus,
    server: NatsServer | NatsWire,
    wanted: Callable[[], list[Instruction]],
    *,
    answer: Callable[[AnyIntent], AnyOutcome | None] = applied,
    prepare: Callable[[ScriptedGateway], None] = lambda _: None,
    insists: bool = False,
    waits: bool = False,
) -> AsyncGenerator[Stage]:
    """A shell with a core that wants this, and a gateway that answers like that."""
    heard: list[Stimulus] = []
    async with (
        scripted_gateway(bus, "controllers", answer) as gateway,
        join(server, "controllers") as service,
    ):
        prepare(gateway)
        await gateway.is_complete_up_to(1, "queue")
        shell = DecidingShell(
            service="controllers",
            kinds=("queue",),
            make_core=lambda: Script(wanted, heard, insists, waits),
            connection=service.connection,
            publisher=service.publisher,
            clock=service.clock,
            holder="test",
            lease_life_s=2.0,
            read=lambda _, projection: msgspec.msgpack.decode(projection),
        )
        async with background(shell.run()):
            yield Stage(gateway, shell, heard)


async def test_creations_go_out_together_and_the_status_after_them(
    bus: Bus, nats_server: NatsServer
):
    wanted: list[Instruction] = [*(creation(f"pod-{i}") for i in range(20)), patch("job")]
    async with deciding(bus, nats_server, lambda: wanted) as stage:
        await stage.until_answered(21)

    names = [intent.name for intent in stage.gateway.asked if not isinstance(intent, Fence)]
    assert sorted(names[:20]) == sorted(f"pod-{i}" for i in range(20))
    assert names[20] == "job"
    assert {outcome.intent_id for outcome in stage.outcomes} == {
        "patch-job",
        *(f"create-pod-{i}" for i in range(20)),
    }, "the core hears of its intents by the ids that it gave them"


async def test_an_intent_too_large_for_the_bus_is_refused_and_the_others_go_out(
    bus: Bus, nats_server: NatsServer
):
    """Nobody else could answer it, and the service must not end because of it."""
    wanted: list[Instruction] = [creation("huge", size=1 << 20), creation("small"), patch("job")]
    async with deciding(bus, nats_server, lambda: wanted) as stage:
        await stage.until_answered(3)

    refusals = [outcome for outcome in stage.outcomes if isinstance(outcome, Refused)]
    assert [(refusal.name, refusal.reason) for refusal in refusals] == [("huge", Reason.INVALID)]
    assert "over the bus limit" in refusals[0].message


async def test_an_intent_whose_acknowledgement_was_lost_is_neither_lost_nor_doubled(
    bus: Bus, nats_server: NatsServer
):
    """It is stored: to take back what was set aside for it would be a guess (C1)."""
    silent = asyncio.Event()

    def ask() -> list[Instruction]:
        wire.lose_answers()
        silent.set()
        return [patch("job")]

    async with nats_wire(nats_server.port) as wire, deciding(bus, wire, ask) as stage:
        await silent.wait()
        await eventually(lambda: stage.gateway.asked, describe="the intent is at the gateway")
        assert stage.outcomes == []
        wire.cut()
        await stage.until_answered()

    assert [intent.id.split(".")[0] for intent in stage.gateway.asked] == ["patch-job"]
    assert stage.turns == 1, "a reconnect does not end a turn"


async def test_an_outcome_is_told_after_the_facts_that_it_speaks_of(
    bus: Bus, nats_server: NatsServer
):
    def answer(intent: AnyIntent) -> AnyOutcome:
        return msgspec.structs.replace(applied(intent), kind="queue", resource_version="7")

    async with deciding(bus, nats_server, lambda: [patch("job")], answer=answer) as stage:
        gateway = stage.gateway
        await eventually(lambda: gateway.asked, describe="the intent")
        await gateway.is_complete_up_to(6, "queue")
        await eventually(lambda: stage.shell.view.position("queue") == 6, describe="the position")
        await asyncio.sleep(0.3)  # more than a look of the shell: it must not be told
        assert stage.outcomes == []

        await gateway.tell(
            ObjectSeen(
                kind="queue",
                name="q",
                uid="u",
                resource_version="7",
                projection=msgspec.Raw(msgspec.msgpack.encode("q")),
            )
        )
        await gateway.is_complete_up_to(9, "queue")
        await stage.until_answered()

    what = [type(one) for one in stage.heard]
    assert what.index(FactChanged) < what.index(OutcomeHeard)


async def test_answers_of_a_gateway_whose_turn_is_over_are_not_heard(
    bus: Bus, nats_server: NatsServer
):
    async with deciding(bus, nats_server, lambda: [patch("job")], answer=lambda _: None) as stage:
        gateway = stage.gateway
        await eventually(lambda: gateway.asked, describe="the intent")
        (intent,) = gateway.asked
        await gateway.take_turn(Epoch(1, 2))
        late = refused(intent, Reason.EXPIRED, "of a frozen gateway", at=0.0)
        await gateway.say(msgspec.structs.replace(late, gateway=Epoch(1, 1)))
        await gateway.say(msgspec.structs.replace(applied(intent), gateway=Epoch(1, 2)))
        await stage.until_answered()

    assert [type(outcome) for outcome in stage.outcomes] == [Applied]


async def test_a_turn_begins_when_the_view_shows_what_was_done_before(
    bus: Bus, nats_server: NatsServer
):
    assumed = (AssumedPod("ns", "p", "u", "n1"),)

    def prepare(gateway: ScriptedGateway) -> None:
        gateway.versions, gateway.assumed = {"queue": "5", "pod": "8"}, assumed

    async with deciding(bus, nats_server, list, prepare=prepare) as stage:
        gateway = stage.gateway
        await eventually(lambda: gateway.fences, deadline_s=20, describe="the fence")
        await gateway.is_complete_up_to(5, "queue")
        await gateway.is_complete_up_to(7, "pod")
        await eventually(lambda: stage.shell.view.position("pod") == 7)
        assert not stage.shell.deciding
        assert "view" in (stage.shell.not_ready() or "")
        await gateway.is_complete_up_to(8, "pod")
        await eventually(lambda: stage.turns, deadline_s=20, describe="the turn")

    assert [one for one in stage.heard if isinstance(one, Ready)] == [Ready(assumed)]


async def test_the_lease_says_where_the_fence_stands(bus: Bus, nats_server: NatsServer):
    async with deciding(bus, nats_server, list) as stage:
        await eventually(lambda: stage.turns, deadline_s=20, describe="the turn")
        (fence, sequence) = stage.gateway.fences[0]
        first = await bus.jetstream.last_message(LEASES.name, lease_subject("controllers"))
        assert first is not None

        async def renewed() -> LeaseValue | None:
            stored = await bus.jetstream.last_message(LEASES.name, lease_subject("controllers"))
            if stored is None or stored.sequence < first.sequence + 2:
                return None
            return msgspec.json.decode(stored.payload, type=LeaseValue)

        value = await eventually(renewed, describe="two renewals")

    log = (await bus.jetstream.stream_info(INTENT.name)).created
    assert (value.holder, value.fence, value.fence_log) == ("test", sequence, log)
    assert value.revision == fence.epoch.revision


async def test_a_gateway_that_does_not_answer_is_waited_for_and_named(
    bus: Bus, nats_server: NatsServer
):
    def prepare(gateway: ScriptedGateway) -> None:
        gateway.answer_fence = lambda _: None

    async with deciding(bus, nats_server, list, prepare=prepare) as stage:
        await eventually(lambda: stage.gateway.fences, deadline_s=20, describe="the fence")

        assert stage.shell.not_ready() == "the gateway does not answer"
        assert not stage.shell.deciding


async def test_a_gateway_of_another_release_is_named(bus: Bus, nats_server: NatsServer):
    def prepare(gateway: ScriptedGateway) -> None:
        gateway.answer_fence = lambda fence: refused(
            fence, Reason.NOT_ALLOWED, "it speaks version 1", at=0.0
        )

    async with deciding(bus, nats_server, list, prepare=prepare) as stage:
        await eventually(
            lambda: "it speaks version 1" in (stage.shell.not_ready() or ""), deadline_s=20
        )


async def test_who_is_fenced_off_while_leading_begins_another_turn(
    bus: Bus, nats_server: NatsServer
):
    refusals = iter([True, False])

    def answer(intent: AnyIntent) -> AnyOutcome:
        if next(refusals, False):
            return refused(intent, Reason.FENCED, "fence anew", at=0.0)
        return applied(intent)

    async with deciding(bus, nats_server, lambda: [patch("job")], answer=answer) as stage:
        await eventually(
            lambda: any(isinstance(outcome, Applied) for outcome in stage.outcomes),
            deadline_s=20,
        )

    epochs = [fence.epoch for fence, _ in stage.gateway.fences]
    assert stage.turns == 2
    assert len(epochs) == len(set(epochs)) == 2, "one turn, one epoch"
    first, second = stage.gateway.asked
    assert first.id != second.id, "the same wish in another turn is another intent"


async def test_a_position_that_goes_back_ends_the_turn(bus: Bus, nats_server: NatsServer):
    async with deciding(bus, nats_server, list) as stage:
        await stage.gateway.is_complete_up_to(9, "queue")
        await eventually(lambda: stage.turns == 1, deadline_s=20, describe="a turn")
        await eventually(lambda: stage.shell.view.position("queue") == 9)
        await stage.gateway.is_complete_up_to(4, "queue")

        await eventually(lambda: stage.turns == 2, deadline_s=20, describe="another turn")


async def test_nothing_is_decided_over_and_over_while_there_is_no_bus(
    bus: Bus, nats_server: NatsServer
):
    async with deciding(bus, nats_server, lambda: [patch("job")], insists=True) as stage:
        await stage.until_answered(4)
        nats_server.kill()
        await eventually(lambda: not bus.connection.connected)
        before = len(stage.heard)
        await asyncio.sleep(1.0)

        assert len(stage.heard) - before < 5
        await nats_server.start()


async def test_a_core_that_waits_for_others_does_not_hold_up_the_loop(
    bus: Bus, nats_server: NatsServer
):
    """What it waits for runs on the loop that would be stuck."""
    loop = asyncio.get_running_loop()

    async def answer() -> list[Instruction]:
        await asyncio.sleep(0)
        return [patch("job")]

    def ask() -> list[Instruction]:
        return asyncio.run_coroutine_threadsafe(answer(), loop).result(timeout=20)

    async with deciding(bus, nats_server, ask, waits=True) as stage:
        await stage.until_answered()

    assert [intent.id.split(".")[0] for intent in stage.gateway.asked] == ["patch-job"]


async def test_an_instance_that_comes_back_under_its_name_leads_at_once(
    bus: Bus, nats_server: NatsServer
):
    """It was killed: nobody has given its lease back."""
    async with deciding(bus, nats_server, list) as stage:
        await eventually(lambda: stage.turns == 1, deadline_s=20, describe="a turn")
        frozen = stage.shell.lease
        assert frozen is not None
        async with join(nats_server, "controllers") as again:
            heard: list[Stimulus] = []
            shell = DecidingShell(
                service="controllers",
                kinds=("queue",),
                make_core=lambda: Script(list, heard),
                connection=again.connection,
                publisher=again.publisher,
                clock=again.clock,
                holder="test",
                lease_life_s=60.0,
            )
            with contextlib.suppress(asyncio.CancelledError):
                async with background(shell.run()):
                    await eventually(lambda: heard, deadline_s=10, describe="its turn")
