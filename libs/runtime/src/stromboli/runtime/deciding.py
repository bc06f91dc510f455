"""The shell around a core: facts, outcomes and time in; intents and history out.

One leader per service and shard. A standby keeps its view warm. A new leader puts a fence on
INTENT, which is answered once everything has ended that was asked for before, and waits until
its view shows what came of that; then a turn begins (see `turn.py`). One turn is one
acquisition of the lease: a turn that ends gives the lease back and competes anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.api import kinds
from stromboli.api.projections import decode_end, decode_projection
from stromboli.contracts.outcomes import AnyOutcome, FenceAnswered, Reason
from stromboli.contracts.stimuli import Core, FactChanged, Probe, ProbeAnswered, Stimulus, WokeUp
from stromboli.contracts.streams import STATE, STREAMS
from stromboli.runtime.bus.asking import OutcomeListener, outcome_reader
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.runtime.bus.errors import BusError, ViewTooOld
from stromboli.runtime.bus.fences import FenceRefused, Fencing
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.leases import Lease, LeaseKeeper
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.bus.reader import LogMessage, LogReader
from stromboli.runtime.bus.streams import wait_for
from stromboli.runtime.bus.view import Delta, View
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.turn import MayWait, Pace, Turn

__all__ = ["DecidingShell", "MayWait", "Prober", "Reader"]

log = get_logger(__name__)

_LOOK_S: Final = 0.25
_SOON_S: Final = 0.01
_AFTER_A_MISMATCH_S: Final = 5.0
_PROBES_AT_ONCE: Final = 64
_SHOWS_WITHIN_S: Final = 60.0

Reader: TypeAlias = Callable[[str, msgspec.Raw], Any]
"""Makes of a kind and a projection what the core is told; raises ValueError if it can't."""
Prober: TypeAlias = Callable[[Probe], Awaitable[ProbeAnswered]]
"""Carries out a probe within the time that it allows; a failure is an answer too."""


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
    """The name of this instance. Who finds it in the lease takes the lease at once."""
    shard: str = "-"
    lease_life_s: float = 4.0
    pace: Pace = field(default_factory=Pace)
    probe: Prober | None = None
    """For cores that ask for probes."""
    read: Reader | None = None
    """For cores that want something else than the objects of `stromboli.api`."""
    view: View[Any] = field(init=False)
    lease: Lease | None = None
    turn: Turn | None = None
    outcomes: OutcomeListener = field(init=False)
    _fencing: Fencing | None = None
    _waits_for: str = ""
    """What a leader that does not decide yet waits for."""
    _refusal: str = ""
    """Why the gateway refused our last fence."""
    _probes: dict[str, Probe] = field(default_factory=dict[str, Probe])
    """Those that wait for their turn, by id: asking twice is asking once."""
    _probes_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _unreadable: list[tuple[Unreadable, str]] = field(default_factory=list[tuple[Unreadable, str]])

    def __post_init__(self) -> None:
        self.view = View(
            self.kinds,
            self.read or _decode,
            self,
            decode_end=_decode_end if self.read is None else None,
            moved=self._moved,
        )
        self.outcomes = OutcomeListener(self._heard)

    @property
    def deciding(self) -> bool:
        return self.turn is not None

    def not_ready(self) -> str | None:
        """Why this service can't do its work; a standby that could lead is ready."""
        if not self.connection.connected:
            return "not connected to NATS"
        if self.view.unsynced:
            return f"not synced yet: {', '.join(self.view.unsynced)}"
        if self._refusal:
            return self._refusal
        if self.lease is not None and self.lease.held and not self.deciding:
            return self._waits_for
        return None

    # What the view tells us.

    def changed(self, delta: Delta[Any]) -> None:
        if self.turn is not None:
            self.turn.push(_as_stimulus(delta))

    def synced(self, kind: str) -> None:
        log.info("view.synced", kind=kind)

    def _moved(self) -> None:
        if self.turn is not None:
            self.turn.look()

    def unreadable(self, message: LogMessage, reason: str) -> None:
        letter = Unreadable(
            STATE.name, self.view.incarnation, message.subject, message.sequence, message.payload
        )
        self._unreadable.append((letter, reason))

    def _heard(self, outcome: AnyOutcome) -> None:
        if self._fencing is not None:
            self._fencing.hear(outcome)
        if self.turn is not None:
            self.turn.hear(outcome)

    def wake(self) -> None:
        """Something other than a fact has changed; the core knows by itself what that touches."""
        self._push(WokeUp())

    def _push(self, stimulus: Stimulus) -> None:
        if self.turn is not None:
            self.turn.push(stimulus)

    # Life.

    async def run(self) -> None:
        """Ends only by cancellation."""
        await wait_for(JetStream(self.connection), STREAMS)
        # All of STATE, also the kinds that the core does not read: their positions are needed.
        state = LogReader(
            self.connection,
            self.clock,
            stream=STATE.name,
            filters=["vc.state.>"],
            listener=self.view,
        )
        outcomes = outcome_reader(self.connection, self.clock, self.outcomes)
        async with asyncio.TaskGroup() as group:
            group.create_task(state.run(), name="state")
            group.create_task(outcomes.run(), name="outcomes")
            group.create_task(self._put_aside(), name="dead letters")
            group.create_task(self._take_turns(outcomes), name="turns")
            if self.probe is not None:
                for number in range(_PROBES_AT_ONCE):
                    group.create_task(self._carry_out_probes(self.probe), name=f"probe {number}")

    def _on_probe(self, probe: Probe) -> None:
        self._probes[probe.id] = probe
        self._probes_wanted.set()

    async def _carry_out_probes(self, prober: Prober) -> None:
        while True:
            while not self._probes:
                self._probes_wanted.clear()
                await self._probes_wanted.wait()
            _, probe = self._probes.popitem()
            self._push(await prober(probe))

    async def _put_aside(self) -> None:
        office = DeadLetterOffice(self.publisher, self.clock, self.service)
        while True:
            while self._unreadable:
                await office.put_aside(*self._unreadable.pop())
            await asyncio.sleep(_LOOK_S)

    # Turns.

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
            pause_s = _LOOK_S
            try:
                async with keeper.lead() as lease:
                    self.lease = lease
                    await self._lead(keeper, lease, outcomes)
            except FenceRefused as problem:
                log.warning("turn.refused", problem=str(problem))
                if problem.reason is not Reason.FENCED:
                    # Another release: it may be replaced, and nothing is gained by haste.
                    self._refusal = str(problem)
                    pause_s = _AFTER_A_MISMATCH_S
            except BusError as problem:
                log.warning("turn.interrupted", problem=str(problem))
            finally:
                self.lease = None
            await asyncio.sleep(pause_s)

    async def _lead(self, keeper: LeaseKeeper, lease: Lease, outcomes: LogReader) -> None:
        self._waits_for = "waits for the bus"
        await lease.throughout(
            _until(lambda: not self.view.unsynced and outcomes.attached),
        )
        answer = await self._fence(keeper, lease)
        self._refusal = ""
        self._waits_for = "waits until its view shows what was done before"
        try:
            async with asyncio.timeout(_SHOWS_WITHIN_S):
                await lease.throughout(_until(lambda: self._shows(answer)))
        except TimeoutError:
            # The API server was restored, perhaps, and never comes to these versions.
            raise ViewTooOld(self._waits_for) from None
        turn = self._turn(lease, answer)
        self.turn = turn
        try:
            why = await turn.run()
        finally:
            self.turn = None
            self._probes.clear()
        log.info("turn.ended", epoch=str(lease.epoch), why=why)

    async def _fence(self, keeper: LeaseKeeper, lease: Lease) -> FenceAnswered:
        """Alone from here on, and told what became of all that was asked for before."""
        self._waits_for = "the gateway does not answer"
        self._fencing = Fencing(
            JetStream(self.connection),
            self.publisher,
            self.clock,
            keeper=keeper,
            lease=lease,
            service=self.service,
            shard=self.shard,
        )
        try:
            return await self._fencing.run()
        finally:
            self._fencing = None

    def _shows(self, answer: FenceAnswered) -> bool:
        return not self.view.unsynced and all(
            self.view.position(kind) >= int(version) for kind, version in answer.versions.items()
        )

    def _turn(self, lease: Lease, answer: FenceAnswered) -> Turn:
        return Turn(
            core=self.make_core(),
            lease=lease,
            service=self.service,
            shard=self.shard,
            view=self.view,
            outcomes=self.outcomes,
            publisher=self.publisher,
            connection=self.connection,
            clock=self.clock,
            pace=self.pace,
            on_probe=self._on_probe,
            assumed=answer.assumed,
        )


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 (three parts are looked at, and rarely)
        await asyncio.sleep(_SOON_S)


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
