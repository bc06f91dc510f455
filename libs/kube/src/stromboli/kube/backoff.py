"""How long to wait before trying again: longer each time, never beyond a bound, never in step.

The random source is passed in, so that a test can seed it and so that a thousand clients
which lost the same server do not return to it together.
"""

import random
from dataclasses import dataclass, field

__all__ = ["Backoff"]


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Delays drawn from [ceiling x (1 - jitter), ceiling], the ceiling growing by `factor`."""

    first_s: float = 0.2
    factor: float = 2.0
    max_s: float = 30.0
    jitter: float = 0.5
    rng: random.Random
    failures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.max_s:
            raise ValueError(f"first_s {self.first_s!r} must be above 0 and at most {self.max_s!r}")
        if self.factor < 1:
            raise ValueError(f"factor {self.factor!r} must be at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter {self.jitter!r} must be between 0 and 1")

    def next_delay_s(self, *, at_least_s: float | None = None) -> float:
        """The delay after one more failure; `at_least_s` is what the server asked for.

        A server's wish beyond our own bound is cut to it: an absurd Retry-After must not
        silence us for a day.
        """
        # Beyond 2**64 only max_s matters, and a float power overflows.
        ceiling = min(self.max_s, self.first_s * self.factor ** min(self.failures, 64))
        self.failures += 1
        delay = ceiling * (1 - self.jitter * self.rng.random())
        return max(delay, min(at_least_s or 0.0, self.max_s))

    def reset(self) -> None:
        """It worked: start from the shortest delay next time."""
        self.failures = 0
