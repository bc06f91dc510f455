"""A core, and whether it has nothing more to say: for tests that look at what came of it.

What does not happen can't be waited for. But once everything that a core was told is handled,
everything that it asked for is answered, and it does not want to be woken now, nothing will.
"""

import math

from stromboli.contracts.records import HistoryRecorded
from stromboli.contracts.stimuli import (
    Core,
    Instruction,
    OutcomeHeard,
    Probe,
    Ready,
    Stimulus,
    WakeAt,
    WokeUp,
)

__all__ = ["ObservedCore"]


class ObservedCore:
    """Hands on what it is told, and keeps account."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._unanswered: set[str] = set()
        self.is_ready = False
        self.wake_at = math.inf

    def is_at_rest(self, now: float) -> bool:
        """Of what it was told; what is on its way to it is not known here."""
        return self.is_ready and not self._unanswered and self.wake_at > now

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        match stimulus:
            case Ready():
                self.is_ready = True
            case WokeUp():
                self.wake_at = math.inf
            case OutcomeHeard(outcome):
                self._unanswered.discard(outcome.intent_id)
            case _:
                pass
        said = self._core.handle(stimulus, now=now)
        for instruction in said:
            match instruction:
                case WakeAt(at):
                    self.wake_at = min(self.wake_at, at)
                case HistoryRecorded() | Probe():
                    pass
                case _:
                    self._unanswered.add(instruction.id)
        return said
