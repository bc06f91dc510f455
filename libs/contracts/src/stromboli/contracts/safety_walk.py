"""The walk of a safety pass: a core looks at every key once, at some of them in each step.

A core with 10,000 waiting jobs must not stop for all of them at once. So it takes the keys when
the pass begins, and asks to be woken for each step.
"""

import math
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Final, Generic, TypeVar

__all__ = ["STEP_S", "SafetyWalk"]

K = TypeVar("K", bound=Hashable)

STEP_S: Final = 0.25
"""Between two steps."""


@dataclass(slots=True)
class SafetyWalk(Generic[K]):
    """The keys that the pass has still to look at."""

    next_step: float = math.inf
    """Infinite when there is none."""
    _left: deque[K] = field(default_factory=deque[K])
    _at_once: int = 1

    def begin(self, keys: Iterable[K], *, now: float, within_s: float) -> None:
        """A pass that is still under way only goes on: it must end before another begins."""
        if not self._left:
            self._left.extend(keys)
            steps = max(1, int(within_s / STEP_S))
            self._at_once = max(1, ceil(len(self._left) / steps))
        if self._left:
            # Also where the date went back: a step at the old date would not come for long.
            self.next_step = now

    def step(self, now: float) -> list[K]:
        """The next keys, if their time has come."""
        if now < self.next_step:
            return []
        keys = [self._left.popleft() for _ in range(min(self._at_once, len(self._left)))]
        self.next_step = now + STEP_S if self._left else math.inf
        return keys
