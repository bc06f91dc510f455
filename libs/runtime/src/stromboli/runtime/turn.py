"""One turn of leadership: a core, and the conversation about what it wants.

A turn has one epoch and one book of intents. It ends, and with it everything that it believed,
when something has happened that it can't account for: the lease is lost, the gateway does not
listen to it or stays silent, the bus does not take what it sends, a log or a position went
back. Then the next turn's fence tells what is so, and a new core is made from the view.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from stromboli.contracts import codec
from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import AnyOutcome, AssumedPod, Reason, Refused
from stromboli.contracts.records import REPAIRED, HistoryRecorded
from stromboli.contracts.stimuli import (
    Core,
    FactChanged,
    Instruction,
    OutcomeHeard,
    Probe,
    Ready,
    SafetyPass,
    Stimulus,
    WakeAt,
    WokeUp,
    tell,
)
from stromboli.runtime.bus.asking import OutcomeListener
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.leases import Lease
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.bus.view import View
from stromboli.runtime.clock import Clock
from stromboli.runtime.intent_book import Asked, IntentBook
from stromboli.runtime.intent_sender import IntentSender
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter, histogram, inject

__all__ = ["MayWait", "Pace", "Turn"]

log = get_logger(__name__)

_intents = counter("stromboli.intents.asked", "Intents put on the bus", labels=["verb", "kind"])
_repaired = counter("stromboli.safety.repaired", "What only a safety pass found out")
_handled = histogram("stromboli.core.duration", "How long a core took for a batch of stimuli")

_LOOK_S: Final = 0.25
_AT_ONCE: Final = 500


@runtime_checkable
class MayWait(Protocol):
    """A core that may have to ask others before it answers."""

    @property
    def waits_for_others(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How a turn spends its time."""

    pause_s: float = 0.002
    """Facts that arrive within this pause are handled together."""
    safety_every_s: float = 30.0
    lives_s: float = 15.0
    """For how long the gateway works on an intent."""


@dataclass(slots=True, eq=False)
class Turn:
    """Push what happens, hear what is answered; `run` ends with the reason why it is over."""

    core: Core
    lease: Lease
    service: str
    shard: str
    view: View[Any]
    outcomes: OutcomeListener
    publisher: Publisher
    connection: BusConnection
    clock: Clock
    pace: Pace
    on_probe: Callable[[Probe], None]
    assumed: tuple[AssumedPod, ...] = ()
    stimuli: list[Stimulus] = field(default_factory=list[Stimulus])
    book: IntentBook = field(default_factory=IntentBook)
    _sender: IntentSender = field(init=False)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _wake_at: float = float("inf")
    _asked: int = 0
    _fenced_off: str = ""
    _incarnation: str = field(init=False)
    _setbacks: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._sender = IntentSender(
            self.book,
            self.publisher,
            self.connection,
            self.clock,
            self.lease,
            answered=self._news.set,
        )
        self._incarnation = self.view.incarnation
        self._setbacks = self._seen_setbacks()
        self.stimuli += [*everything(self.view), Ready(self.assumed)]
        log.info("turn.began", epoch=str(self.lease.epoch), objects=len(self.stimuli) - 1)

    # What happens.

    def push(self, stimulus: Stimulus) -> None:
        self.stimuli.append(stimulus)
        self._news.set()

    def hear(self, outcome: AnyOutcome) -> None:
        """An outcome of this service counts."""
        if not self.book.heard(outcome, self.clock.monotonic()):
            return
        if isinstance(outcome, Refused) and outcome.reason is Reason.FENCED:
            self._fenced_off = outcome.message
        self._sender.wake()
        self._news.set()

    def look(self) -> None:
        """The view has moved: a position may have been reached."""
        self._news.set()

    def position(self, kind: str) -> int:
        return self.view.position(kind)

    def shows(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        if kind not in self.view.kinds:
            return False
        entry = self.view.get(kind, namespace, name)
        return entry is not None and entry.uid == uid

    # Life.

    async def run(self) -> str:
        """Why it is over."""
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._sender.run(), name="intents")
            why = await self._decide()
            sending.cancel()
        return why

    def _seen_setbacks(self) -> tuple[int, int]:
        return self.view.setbacks, self.outcomes.setbacks

    def _why_over(self) -> str:
        if not self.lease.held:
            return "the lease was lost"
        # A view that replays, even the same log, is half-read: nothing is decided on it.
        if self.view.incarnation != self._incarnation or self.view.unsynced:
            return "the view begins anew"
        if self._seen_setbacks() != self._setbacks:
            return "a log or the position of a kind went back"
        if self._fenced_off:
            return f"fenced off: {self._fenced_off}"
        return self.book.overdue(self.clock.monotonic())

    async def _decide(self) -> str:
        next_safety = self.clock.monotonic() + self.pace.safety_every_s
        while not (why := self._why_over()):
            if not self.connection.connected:
                # What can't be asked for would only be decided again and again.
                await asyncio.sleep(_LOOK_S)
                continue
            self._news.clear()
            self._take_answers()
            if self.book.is_full:
                await self._rest(may_go_on=False)
                continue
            now = self.clock.now().timestamp()
            if self._wake_at <= now:
                self._wake_at = float("inf")
                self.stimuli.append(WokeUp())
            if self.clock.monotonic() >= next_safety:
                next_safety = self.clock.monotonic() + self.pace.safety_every_s
                self.stimuli.append(SafetyPass(within_s=self.pace.safety_every_s / 2))
            batch, self.stimuli = self.stimuli, []
            if batch:
                self._perform(await self._think(batch, now))
            await self._rest(may_go_on=True)
        return why

    def _take_answers(self) -> None:
        """What the view shows was pushed before; so this says only what the core can see."""
        for asked, outcome in self.book.to_tell(self):
            known = msgspec.structs.replace(outcome, intent_id=asked.wish)
            self.stimuli.append(OutcomeHeard(known))

    async def _think(self, batch: list[Stimulus], now: float) -> list[Instruction]:
        """Some at a time: when a turn begins there are very many, and the lease needs renewal.

        A core that waits for others does so in a thread: facts that arrive meanwhile wait for it.
        """
        instructions: list[Instruction] = []
        waits = isinstance(self.core, MayWait) and self.core.waits_for_others
        for start in range(0, len(batch), _AT_ONCE):
            if start:
                await asyncio.sleep(0)
            some = batch[start : start + _AT_ONCE]
            with _handled.timed():
                if waits:
                    instructions += await asyncio.to_thread(tell, self.core, some, now=now)
                else:
                    instructions += tell(self.core, some, now=now)
        return instructions

    async def _rest(self, *, may_go_on: bool) -> None:
        """Until something happens, and then a moment longer, so that more can happen."""
        if self.stimuli and may_go_on:
            return
        now = self.clock.now().timestamp()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(_LOOK_S, self._wake_at - now))):
                await self._news.wait()
        if self._news.is_set() and self.pace.pause_s:
            await asyncio.sleep(self.pace.pause_s)

    # What the core wants.

    def _perform(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case WakeAt(at):
                    self._wake_at = min(self._wake_at, at)
                case HistoryRecorded():
                    _count_repairs(instruction)
                    self._sender.record(instruction)
                case Probe():
                    self.on_probe(instruction)
                case _:
                    self._ask(instruction)
        self._sender.wake()

    def _ask(self, intent: AnyIntent) -> None:
        """Asking twice is asking once, until the core has heard of it.

        On the bus it has an id that no other turn gives it. Two turns may want the same: the
        bus would take the second one for a repetition, and the gateway would not answer it.
        """
        if self.book.is_wished(intent.id):
            return
        self._asked += 1
        stamped: AnyIntent = msgspec.structs.replace(
            intent,
            id=f"{intent.id}.{self.lease.epoch}.{self._asked}",
            service=self.service,
            shard=self.shard,
            epoch=self.lease.epoch,
            lives_s=self.pace.lives_s,
            sent_at=self.clock.now().timestamp(),
        )
        headers: dict[str, str] = {}
        inject(headers)
        _intents.add(1, verb=str(stamped.verb), kind=stamped.kind)
        payload = codec.encode(stamped)
        self.book.ask(Asked(stamped, intent.id, payload=payload, headers=headers))


def everything(view: View[Any]) -> Iterable[FactChanged]:
    """All that the view has, as a new core is told of it."""
    for kind in view.kinds:
        for (namespace, name), entry in view.objects(kind).items():
            yield FactChanged(
                kind=kind,
                namespace=namespace,
                name=name,
                uid=entry.uid,
                resource_version=entry.resource_version,
                after=entry.object,
            )


def _count_repairs(record: HistoryRecorded) -> None:
    if record.what == REPAIRED:
        _repaired.add(1)
        log.warning(REPAIRED, namespace=record.namespace, job=record.job, why=record.why)
