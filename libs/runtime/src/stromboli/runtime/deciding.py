"""The shell around a core: facts, outcomes and time in; intents and history out.

One leader per service and shard. A standby keeps its view warm. A new leader first fences off
its predecessor in every partition and waits until its view shows the predecessor's last
writes; then it makes a fresh core from the view and lets it decide. When it loses the lease,
or the log turns out to be another one, the core is thrown away.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from stromboli.api import kinds
from stromboli.api.projections import decode_end, decode_projection
from stromboli.contracts import codec
from stromboli.contracts.errors import MessageTooLarge
from stromboli.contracts.intents import AnyIntent, Envelope
from stromboli.contracts.outcomes import AnyOutcome, Reason, Refused, refused
from stromboli.contracts.records import REPAIRED, HistoryRecorded
from stromboli.contracts.stimuli import (
    Core,
    FactChanged,
    Instruction,
    OutcomeHeard,
    Probe,
    ProbeAnswered,
    Ready,
    SafetyPass,
    Stimulus,
    Unanswered,
    WakeAt,
    WokeUp,
    tell,
)
from stromboli.contracts.streams import STATE, STREAMS
from stromboli.runtime.bus.asking import FenceRound, outcome_reader, start_asking
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.leases import Lease, LeaseKeeper
from stromboli.runtime.bus.ordering import Run
from stromboli.runtime.bus.publisher import PubAck, Publisher
from stromboli.runtime.bus.reader import LogMessage, LogReader
from stromboli.runtime.bus.runs import run_of
from stromboli.runtime.bus.streams import wait_for
from stromboli.runtime.bus.view import Delta, View
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter, histogram

log = get_logger(__name__)

_intents = counter("stromboli.intents.asked", "Intents put on the bus", labels=["verb", "kind"])
_repaired = counter("stromboli.safety.repaired", "What only a safety pass found out")
_handled = histogram("stromboli.core.duration", "How long a core took for a batch of stimuli")

_LOOK_S = 0.25
_AT_ONCE = 500
_PROBES_AT_ONCE = 64

Reader: TypeAlias = Callable[[str, msgspec.Raw], Any]
"""Makes of a kind and a projection what the core is told; raises ValueError if it can't."""
Prober: TypeAlias = Callable[[Probe], Awaitable[ProbeAnswered]]
"""Carries out a probe within the time that it allows; a failure is an answer too."""


@runtime_checkable
class MayWait(Protocol):
    """A core that may have to ask others before it answers."""

    @property
    def waits_for_others(self) -> bool: ...


@dataclass(slots=True)
class DecidingShell:
    """Runs one core as one leader-elected service."""

    service: str
    kinds: Sequence[str]
    make_core: Callable[[], Core]
    connection: BusConnection
    publisher: Publisher
    clock: Clock
    holder: str
    shard: str = "-"
    lease_life_s: float = 4.0
    intent_lives_s: float = 15.0
    pause_s: float = 0.002
    """Facts that arrive within this pause are handled together."""
    safety_every_s: float = 30.0
    probe: Prober | None = None
    """For cores that ask for probes."""
    read: Reader | None = None
    """For cores that want something else than the objects of `stromboli.api`."""
    view: View[Any] = field(init=False)
    lease: Lease | None = None
    deciding: bool = False
    _stimuli: list[Stimulus] = field(default_factory=list[Stimulus])
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: dict[str, Envelope] = field(default_factory=dict[str, Envelope])
    _wake_at: float = float("inf")
    _fences: FenceRound | None = None
    _fenced_off: str = ""
    """Why the gateway does not listen to us in this turn; then the turn ends."""
    _probes: dict[str, Probe] = field(default_factory=dict[str, Probe])
    """Those that wait for their turn, by id: asking twice is asking once."""
    _probes_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _unreadable: list[tuple[Unreadable, str]] = field(default_factory=list[tuple[Unreadable, str]])

    def __post_init__(self) -> None:
        if self.read is None:
            self.view = View(self.kinds, _decode, self, _decode_end)
        else:
            self.view = View(self.kinds, self.read, self)

    def not_ready(self) -> str | None:
        """Why this service can't do its work; a standby that could lead is ready."""
        if not self.connection.connected:
            return "not connected to NATS"
        if self.view.unsynced:
            return f"not synced yet: {', '.join(self.view.unsynced)}"
        if self.lease is not None and self.lease.held and not self.deciding:
            return "fencing off the predecessor"
        return None

    # What the view tells us.

    def changed(self, delta: Delta[Any]) -> None:
        if self.deciding:
            self._push(_as_stimulus(delta))

    def synced(self, kind: str) -> None:
        log.info("view.synced", kind=kind)

    def unreadable(self, message: LogMessage, reason: str) -> None:
        letter = Unreadable(
            STATE.name, self.view.incarnation, message.subject, message.sequence, message.payload
        )
        self._unreadable.append((letter, reason))
        self._news.set()

    def _heard(self, outcome: AnyOutcome) -> None:
        if self._fences is not None:
            self._fences.answer(outcome)
        if self._asked.pop(outcome.intent_id, None) is not None and self.deciding:
            self._push(OutcomeHeard(outcome))
            if isinstance(outcome, Refused) and outcome.reason is Reason.FENCED:
                self._fenced_off = outcome.message

    def wake(self) -> None:
        """Something other than a fact has changed; the core knows by itself what that touches."""
        if self.deciding:
            self._push(WokeUp())

    def _push(self, stimulus: Stimulus) -> None:
        self._stimuli.append(stimulus)
        self._news.set()

    # Life.

    async def run(self) -> None:
        """Ends only by cancellation."""
        await wait_for(JetStream(self.connection), STREAMS)
        # All of STATE, also the kinds that the core does not read: only then is "the view has
        # reached this sequence", which a fence is answered with, a plain comparison.
        state = LogReader(
            self.connection,
            self.clock,
            stream=STATE.name,
            filters=["vc.state.>"],
            listener=self.view,
        )
        outcomes = outcome_reader(self.connection, self.clock, self._heard)
        async with asyncio.TaskGroup() as group:
            group.create_task(state.run(), name="state")
            group.create_task(outcomes.run(), name="outcomes")
            group.create_task(self._put_aside(), name="dead letters")
            group.create_task(self._take_turns(outcomes), name="turns")
            if self.probe is not None:
                for number in range(_PROBES_AT_ONCE):
                    group.create_task(self._carry_out_probes(self.probe), name=f"probe {number}")

    async def _carry_out_probes(self, prober: Prober) -> None:
        while True:
            while not self._probes:
                self._probes_wanted.clear()
                await self._probes_wanted.wait()
            _, probe = self._probes.popitem()
            answer = await prober(probe)
            if self.deciding:
                self._push(answer)

    async def _put_aside(self) -> None:
        office = DeadLetterOffice(self.publisher, self.clock, self.service)
        while True:
            while self._unreadable:
                await office.put_aside(*self._unreadable.pop())
            await asyncio.sleep(_LOOK_S)

    async def _take_turns(self, outcomes: LogReader) -> None:
        keeper = LeaseKeeper(
            JetStream(self.connection),
            self.publisher,
            self.clock,
            service=self.service,
            shard=self.shard,
            holder=self.holder,
            life_s=self.lease_life_s,
        )
        while True:
            async with keeper.lead() as lease:
                self.lease = lease
                while lease.held:
                    try:
                        await self._prepare(lease, outcomes)
                        async with self._turn():
                            await self._decide(lease, self.view.incarnation)
                    except (BusError, TimeoutError) as problem:
                        log.warning("turn.interrupted", problem=str(problem) or "too slow")
                        await asyncio.sleep(_LOOK_S)
            self.lease = None

    async def _prepare(self, lease: Lease, outcomes: LogReader) -> None:
        """Synced, alone, and as new as our predecessor's last write."""
        await self._until(lambda: not self.view.unsynced and outcomes.attached, lease)
        fences = FenceRound(self.publisher, self.clock, service=self.service, epoch=lease.epoch)
        self._fences = fences
        try:
            await fences.run(shard=self.shard)
        finally:
            self._fences = None
        await self._until(lambda: self._has_reached(fences), lease)

    def _has_reached(self, fences: FenceRound) -> bool:
        return all(self.view.reached(*position) for position in fences.position.items())

    async def _until(self, holds: Callable[[], bool], lease: Lease) -> None:
        async with asyncio.timeout(60):
            while not holds():
                if not lease.held:
                    raise BusError("the lease was lost meanwhile")
                await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        self._stimuli = [*self._everything(), Ready()]
        self._asked.clear()
        self._fenced_off = ""
        self._wake_at = float("inf")
        self.deciding = True
        log.info("turn.began", objects=len(self._stimuli) - 1)
        try:
            yield
        finally:
            self.deciding = False
            self._stimuli = []
            self._probes.clear()

    def _everything(self) -> Iterable[FactChanged]:
        for kind in self.kinds:
            for (namespace, name), entry in self.view.objects(kind).items():
                yield FactChanged(
                    kind=kind,
                    namespace=namespace,
                    name=name,
                    uid=entry.uid,
                    resource_version=entry.resource_version,
                    after=entry.object,
                )

    async def _decide(self, lease: Lease, incarnation: str) -> None:
        core = self.make_core()
        next_safety = self.clock.monotonic() + self.safety_every_s
        # A view that replays, even the same log, is half-read: nothing is decided on it.
        while lease.held and self.view.incarnation == incarnation and not self.view.unsynced:
            if self._fenced_off:
                raise BusError(f"fenced off: {self._fenced_off}")
            if not self.connection.connected:
                # What can't be asked for would only be decided again and again.
                await asyncio.sleep(_LOOK_S)
                continue
            now = self.clock.now().timestamp()
            if self._wake_at <= now:
                self._wake_at = float("inf")
                self._stimuli.append(WokeUp())
            if self.clock.monotonic() >= next_safety:
                next_safety = self.clock.monotonic() + self.safety_every_s
                self._stimuli.append(SafetyPass(within_s=self.safety_every_s / 2))
            self._collect_unanswered(now)
            batch, self._stimuli = self._stimuli, []
            self._news.clear()
            if batch:
                await self._perform(await self._think(core, batch, now), lease)
            await self._rest()

    async def _think(self, core: Core, batch: list[Stimulus], now: float) -> list[Instruction]:
        """Some at a time: when a turn begins there are very many, and the lease needs renewal.

        A core that waits for others does so in a thread: facts that arrive meanwhile wait for it.
        """
        instructions: list[Instruction] = []
        waits = isinstance(core, MayWait) and core.waits_for_others
        for start in range(0, len(batch), _AT_ONCE):
            if start:
                await asyncio.sleep(0)
            some = batch[start : start + _AT_ONCE]
            with _handled.timed():
                if waits:
                    instructions += await asyncio.to_thread(tell, core, some, now=now)
                else:
                    instructions += tell(core, some, now=now)
        return instructions

    def _collect_unanswered(self, now: float) -> None:
        late = [intent for intent in self._asked.values() if intent.not_after + 2 < now]
        for intent in late:
            del self._asked[intent.id]
            self._stimuli.append(Unanswered(intent))

    async def _rest(self) -> None:
        """Until something happens, and then a moment longer, so that more can happen."""
        if self._stimuli:
            return
        now = self.clock.now().timestamp()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(_LOOK_S, self._wake_at - now))):
                await self._news.wait()
        if self._news.is_set() and self.pause_s:
            await asyncio.sleep(self.pause_s)

    async def _perform(self, instructions: list[Instruction], lease: Lease) -> None:
        """In order per key; what has no order is on its way together."""
        under_way = _UnderWay()
        for instruction in instructions:
            match instruction:
                case WakeAt(at):
                    self._wake_at = min(self._wake_at, at)
                case HistoryRecorded():
                    await self._record(instruction)
                case Probe():
                    self._probes[instruction.id] = instruction
                    self._probes_wanted.set()
                case _:
                    if under_way.holds_back(instruction):
                        await self._until_sent(under_way)
                    future = await self._ask(instruction, lease)
                    if future is not None:
                        under_way.add(instruction, future)
        await self._until_sent(under_way)

    async def _record(self, record: HistoryRecorded) -> None:
        if record.what == REPAIRED:
            _repaired.add(1)
            log.warning(REPAIRED, namespace=record.namespace, job=record.job, why=record.why)
        with contextlib.suppress(BusError):  # history explains decisions, it does not make them
            future = await self.publisher.send(record.subject(), codec.encode(record))
            future.add_done_callback(_swallow)

    async def _ask(self, intent: AnyIntent, lease: Lease) -> "asyncio.Future[PubAck] | None":
        if not lease.held:
            raise BusError("no longer leading")
        now = self.clock.now().timestamp()
        stamped: AnyIntent = msgspec.structs.replace(
            intent,
            service=self.service,
            shard=self.shard,
            epoch=lease.epoch,
            not_after=now + self.intent_lives_s,
            sent_at=now,
        )
        self._asked[stamped.id] = stamped
        _intents.add(1, verb=str(stamped.verb), kind=stamped.kind)
        try:
            return await start_asking(self.publisher, stamped)
        except BusError as problem:
            self._unsent(stamped.id, problem)
        except MessageTooLarge as problem:
            # Nobody else will answer it, and asking again would be the same again.
            log.warning("intent.too_large", key=stamped.key, problem=str(problem))
            self._heard(refused(stamped, Reason.INVALID, str(problem), at=now))
        return None

    async def _until_sent(self, under_way: "_UnderWay") -> None:
        """Everything is on the bus, or the core will hear that it is not."""
        for intent_id, future in under_way.take():
            try:
                await future
            except BusError as problem:
                self._unsent(intent_id, problem)

    def _unsent(self, intent_id: str, problem: BusError) -> None:
        stamped = self._asked.pop(intent_id, None)
        if stamped is not None:
            log.warning("intent.unsent", key=stamped.key, problem=str(problem))
            self._push(Unanswered(stamped))


@dataclass(slots=True)
class _UnderWay:
    """Intents on their way to the bus; those of one key are alone, or of one run."""

    _futures: dict[str, "asyncio.Future[PubAck]"] = field(default_factory=dict)
    _runs: dict[str, dict[str, Run | None]] = field(default_factory=dict)
    """Key → object → run."""

    def holds_back(self, later: AnyIntent) -> bool:
        """Must something be on the bus before this intent may be sent?"""
        of_key = self._runs.get(later.key)
        if of_key is None:
            return False
        run, first = run_of(later), next(iter(of_key.values()))
        if run is None or first is None or run.place in of_key:
            return True
        return run.sort != first.sort

    def add(self, intent: AnyIntent, future: "asyncio.Future[PubAck]") -> None:
        # When the lease is lost nobody waits any more, and asyncio would complain.
        future.add_done_callback(_swallow)
        run = run_of(intent)
        self._futures[intent.id] = future
        self._runs.setdefault(intent.key, {})[run.place if run else ""] = run

    def take(self) -> Iterable[tuple[str, "asyncio.Future[PubAck]"]]:
        futures, self._futures = self._futures, {}
        self._runs.clear()
        return futures.items()


def _as_stimulus(delta: Delta[Any]) -> FactChanged:
    known = delta.new or delta.ended or delta.old
    return FactChanged(
        kind=delta.kind,
        namespace=delta.namespace,
        name=delta.name,
        uid=known.uid if known else "",
        resource_version=known.resource_version if known else "0",
        before=delta.old.object if delta.old else None,
        after=delta.new.object if delta.new else None,
        last=delta.ended.object if delta.ended else None,
    )


def _decode(token: str, projection: msgspec.Raw) -> Any:
    return decode_projection(kinds.by_token(token), projection)


def _decode_end(token: str, known: Any, projection: msgspec.Raw) -> Any:
    return decode_end(kinds.by_token(token), known, projection)


def _swallow(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
