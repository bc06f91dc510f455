"""What was there, taken, wanted and waited for, at every moment of a run, by queue."""

from dataclasses import dataclass, field
from typing import TypeAlias

from stromboli.scheduling.resources import Amounts
from stromboli.simulating.steps import Steps

__all__ = ["QueueLine", "Timeline"]

ByResource: TypeAlias = dict[str, Steps]


@dataclass(slots=True)
class QueueLine:
    """One queue's part. Amounts are in base units (`stromboli.api.resources`)."""

    allocated: ByResource = field(default_factory=dict[str, Steps])
    """What its pods on nodes ask for."""
    wanted: ByResource = field(default_factory=dict[str, Steps])
    """What all its jobs that are not over ask for, allocated or not."""
    waiting: Steps = field(default_factory=Steps)
    """Jobs that are there and do not work: fewer pods run than their minimum."""
    working: Steps = field(default_factory=Steps)
    """Jobs of which at least the minimum runs."""


@dataclass(slots=True)
class Timeline:
    """A whole run; moments are virtual seconds since its beginning."""

    capacity: ByResource = field(default_factory=dict[str, Steps])
    queues: dict[str, QueueLine] = field(default_factory=dict[str, QueueLine])
    held: Steps = field(default_factory=Steps)
    """Pods on nodes whose job is below its minimum and has never worked."""
    crippled: Steps = field(default_factory=Steps)
    """Pods on nodes whose job has worked and is below its minimum again."""

    def queue(self, name: str) -> QueueLine:
        return self.queues.setdefault(name, QueueLine())

    @property
    def resources(self) -> list[str]:
        """Those that nodes have, by name."""
        return sorted(name for name, steps in self.capacity.items() if steps.peak())


def add_amounts(steps: ByResource, now: float, amounts: Amounts, times: int = 1) -> None:
    """So many times more of each; less, if `times` is negative."""
    for name, units in amounts:
        steps.setdefault(name, Steps()).add(now, units * times)
