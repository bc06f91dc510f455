"""Run a trace on virtual time: jobs arrive, the real cores decide, pods do their work and end.

Time jumps from one moment at which something is due to the next: an arrival, the end of a pod's
work, or a core that wants to be woken. The run ends when every job is over, or when for a day
nothing has happened but that time passed: then nothing ever will.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec.structs import replace

from stromboli.api.core import Pod
from stromboli.simulating.bookkeeping import Bookkeeper
from stromboli.simulating.clocks import seconds
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.errors import RefusedObject
from stromboli.simulating.trace import BadTrace, Problem, Trace

__all__ = ["Progress", "Run", "run_trace"]

Progress: TypeAlias = Callable[[float, int, int], None]
"""Told at every step: virtual seconds, jobs that are over, jobs in all."""

_PATIENCE_S: Final = 86_400.0
"""Time windows and waiting limits of plugins come round within a day."""


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen."""

    trace: Trace
    cluster: Cluster
    """As it is at the end."""
    books: Bookkeeper
    end_s: float
    """When the last thing happened, in virtual seconds since the beginning."""
    is_cut: bool
    """Whether it ended only because it was told to."""


def run_trace(
    trace: Trace,
    cluster: Cluster,
    *,
    until_s: float = math.inf,
    progress: Progress = lambda _now, _over, _all: None,
) -> Run:
    """The cluster's own kubelets must end no pods: `runs_for` says None.

    Raises BadTrace for what admission refuses, and what the cluster raises.
    """
    _put_standing(trace, cluster)
    driver = _Driver(trace, cluster)
    while not driver.is_over(until_s):
        driver.step()
        progress(driver.now_s, driver.books.finished, driver.expected)
    is_cut = driver.due_s > until_s and driver.is_any_left
    end_s = until_s if is_cut else driver.changed_s
    return Run(trace, driver.cluster, driver.books, end_s, is_cut)


def _put_standing(trace: Trace, cluster: Cluster) -> None:
    """What is there from the beginning; then all jobs are tried, so that all faults are told."""
    problems: list[Problem] = []
    for one in trace.objects:
        try:
            cluster.put(one.item)
        except RefusedObject as no:
            problems.append(Problem(one.file, one.line, "", str(no)))
    tried: set[tuple[str, int]] = set()
    for one in trace.arrivals:
        if (one.file, one.line) in tried and one.line:
            continue
        tried.add((one.file, one.line))
        try:
            cluster.admitted(one.job)
        except RefusedObject as no:
            problems.append(Problem(one.file, one.line, "", str(no)))
    if problems:
        raise BadTrace(problems)


class _Driver:
    """A cluster, and what comes to it from outside."""

    def __init__(self, trace: Trace, cluster: Cluster) -> None:
        self.cluster = cluster
        self._begin = cluster.now
        self.books = Bookkeeper(self._begin)
        for (kind, _, _), item in cluster.objects.items():
            self.books.saw(self._begin, kind, None, item)
        cluster.watchers.append(self.books.saw)
        self._coming = list(reversed(trace.arrivals))
        self.expected = len(self._coming) + len(self.books.jobs)
        self.now_s = 0.0
        self.changed_s = 0.0
        """When something happened last, besides that time passed."""
        self._changes = 0
        self._happen()

    @property
    def is_any_left(self) -> bool:
        """Whether some job has still to come, or is not over."""
        return bool(self._coming) or self.books.is_any_open

    @property
    def due_s(self) -> float:
        """When the next thing is due."""
        return seconds(self._due(), self._begin)

    def _due(self) -> float:
        return min(
            self._begin + self._coming[-1].at_s if self._coming else math.inf,
            self._begin + self.books.clocks.next_end,
            self.cluster.next_moment(),
        )

    def is_over(self, until_s: float) -> bool:
        due_s = self.due_s
        if not self.is_any_left or due_s > until_s or due_s == math.inf:
            return True
        goes_on = bool(self._coming) or self.books.clocks.next_end < math.inf
        return not goes_on and due_s > self.changed_s + _PATIENCE_S

    def step(self) -> None:
        """On to the next moment at which something is due."""
        due = self._due()
        self.cluster.advance_to(due)
        self.now_s = seconds(due, self._begin)
        self._happen()

    def _happen(self) -> None:
        """What is due now comes to pass."""
        for namespace, name, uid in self.books.clocks.due(self.now_s):
            pod = self.cluster.objects.get(("pod", namespace, name))
            if isinstance(pod, Pod) and pod.metadata.uid == uid:
                self.cluster.put(replace(pod, status=replace(pod.status, phase="Succeeded")))
        while self._coming and self._coming[-1].at_s <= self.now_s:
            self.cluster.put(self._coming.pop().job)
        self.cluster.settle()
        self.cluster.forget_what_was_said()
        if self.books.changes != self._changes:
            self._changes, self.changed_s = self.books.changes, self.now_s
