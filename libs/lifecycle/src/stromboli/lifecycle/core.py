"""The controllers' core: facts, answers and time in; intents and history out.

Each controller that was chosen runs in an engine of its own; they share what is known of the
world and nothing else, so any of them may as well run in another process. Slowly, and a few
at a time, every key is decided again even when nothing happened: a safety net.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final, TypeAlias

from stromboli.contracts.stimuli import (
    FactChanged,
    Instruction,
    OutcomeHeard,
    ProbeAnswered,
    Ready,
    Stimulus,
    Unanswered,
    WakeAt,
    WokeUp,
)
from stromboli.lifecycle.controllers.protocol import Controller
from stromboli.lifecycle.controllers.registry import all_controllers
from stromboli.lifecycle.engine import Engine
from stromboli.lifecycle.filing import parts_of
from stromboli.lifecycle.world import World

__all__ = ["LifecycleCore"]

_STEP_S: Final = 0.25
"""The safety pass looks at some keys, and rests this long."""

_AT_FIRST: Final = 50
"""So many keys at once when a turn begins: nothing, not even the lease, waits for all of them."""

_Touch: TypeAlias = tuple[Engine, str]


@dataclass(slots=True)
class LifecycleCore:
    """`turn` is any text that no earlier core of this service had."""

    turn: str = ""
    controllers: Sequence[Controller] = field(default_factory=all_controllers)
    safety_every_s: float = 120.0
    _world: World = field(default_factory=World)
    _engines: tuple[Engine, ...] = ()
    _readers: dict[str, list[Engine]] = field(default_factory=dict[str, list[Engine]])
    """Kind → the engines whose controllers read it."""
    _first: deque[_Touch] = field(default_factory=deque[_Touch])
    """What was there when we began and has not been looked at yet."""
    _round: deque[_Touch] = field(default_factory=deque[_Touch])
    """What the safety pass has still to look at."""
    _at_once: int = 1
    _next_step: float = float("inf")
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
        instructions: list[Instruction] = []
        for engine, key in touched:
            instructions += engine.decide(key, now)
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
                self._next_step = now + self.safety_every_s
                self._first.extend(self._everything())
                return list(self._first_step())
            case OutcomeHeard(outcome):
                heard = ((engine, engine.hear(outcome, now)) for engine in self._engines)
                return [(engine, key) for engine, key in heard if key is not None]
            case Unanswered(intent):
                missed = ((engine, engine.miss(intent, now)) for engine in self._engines)
                return [(engine, key) for engine, key in missed if key is not None]
            case ProbeAnswered():
                return [(engine, stimulus.key) for engine in self._probed(stimulus, now)]
            case WokeUp():
                self._wakes_at = float("inf")
                due = [(engine, key) for engine in self._engines for key in engine.due(now)]
                return [*due, *self._first_step(), *self._safety_step(now)]

    def _everything(self) -> list[_Touch]:
        return [(engine, key) for engine in self._engines for key in engine.every_key()]

    def _probed(self, answer: ProbeAnswered, now: float) -> list[Engine]:
        kind = parts_of(answer.key)[0]
        asked = [engine for engine in self._engines if engine.controller.decides == kind]
        for engine in asked:
            engine.controller.was_probed(answer, now=now)
        return asked

    def _safety_step(self, now: float) -> Iterator[_Touch]:
        """The next few keys of the pass, which is spread over as long as it waits for the next."""
        if now < self._next_step:
            return
        if not self._round:
            self._round.extend(self._everything())
            steps = max(1, int(self.safety_every_s / _STEP_S))
            self._at_once = max(1, ceil(len(self._round) / steps))
        for _ in range(min(self._at_once, len(self._round))):
            yield self._round.popleft()
        self._next_step = now + (_STEP_S if self._round else self.safety_every_s)

    def _first_step(self) -> Iterator[_Touch]:
        for _ in range(min(_AT_FIRST, len(self._first))):
            yield self._first.popleft()

    def _wake(self, now: float) -> list[WakeAt]:
        alarms = [alarm for e in self._engines if (alarm := e.next_alarm()) is not None]
        at = now if self._first else min([self._next_step, *alarms])
        if at >= self._wakes_at:
            return []
        self._wakes_at = at
        return [WakeAt(at)]
