"""Runs one controller: one decision at a time per key, on a view that shows all done before.

A touched key is decided at once if nothing of an earlier decision about it is open, and
otherwise as soon as that ends; any number of keys side by side. An answer comes after the facts
that it speaks of, so what was done is known by then. What is refused, or may not have been done,
is asked again later, and ever later. A timer brings a key back at a time that its
decision named. All of this may be lost: a new engine finds everything in the facts.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.contracts.intents import (
    AnyIntent,
    CreateObject,
    DeleteObject,
    GenerateSecret,
    Intent,
)
from stromboli.contracts.outcomes import AnyOutcome, Applied, Reason, Refused, Uncertain
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
_SAY_AGAIN_S: Final = 3600.0
"""An event that the API server has forgotten by now may be told again."""

_NO_FAULT_OF_THE_WISH: Final = frozenset({Reason.EXPIRED, Reason.FENCED})


@dataclass(slots=True)
class _Memory:
    """What the engine knows about a key beyond the facts."""

    open: dict[str, AnyIntent] = field(default_factory=dict[str, AnyIntent])
    """What was asked for and is not answered, by id."""
    attempt: int = 1
    """Goes into the ids of the next intents; grows when something was not done."""
    refusals: int = 0
    failed: bool = False
    """Something of the last decision was refused, or may not have been done."""
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
    _prefix: str = field(init=False)
    """What the keys of this controller begin with."""
    _memory: dict[str, _Memory] = field(default_factory=dict[str, _Memory])
    _timers: dict[str, float] = field(default_factory=dict[str, float])
    _alarms: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """The timers as a heap; one that is not in `_timers` any more is void."""
    _decisions: int = 0

    def __post_init__(self) -> None:
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
                self._end(key, change)
        yield from self.controller.touched_by(change, self.world)
        if mine and self.controller.heeds(change):
            yield from mine

    def _end(self, key: str, change: Change) -> None:
        is_itself = parts_of(key) == (change.kind, *change.place)
        if is_itself and self.controller.ends_with_object:
            self._forget(key)
            self.controller.forget(key)

    def _forget(self, key: str) -> None:
        self._memory.pop(key, None)
        self._timers.pop(key, None)

    def hear(self, outcome: AnyOutcome, now: float) -> str | None:
        """The key that an answer is about, if it is an answer to this engine."""
        memory = self._memory.get(outcome.key)
        intent = None if memory is None else memory.open.pop(outcome.intent_id, None)
        if memory is None or intent is None:
            return None
        match outcome:
            case Applied():
                self._remember_made(memory, intent, outcome)
            case Refused() | Uncertain():
                memory.attempt += 1
                if outcome.kind != kinds.EVENT.token:
                    self._not_done(memory, intent, outcome, now)
            case _:
                pass
        return outcome.key

    def _not_done(
        self, memory: _Memory, intent: AnyIntent, outcome: Refused | Uncertain, now: float
    ) -> None:
        if isinstance(outcome, Refused) and outcome.reason not in _NO_FAULT_OF_THE_WISH:
            memory.refusal = _named(outcome, intent)
        self._pause(memory, now)

    def _pause(self, memory: _Memory, now: float) -> None:
        """Ask again later, and ever later: what is refused now will be so for a while."""
        memory.failed = True
        pause_s = _FIRST_PAUSE_S * 2 ** min(memory.refusals, 20)
        memory.not_before = now + min(_LONGEST_PAUSE_S, pause_s)

    def _remember_made(self, memory: _Memory, intent: AnyIntent, applied: Applied) -> None:
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
        memory = self._memory.setdefault(key, _Memory())
        if memory.open:
            return []
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
        asker = self._asker(key, entry, memory.attempt)
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
        memory.open |= {intent.id: intent for intent in asker.intents}
        self._set_timer(key, verdict.look_again_at)
        if entry is None and not asker.intents and verdict.look_again_at is None:
            self._memory.pop(key, None)
        return [*asker.intents, *verdict.history, *verdict.probes]

    def _asker(self, key: str, entry: Entry | None, attempt: int) -> Asker:
        self._decisions += 1
        basis = Basis(
            uid=entry.uid if entry else "",
            resource_version=entry.resource_version if entry else "",
            turn=f"{self.turn}/{self.controller.name}",
            decision=self._decisions,
            attempt=attempt,
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


def _named(refused: Refused, intent: AnyIntent) -> Refused:
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
