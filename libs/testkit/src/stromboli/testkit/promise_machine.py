"""Real gateways and schedulers on virtual time, on a bus and an API server that misbehave.

Members are killed as by kill -9, frozen, cut off, and each has a clock of its own. When all faults
have ended, everything has to come to rest within a bounded time, with nothing lost. `check` says
whether what must hold at every moment did.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from stromboli.contracts import codec
from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import AnyOutcome, OutcomeLog
from stromboli.contracts.records import REPAIRED
from stromboli.contracts.streams import HISTORY, INTENT, OUTCOME
from stromboli.gateway.config import GatewaySettings, WebhookSettings
from stromboli.gateway.leading import Gateway
from stromboli.runtime import crashpoints
from stromboli.runtime.bus.publisher import publishing
from stromboli.runtime.bus.reader import LogReader
from stromboli.runtime.deciding import DecidingShell
from stromboli.scheduling.core import KINDS, SchedulerCore
from stromboli.scheduling.fact_reading import FactReader
from stromboli.testkit.fault_plan import FaultPlan
from stromboli.testkit.gangs_on_nodes import GangsOnNodes
from stromboli.testkit.memory_cluster import MemoryCluster
from stromboli.testkit.memory_jetstream import Message
from stromboli.testkit.scheduling_objects import PLAIN
from stromboli.testkit.unruly_api import UnrulyTransport, unruly_client
from stromboli.testkit.unruly_bus import Link, UnrulyBus
from stromboli.testkit.virtual_time import Process, VirtualClock

__all__ = [
    "GANG_BIND_TIMEOUT_S",
    "GATEWAY",
    "SCHEDULER",
    "Broken",
    "Machine",
    "Member",
    "crash_points",
    "reaching",
]

GATEWAY: Final = "gateway"
SCHEDULER: Final = "scheduler"
GANG_BIND_TIMEOUT_S: Final = 10.0
_CONF: Final = msgspec.structs.replace(PLAIN, gang_bind_timeout_s=GANG_BIND_TIMEOUT_S)
_SETTLES_S: Final = 240.0

_running: ContextVar["Member | None"] = ContextVar("member", default=None)


class Broken(AssertionError):
    """A promise was not kept."""


class Member:
    """One process of ours, and the lives it has had."""

    def __init__(self, machine: "Machine", service: str, number: int) -> None:
        self.machine = machine
        self.service = service
        self.name = f"{service}-{number}"
        self.process = Process(self.name)
        self.clock = VirtualClock(
            date_ahead_s=machine.clocks_ahead_s.get(
                self.name, machine.clocks_ahead_s.get(service, 0.0)
            ),
            started_s=machine.rng.uniform(0, 1e6),
        )
        self.link: Link | None = None
        self.transport: UnrulyTransport | None = None
        self.gateway: Gateway | None = None
        self.shell: DecidingShell | None = None
        self.lives = 0
        self._task: asyncio.Task[None] | None = None
        self._dead: list[Process] = []

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """A new process under the same name."""
        self.lives += 1
        self.process = Process(f"{self.name}/{self.lives}")
        context = self.process.context()
        context.run(_running.set, self)
        life = self._gateway() if self.service == GATEWAY else self._scheduler()
        self._task = asyncio.get_running_loop().create_task(life, name=self.name, context=context)

    def kill(self) -> None:
        """As kill -9: from now on nothing of it is heard, and it has forgotten everything."""
        if self._task is None:
            return
        self._task = None
        if self.link is not None:
            self.link.sever()
        if self.transport is not None:
            self.transport.severed = True
        self.gateway = self.shell = None
        self.process.kill()
        self._dead.append(self.process)

    async def stop(self) -> None:
        """As SIGTERM: it gives its lease back."""
        task = self._task
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        self.kill()

    async def finish(self) -> None:
        """Wait for what is left of its lives; one that ended by itself is a fault of ours."""
        problem: BaseException | None = None
        if self._task is not None and self._task.done():
            problem = self._task.exception()
        self.kill()
        for process in self._dead:
            await process.ended()
        if problem is not None:
            raise Broken(f"{self.name} has ended by itself") from problem

    @property
    def leads(self) -> bool:
        """As it believes itself."""
        if self.gateway is not None:
            return self.gateway.is_leading
        return self.shell is not None and self.shell.deciding

    async def _gateway(self) -> None:
        machine = self.machine
        self.link, connection = await machine.bus.connect(GATEWAY, self.process)
        self.transport, kube = unruly_client(machine.cluster, machine.faults)
        async with publishing(connection, self.clock) as publisher:
            settings = GatewaySettings(webhooks=WebhookSettings(mode="off"), scheduler_configmap="")
            rng = random.Random(machine.rng.random())
            gateway = Gateway(settings, connection, publisher, kube, self.clock, self.name, rng)
            self.gateway = gateway
            outcomes = LogReader(
                connection,
                self.clock,
                stream=OUTCOME.name,
                filters=["vc.outcome.>"],
                listener=gateway.answered,
            )
            async with asyncio.TaskGroup() as group:
                for work in (
                    gateway.keep_streams(),
                    gateway.read_state(),
                    outcomes.run(),
                    gateway.put_rubbish_aside(),
                    gateway.take_turns(),
                ):
                    group.create_task(work)

    async def _scheduler(self) -> None:
        self.link, connection = await self.machine.bus.connect(SCHEDULER, self.process)
        async with publishing(connection, self.clock) as publisher:
            self.shell = DecidingShell(
                service=SCHEDULER,
                kinds=KINDS,
                make_core=lambda: SchedulerCore(_CONF),
                read=FactReader(_CONF.scheduler_names),
                connection=connection,
                publisher=publisher,
                clock=self.clock,
                holder=self.name,
            )
            await self.shell.run()


@dataclass(slots=True)
class _Record:
    """What went over the bus, to be looked at when it is over."""

    intents: dict[str, AnyIntent] = field(default_factory=dict[str, AnyIntent])
    answers: dict[str, list[AnyOutcome]] = field(default_factory=dict[str, list[AnyOutcome]])
    """By intent, those that count."""
    repaired: list[str] = field(default_factory=list[str])
    _log: OutcomeLog = field(default_factory=OutcomeLog)

    def note(self, stream: str, message: Message) -> None:
        if stream == INTENT.name:
            intent = codec.intents.decode(message.payload)
            self.intents[intent.id] = intent
        elif stream == OUTCOME.name:
            outcome = self._log.counting(codec.outcomes.decode(message.payload))
            if outcome is not None:
                self.answers.setdefault(outcome.intent_id, []).append(outcome)
        elif stream == HISTORY.name:
            record = codec.history.decode(message.payload)
            if record.what == REPAIRED:
                self.repaired.append(record.why)

    @property
    def silent(self) -> list[AnyIntent]:
        """Intents that were stored and have no answer that counts."""
        return [intent for id_, intent in self.intents.items() if id_ not in self.answers]


class Machine:
    """Two gateways, two schedulers, a bus, an API server and a cluster."""

    def __init__(
        self,
        rng: random.Random,
        *,
        cpus: tuple[int, ...],
        faults: FaultPlan | None = None,
        clocks_ahead_s: Mapping[str, float] | None = None,
    ) -> None:
        self.rng = rng
        self.clocks_ahead_s = clocks_ahead_s or {}
        """By the name of a member or of a service."""
        self.faults = faults or FaultPlan(random.Random(rng.random()), active=False)
        self.bus = UnrulyBus(self.faults)
        self.cluster = MemoryCluster()
        self.world = GangsOnNodes(
            self.cluster, rng, {f"n{number}": count for number, count in enumerate(cpus)}
        )
        self.record = _Record()
        self.bus.jetstream.observers.append(self.record.note)
        self.members = [
            Member(self, service, number) for service in (GATEWAY, SCHEDULER) for number in (0, 1)
        ]
        self._complaints: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._complain)

    def _complain(self, _: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        problem = about.get("exception")
        # What nobody asks a killed process for any more is no mistake.
        if isinstance(problem, asyncio.CancelledError) or "never retrieved" in about["message"]:
            return
        self._complaints.append(f"{about['message']}: {problem!r}")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator["Machine"]:
        """Everything started; all of it ends with the block."""
        bookmarks = asyncio.create_task(self._bookmarks())
        try:
            for member in self.members:
                member.start()
            yield self
        finally:
            bookmarks.cancel()
            self.faults.active = False
            for member in self.members:
                await member.finish()

    async def _bookmarks(self) -> None:
        while True:
            await asyncio.sleep(60)
            self.cluster.send_bookmarks()

    def of(self, service: str) -> list[Member]:
        return [member for member in self.members if member.service == service]

    def leader(self, service: str) -> Member | None:
        return next((member for member in self.of(service) if member.leads), None)

    async def until(
        self,
        holds: Callable[[], Any],
        *,
        within_s: float = 60.0,
        what: str | Callable[[], str] = "",
    ) -> None:
        """Look ten times a second of virtual time."""
        ends = self._loop.time() + within_s
        while not holds():
            if self._loop.time() > ends:
                described = what() if callable(what) else f"{what}: {self.describe()}"
                raise Broken(f"not within {within_s:g} s: {described}")
            await asyncio.sleep(0.1)

    def end_faults(self) -> None:
        """From now on all goes well; who is dead or frozen comes back."""
        self.faults.active = False
        for member in self.members:
            member.process.thaw()
            if not member.alive:
                member.start()

    async def come_to_rest(self) -> None:
        """Everything that fits is bound, nothing is half done, and every question is answered."""
        await self.until(lambda: not self.unsettled(), within_s=_SETTLES_S, what=self.describe)

    def unsettled(self) -> list[str]:
        found = self.world.unsettled()
        if self.cluster.under_way:
            found.append(f"{self.cluster.under_way} calls are not executed yet")
        stream = self.bus.jetstream.streams.get(INTENT.name)
        if stream is None or stream.messages:
            found.append("INTENT is not empty")
        if silent := self.record.silent:
            found.append(f"without an outcome: {silent}")
        return found

    def describe(self) -> str:
        leaders = [f"{member.name} leads" for member in self.members if member.leads]
        return "; ".join([*self.unsettled(), *leaders, *self._complaints])

    def check(self) -> None:
        """What must hold at every moment, looked at afterwards."""
        if self.world.over_committed:
            raise Broken("over-committed: " + self.world.over_committed[0])
        if twice := [said for said in self.record.answers.values() if len(said) > 1]:
            raise Broken(f"answered more than once: {twice[0]}")
        if self._complaints:
            raise Broken(f"asyncio complained: {self._complaints}")
        if self.record.repaired:
            raise Broken(f"repaired by a safety pass: {self.record.repaired}")


def crash_points() -> list[str]:
    """Where a process of ours may be killed."""
    return sorted(crashpoints.declared())


@contextlib.contextmanager
def reaching(point: str, happens: Callable[[Member], None], *, time: int = 1) -> Generator[None]:
    """Do this to whoever reaches the point for this time; who is killed goes no further."""

    def at_the_point(_: str) -> None:
        member = _running.get()
        if member is not None:
            happens(member)
            if not member.alive:
                raise asyncio.CancelledError

    before = crashpoints._die  # noqa: SLF001 (what it does to a process, we do to a task)
    crashpoints._armed[point] = time  # noqa: SLF001
    crashpoints._die = cast("Any", at_the_point)  # noqa: SLF001
    try:
        yield
    finally:
        crashpoints._armed.clear()  # noqa: SLF001
        crashpoints._die = before  # noqa: SLF001
