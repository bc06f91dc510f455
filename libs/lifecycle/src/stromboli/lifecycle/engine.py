"""Runs one controller: one decision at a time per key, on a view that shows all done before.

A touched key is decided at once if nothing of an earlier decision about it is open or not yet
seen in the view, and otherwise as soon as that ends; any number of keys side by side. What is
refused is asked again later, and ever later. A timer brings a key back at a time that its
decision named. All of this may be lost: a new engine finds everything in the facts.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.contracts.intents import (
    CreateObject,
    DeleteObject,
    Envelope,
    GenerateSecret,
    Intent,
)
from stromboli.contracts.outcomes import AnyOutcome, Applied, Reason, Refused
from stromboli.contracts.outstanding import Outstanding
from stromboli.contracts.permissions import CONTROLLERS
from stromboli.contracts.records import HistoryRecorded
from stromboli.contracts.stimuli import Instruction
from stromboli.lifecycle.asking import Asker, Basis
from stromboli.lifecycle.controllers.protocol import Case, Controller, Verdict
from stromboli.lifecycle.filing import parts_of
from stromboli.lifecycle.telling import warn
from stromboli.lifecycle.world import Change, Entry, World

__all__ = ["DECISION_FAILED", "Engine"]

DECISION_FAILED: Final = "decision.failed"

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 30.0
_A_MOMENT_S: Final = 0.05
_SAY_AGAIN_S: Final = 3600.0
"""An event that the API server has forgotten by now may be told again."""

_NO_FAULT_OF_THE_WISH: Final = frozenset({Reason.EXPIRED, Reason.FENCED})


@dataclass(slots=True)
class _Memory:
    """What the engine knows about a key beyond the facts."""

    refusals: int = 0
    failed: bool = False
    """Something of the last decision was refused or not answered."""
    refusal: Refused | None = None
    not_before: float = 0.0
    made: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    told: dict[str, float] = field(default_factory=dict[str, float])
    """Name of an event → when it was told."""


@dataclass(slots=True, eq=False)
class Engine:
    """`turn` is any text that no earlier engine of this controller had."""

    controller: Controller
    world: World
    turn: str = ""
    _book: Outstanding = field(init=False)
    _prefix: str = field(init=False)
    """What the keys of this controller begin with."""
    _memory: dict[str, _Memory] = field(default_factory=dict[str, _Memory])
    _timers: dict[str, float] = field(default_factory=dict[str, float])
    _alarms: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """The timers as a heap; one that is not in `_timers` any more is void."""
    _decisions: int = 0

    def __post_init__(self) -> None:
        self._book = Outstanding(watched=frozenset(self.controller.reads))
        self._prefix = f"{self.controller.decides}/"

    # Stimuli to keys.

    def every_key(self) -> Iterator[str]:
        yield from self.controller.standing()
        yield from self.world.keys(self.controller.decides)

    def take(self, change: Change) -> Iterator[str]:
        """The keys of this controller that a change touches."""
        mine = [key for key in change.keys if key.startswith(self._prefix)]
        ended = change.ended
        if ended is not None:
            for key in mine:
                self._end(key, change, ended)
        yield from self.controller.touched_by(change, self.world)
        is_heeded = not mine or self.controller.heeds(change)
        # A key whose own writes were not seen yet may wait for just this version.
        yield from mine if is_heeded else filter(self._book.is_closed, mine)

    def _end(self, key: str, change: Change, ended: Entry) -> None:
        is_itself = parts_of(key) == (change.kind, *change.place)
        if is_itself and self.controller.ends_with_object:
            self._book.forget_key(key)
            self._forget(key)
            self.controller.forget(key)
        else:
            self._book.ended(key, ended.uid)

    def _forget(self, key: str) -> None:
        self._memory.pop(key, None)
        self._timers.pop(key, None)

    def hear(self, outcome: AnyOutcome, now: float) -> str | None:
        """The key that an answer is about, if it is an answer to this engine."""
        if isinstance(outcome, Applied) and self.world.is_known_gone(
            outcome.kind, outcome.namespace, outcome.name, outcome.uid
        ):
            outcome = replace(outcome, uid="")  # it came and went: no more of it will be seen
        intent = self._book.answered(outcome, now=now)
        if intent is None:
            return None
        memory = self._memory.setdefault(outcome.key, _Memory())
        match outcome:
            case Applied():
                self._remember_made(memory, intent, outcome)
            case Refused() if outcome.kind != kinds.EVENT.token:
                if outcome.reason not in _NO_FAULT_OF_THE_WISH:
                    memory.refusal = _named(outcome, intent)
                self._pause(memory, now)
            case _:
                pass
        return outcome.key

    def miss(self, intent: Envelope, now: float) -> str | None:
        if not self._book.unanswered(intent):
            return None
        self._pause(self._memory.setdefault(intent.key, _Memory()), now)
        return intent.key

    def _pause(self, memory: _Memory, now: float) -> None:
        """Ask again later, and ever later: what is refused now will be so for a while."""
        memory.failed = True
        pause_s = _FIRST_PAUSE_S * 2 ** min(memory.refusals, 20)
        memory.not_before = now + min(_LONGEST_PAUSE_S, pause_s)

    def _remember_made(self, memory: _Memory, intent: Envelope, applied: Applied) -> None:
        place = (applied.kind, applied.name)
        if applied.kind in self.controller.reads:
            return
        match intent:
            case CreateObject() | GenerateSecret() if intent.owner_uid:
                memory.made[place] = applied.uid
            case DeleteObject():
                memory.made[place] = ""
            case _:
                pass

    # Time.

    def due(self, now: float) -> Iterator[str]:
        """The keys whose time has come."""
        while self._alarms and self._alarms[0][0] <= now:
            at, key = heapq.heappop(self._alarms)
            if self._timers.get(key) == at:
                del self._timers[key]
                yield key

    def next_alarm(self) -> float | None:
        while self._alarms and self._timers.get(self._alarms[0][1]) != self._alarms[0][0]:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def _set_timer(self, key: str, at: float | None) -> None:
        if at is None:
            self._timers.pop(key, None)
        elif self._timers.get(key) != at:
            self._timers[key] = at
            heapq.heappush(self._alarms, (at, key))

    # Deciding.

    def decide(self, key: str, now: float) -> list[Instruction]:
        if self._book.has_open(key):
            return []
        if not self._book.may_decide(key, self.world.version_of, now=now):
            self._set_timer(key, now + self._book.closed_at_most_s + _A_MOMENT_S)
            return []
        memory = self._memory.setdefault(key, _Memory())
        if memory.not_before > now:
            self._set_timer(key, memory.not_before)
            return []
        memory.refusals = memory.refusals + 1 if memory.failed else 0
        memory.refusal = memory.refusal if memory.failed else None
        has_failed, memory.failed = memory.failed, False
        return self._carry_out(key, memory, now, has_failed=has_failed)

    def _carry_out(
        self, key: str, memory: _Memory, now: float, *, has_failed: bool
    ) -> list[Instruction]:
        kind, namespace, name = parts_of(key)
        entry = self.world.find(kind, namespace, name)
        asker = self._asker(key, entry)
        case = Case(
            key=key,
            namespace=namespace,
            name=name,
            entry=entry,
            made=dict(memory.made),
            refusal=memory.refusal,
            has_failed=has_failed,
            now=now,
        )
        try:
            verdict = self.controller.decide(case, self.world, asker)
        except Exception as fault:  # noqa: BLE001 (one object must not stop all others)
            self._pause(memory, now)
            asker.intents.clear()
            verdict = _confession(case, fault, asker, memory.not_before)
        asker.intents = [i for i in asker.intents if not _is_old_news(i, memory, now)]
        self.controller.was_asked(key, asker.intents)
        for intent in asker.intents:
            self._book.ask(intent)
        self._set_timer(key, verdict.look_again_at)
        if entry is None and not asker.intents and verdict.look_again_at is None:
            self._memory.pop(key, None)
        return [*asker.intents, *verdict.history, *verdict.probes]

    def _asker(self, key: str, entry: Entry | None) -> Asker:
        self._decisions += 1
        basis = Basis(
            uid=entry.uid if entry else "",
            resource_version=entry.resource_version if entry else "",
            turn=f"{self.turn}/{self.controller.name}",
            decision=self._decisions,
            attempt=self._book.attempt(key),
        )
        return Asker(key, basis)


def _confession(case: Case, fault: Exception, asker: Asker, again_at: float) -> Verdict:
    """A decision ended in an error of ours: say so where people look, and try again later."""
    message = f"deciding about it failed: {type(fault).__name__}: {fault}"
    if case.entry is not None:
        warn(asker, case.entry.object, "DecisionFailed", message, now=case.now)
    record = HistoryRecorded(
        namespace=case.namespace,
        job=case.name,
        uid=case.entry.uid if case.entry is not None else "",
        service=CONTROLLERS,
        at=case.now,
        what=DECISION_FAILED,
        why=message,
    )
    return Verdict(history=(record,), look_again_at=again_at)


def _named(refused: Refused, intent: Envelope) -> Refused:
    """With the name of what was refused, which an answer may lack."""
    if refused.name or not isinstance(intent, Intent):
        return refused
    return replace(refused, namespace=intent.namespace, name=intent.name)


def _is_old_news(intent: object, memory: _Memory, now: float) -> bool:
    """Whether this is an event that was told already; if not, it is noted as told."""
    if not isinstance(intent, CreateObject) or intent.kind != kinds.EVENT.token:
        return False
    told = memory.told.get(intent.name)
    if told is not None and told + _SAY_AGAIN_S > now:
        return True
    memory.told = {name: at for name, at in memory.told.items() if at + _SAY_AGAIN_S > now}
    memory.told[intent.name] = now
    return False
