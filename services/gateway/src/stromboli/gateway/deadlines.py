"""How long an intent may still be tried, and by whom: its own deadline, and our lease."""

from collections.abc import Callable
from dataclasses import dataclass

from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.clock import Clock


class NoLongerLeading(BusError):
    """The lease is gone: the intent is left to whoever leads now."""

    def __init__(self) -> None:
        super().__init__("no longer leading: left for the next leader")


class PartitionLost(BusError):
    """The partition is taken over anew: what was only waiting comes again, in its place."""

    def __init__(self) -> None:
        super().__init__("the partition is taken over anew: the intent comes again")


@dataclass(slots=True, frozen=True)
class Permit:
    """Asked before every effect."""

    clock: Clock
    not_after: float
    is_leading: Callable[[], bool]

    @property
    def remaining_s(self) -> float:
        return self.not_after - self.clock.now().timestamp()

    @property
    def expired(self) -> bool:
        return self.remaining_s <= 0

    def check_leading(self) -> None:
        if not self.is_leading():
            raise NoLongerLeading
