"""What is told of a run: figures, with keys in the spelling of Kubernetes."""

from typing import Final

import msgspec

__all__ = [
    "DEADLOCK",
    "Evictions",
    "FairnessFigures",
    "Figures",
    "InVain",
    "Interval",
    "JobFigures",
    "QueueFigures",
    "Unfinished",
    "Use",
    "Waits",
]

DEADLOCK: Final = "deadlock"
"""The first word of the remark about one."""


class Waits(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """From submission to the first moment at which the minimum runs; seconds."""

    jobs: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


class Use(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Parts of what there is: 1 is all of it."""

    mean: float
    peak: float


class Interval(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Means over a part of the time."""

    from_seconds: float
    to_seconds: float
    utilisation: dict[str, float]
    by_queue: dict[str, dict[str, float]]
    """What part of all of it each queue had."""
    working: float
    waiting: float


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    weight: int
    jobs: int
    finished: int
    waits: Waits | None
    """None if none of its jobs has started."""
    share: float | None
    """While somebody waited: the mean dominant share it had."""
    deserved: float | None
    ratio: float | None


class Unfinished(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str
    name: str
    queue: str
    phase: str
    waited_seconds: float
    pods_on_nodes: int
    minimum: int
    why: str


class JobFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    submitted: int
    completed: int
    ended_otherwise: int
    """Failed, terminated or aborted."""
    unfinished: int
    not_yet_submitted: int


class InVain(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Pods on nodes whose job had fewer than its minimum, times seconds."""

    before_start: float
    """Of jobs that never worked before: zero if gangs are placed whole."""
    after_eviction: float
    """Of jobs that lost pods while they worked."""
    pods_at_end: int


class Evictions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pods: int
    jobs: int
    wasted_pod_seconds: float
    """Work that was done and has to be done again."""


class FairnessFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    index: float | None
    contended_seconds: float


class Figures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All of it."""

    nodes: int
    jobs: JobFigures
    makespan_seconds: float
    """From the first submission to the end of the last job, or of the run."""
    simulated_seconds: float
    is_cut: bool
    utilisation: dict[str, Use]
    waits: Waits | None
    fairness: FairnessFigures
    queues: dict[str, QueueFigures]
    evictions: Evictions
    in_vain: InVain
    over_time: tuple[Interval, ...]
    unfinished: tuple[Unfinished, ...]
    remarks: tuple[str, ...]

    @property
    def deadlock(self) -> str:
        """That there is one and how large, in a few words; empty if there is none."""
        found = (one for one in self.remarks if one.startswith(DEADLOCK))
        return next(found, "").partition(",")[0]
