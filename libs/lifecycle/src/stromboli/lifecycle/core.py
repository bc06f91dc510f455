"""The controllers' core: facts, answers and time in; intents and history out.

Each controller that was chosen runs in an engine of its own; they share what is known of the
world and nothing else, so any of them may as well run in another process. At a safety pass,
a few at a time, every key is decided again even when nothing happened to it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from stromboli.contracts.intents import Envelope
from stromboli.contracts.permissions import CONTROLLERS
from stromboli.contracts.records import REPAIRED, HistoryRecorded
from stromboli.contracts.safety_walk import SafetyWalk
from stromboli.contracts.stimuli import (
    FactChanged,
    Instruction,
    OutcomeHeard,
    ProbeAnswered,
    Ready,
    SafetyPass,
    Stimulus,
    WakeAt,
    WokeUp,
)
from stromboli.lifecycle.controllers.protocol import Controller
from stromboli.lifecycle.controllers.registry import all_controllers
from stromboli.lifecycle.engine import Engine
from stromboli.lifecycle.filing import parts_of
from stromboli.lifecycle.world import World

__all__ = ["LifecycleCore"]

_AT_FIRST: Final = 50
"""So many keys at once when a turn begins: nothing, not even the lease, waits for all of them."""

_Touch: TypeAlias = tuple[Engine, str]


@dataclass(slots=True)
class LifecycleCore:
    """`turn` is any text that no earlier core of this service had."""

    turn: str = ""
    controllers: Sequence[Controller] = field(default_factory=all_controllers)
    _world: World = field(default_factory=World)
    _engines: tuple[Engine, ...] = ()
    _readers: dict[str, list[Engine]] = field(default_factory=dict[str, list[Engine]])
    """Kind → the engines whose controllers read it."""
    _first: deque[_Touch] = field(default_factory=deque[_Touch])
    """What was there when we began and has not been looked at yet."""
    _walk: SafetyWalk[_Touch] = field(default_factory=SafetyWalk[_Touch])
    _wakes_at: float = float("inf")
    _ready: bool = False

    def __post_init__(self) -> None:
        self._engines = tuple(
            Engine(controller, self._world, self.turn) for controller in self.controllers
        )
        for engine in self._engines:
            for kind in engine.controller.reads:
                self._readers.setdefault(kind, []).append(engine)

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        return self.handle_all((stimulus,), now=now)

    def handle_all(self, stimuli: Sequence[Stimulus], *, now: float) -> list[Instruction]:
        """All are taken in, then each key that any of them touched is decided once."""
        touched = dict.fromkeys(
            touch for stimulus in stimuli for touch in self._touched(stimulus, now)
        )
        if not self._ready:
            return []
        woken = any(isinstance(stimulus, WokeUp) for stimulus in stimuli)
        checked = [touch for touch in self._walk.step(now) if touch not in touched] if woken else []
        instructions: list[Instruction] = []
        for engine, key in touched:
            instructions += engine.decide(key, now)
        for engine, key in checked:
            instructions += self._check(engine, key, now)
        return [*instructions, *self._wake(now)]

    def _touched(self, stimulus: Stimulus, now: float) -> list[_Touch]:
        match stimulus:
            case FactChanged():
                change = self._world.take(stimulus)
                if change is None:
                    return []
                readers = self._readers.get(change.kind, ())
                return [(engine, key) for engine in readers for key in engine.take(change)]
            case Ready():
                self._ready = True
                self._first.extend(self._everything())
                return list(self._first_step())
            case OutcomeHeard(outcome):
                heard = ((engine, engine.hear(outcome, now)) for engine in self._engines)
                return [(engine, key) for engine, key in heard if key is not None]
            case ProbeAnswered():
                return [(engine, stimulus.key) for engine in self._probed(stimulus, now)]
            case WokeUp():
                self._wakes_at = float("inf")
                due = [(engine, key) for engine in self._engines for key in engine.due(now)]
                return [*due, *self._first_step()]
            case SafetyPass(within_s):
                if self._ready and not self._first:
                    self._walk.begin(self._everything(), now=now, within_s=within_s)
                return []

    def _check(self, engine: Engine, key: str, now: float) -> list[Instruction]:
        """Decide about a key that only the safety pass has come to, and tell if that was needed."""
        found = engine.decide(key, now)
        if any(isinstance(one, Envelope) for one in found):
            found.append(self._repaired(engine, key, now))
        return found

    def _repaired(self, engine: Engine, key: str, now: float) -> HistoryRecorded:
        kind, namespace, name = parts_of(key)
        entry = self._world.find(kind, namespace, name)
        return HistoryRecorded(
            namespace=namespace,
            job=name,
            uid=entry.uid if entry is not None else "",
            service=CONTROLLERS,
            at=now,
            what=REPAIRED,
            why=f"only the safety pass found that the {engine.controller.name} had something to do",
        )

    def _everything(self) -> list[_Touch]:
        return [(engine, key) for engine in self._engines for key in engine.every_key()]

    def _probed(self, answer: ProbeAnswered, now: float) -> list[Engine]:
        kind = parts_of(answer.key)[0]
        asked = [engine for engine in self._engines if engine.controller.decides == kind]
        for engine in asked:
            engine.controller.was_probed(answer, now=now)
        return asked

    def _first_step(self) -> Iterator[_Touch]:
        for _ in range(min(_AT_FIRST, len(self._first))):
            yield self._first.popleft()

    def _wake(self, now: float) -> list[WakeAt]:
        alarms = [alarm for e in self._engines if (alarm := e.next_alarm()) is not None]
        at = now if self._first else min([self._walk.next_step, *alarms])
        if at >= self._wakes_at:
            return []
        self._wakes_at = at
        return [WakeAt(at)]
