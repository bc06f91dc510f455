"""How long an intent may still be tried, and by whom: its own life, and our lease."""

from collections.abc import Callable
from dataclasses import dataclass

from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.clock import Clock


class NoLongerLeading(BusError):
    """The lease is gone: the intent is left to whoever leads now."""

    def __init__(self) -> None:
        super().__init__("no longer leading: left for the next leader")


@dataclass(slots=True, frozen=True)
class Permit:
    """Asked before every effect."""

    clock: Clock
    until: float
    """On this process's monotonic clock: it has nothing to do with anybody else's."""
    is_leading: Callable[[], bool]
    may_have_begun: bool = False
    """Whether a dead gateway may have sent a request for it, whose effect is still to come."""

    @property
    def remaining_s(self) -> float:
        return self.until - self.clock.monotonic()

    @property
    def expired(self) -> bool:
        return self.remaining_s <= 0

    def check_leading(self) -> None:
        if not self.is_leading():
            raise NoLongerLeading
