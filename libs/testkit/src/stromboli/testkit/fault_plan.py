"""What goes wrong on the way: drawn from one number, so that an example can be run again.

Everything that can be lost, late, doubled or refused asks the plan. When the plan has ended, all
goes well, and what is under test has to come to rest.
"""

import random
from dataclasses import dataclass
from typing import Final

__all__ = ["FaultPlan"]

_QUICK_S: Final = 0.0005
_OFTEN: Final = (0.0, 0.0, 0.01, 0.05, 0.2)
_RARELY: Final = (0.0, 0.0, 0.005, 0.02)
"""A reader that misses a message begins anew at once: more than this and it does nothing else."""
_FREQUENT: Final = (
    "lost_answer",
    "late_answer",
    "doubled_answer",
    "late_delivery",
    "refused_call",
    "unanswered_call",
    "zombie_call",
    "slow_call",
    "late_event",
)
_RARE: Final = ("lost_request", "late_request", "lost_delivery", "cut_watch")


@dataclass(slots=True)
class FaultPlan:
    """How often each thing goes wrong; nothing does before `draw` or by hand."""

    rng: random.Random
    active: bool = True
    lost_request: float = 0.0
    """A message to the server never arrives."""
    late_request: float = 0.0
    """It arrives seconds later, perhaps when its sender has given up."""
    lost_answer: float = 0.0
    """The server has stored or done it, but says so in vain."""
    late_answer: float = 0.0
    doubled_answer: float = 0.0
    lost_delivery: float = 0.0
    """A reader's consumer skips a message."""
    late_delivery: float = 0.0
    refused_call: float = 0.0
    """The API server sheds load, or fails before it begins."""
    unanswered_call: float = 0.0
    """The API server does it, but its answer is lost."""
    zombie_call: float = 0.0
    """It does it long after the client has given up."""
    slow_call: float = 0.0
    cut_watch: float = 0.0
    lost_bind_ack: float = 0.0
    """A bind is stored, and its sender never hears of it."""
    zombie_bind: float = 0.0
    late_event: float = 0.0
    longest_zombie_s: float = 60.0
    longest_delay_s: float = 8.0

    def draw(self) -> "FaultPlan":
        """Choose how bad it is: everything a little, or one thing often."""
        if self.rng.random() < 0.5:
            for name in _FREQUENT:
                setattr(self, name, self.rng.choice(_OFTEN))
            for name in _RARE:
                setattr(self, name, self.rng.choice(_RARELY))
        else:
            setattr(self, self.rng.choice(_FREQUENT), 0.3)
            setattr(self, self.rng.choice(_RARE), 0.02)
        if self.rng.random() < 0.5:
            self.lost_bind_ack = self.rng.choice((0.2, 0.5))
        if self.rng.random() < 0.5:
            self.zombie_bind = self.rng.choice((0.2, 0.5))
        return self

    def happens(self, chance: float) -> bool:
        return self.active and chance > 0 and self.rng.random() < chance

    def delay_s(self, chance: float, longest_s: float | None = None) -> float:
        """How long something takes: usually nothing, sometimes long."""
        if not self.happens(chance):
            return _QUICK_S
        return self.rng.uniform(_QUICK_S, longest_s or self.longest_delay_s)
