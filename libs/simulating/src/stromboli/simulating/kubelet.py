"""The kubelets of a simulated cluster: bound pods start, run for as long as they say, and end.

Nothing takes time here but running: a pod starts where it is bound, at once, and one that is
told to stop is gone when its turn comes.
"""

import heapq
import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from stromboli.api.core import Pod
from stromboli.api.durations import parse_duration
from stromboli.api.errors import DurationError, TimestampError
from stromboli.api.meta import Condition, KubeObject
from stromboli.api.timestamps import parse_time
from stromboli.api.wellknown import RUN_SECONDS
from stromboli.simulating.store import Place, Store, place_of

__all__ = ["Kubelets", "RunsFor", "run_seconds", "running_status"]

_SANDBOX_RUN: Final = "sandbox.stromboli.sh/run"
"""The same for the kubelets of the sandbox, as a duration."""

_NANOSECONDS: Final = 1_000_000_000
_RUNNING: Final = "Running"
_WAITING: Final = frozenset({"", "Pending"})

RunsFor: TypeAlias = Callable[[Pod], float | None]
"""How many seconds a pod runs; None is until it is stopped."""


def run_seconds(pod: Pod) -> float | None:
    """What the pod's own annotations say; anything that is no time is passed over."""
    annotations: Mapping[str, str] = pod.metadata.annotations
    try:
        if RUN_SECONDS in annotations:
            seconds = float(annotations[RUN_SECONDS])
            return seconds if 0 <= seconds < math.inf else None
        if _SANDBOX_RUN in annotations:
            return parse_duration(annotations[_SANDBOX_RUN]) / _NANOSECONDS
    except (ValueError, DurationError):
        pass
    return None


class Kubelets:
    """All of them together: they see every change of a pod."""

    def __init__(self, store: Store, runs_for: RunsFor = run_seconds) -> None:
        self._store = store
        self._runs_for = runs_for
        self._bound: dict[Place, None] = {}
        self._leaving: dict[Place, None] = {}
        self._ends: list[tuple[float, Place, str]] = []
        """When which pod has done its work: a heap."""
        store.watchers.append(self._saw)

    @property
    def next_moment(self) -> float:
        """When the next pod ends."""
        return self._ends[0][0] if self._ends else math.inf

    def start_bound(self) -> bool:
        """Pods that have a node run."""
        bound, self._bound = self._bound, {}
        for place in bound:
            pod: Pod | None = self._store.objects.get(place)
            if pod is not None and _is_to_start(pod):
                self._store.put(replace(pod, status=running_status(pod, self._store.moment)))
        return bool(bound)

    def finish_due(self) -> bool:
        """Pods that have run long enough succeed."""
        finished = False
        while self._ends and self._ends[0][0] <= self._store.now:
            _, place, uid = heapq.heappop(self._ends)
            pod: Pod | None = self._store.objects.get(place)
            if pod is None or pod.metadata.uid != uid or pod.status.phase != _RUNNING:
                continue
            self._store.put(replace(pod, status=replace(pod.status, phase="Succeeded")))
            finished = True
        return finished

    def end_leaving(self) -> bool:
        """Pods that were told to stop are gone."""
        leaving, self._leaving = self._leaving, {}
        for place in leaving:
            if place in self._store.objects:
                self._store.delete(place)
        return bool(leaving)

    def _saw(
        self, now: float, kind: str, before: KubeObject | None, after: KubeObject | None
    ) -> None:
        if kind != "pod" or not isinstance(after, Pod):
            return
        if after.metadata.deletion_timestamp:
            self._leaving[place_of(after)] = None
        elif _is_to_start(after):
            self._bound[place_of(after)] = None
        elif after.status.phase == _RUNNING and not _ran_already(before, after):
            self._runs(after, now)

    def _runs(self, pod: Pod, now: float) -> None:
        seconds = self._runs_for(pod)
        if seconds is not None:
            end = _unix(pod.status.start_time, now) + seconds
            heapq.heappush(self._ends, (max(now, end), place_of(pod), pod.metadata.uid))


def running_status(pod: Pod, moment: str) -> object:
    """The status of a pod that has just started."""
    holds = {one.type: one for one in pod.status.conditions if one.status == "True"}
    for name in ("PodScheduled", "Ready"):
        holds.setdefault(name, Condition(type=name, status="True", last_transition_time=moment))
    return replace(
        pod.status,
        phase=_RUNNING,
        start_time=pod.status.start_time or moment,
        conditions=tuple(holds.values()),
        nominated_node_name="",
    )


def _is_to_start(pod: Pod) -> bool:
    return (
        bool(pod.spec.node_name)
        and pod.status.phase in _WAITING
        and not pod.metadata.deletion_timestamp
    )


def _ran_already(before: KubeObject | None, after: Pod) -> bool:
    return (
        isinstance(before, Pod)
        and before.status.phase == _RUNNING
        and before.metadata.uid == after.metadata.uid
    )


def _unix(timestamp: str | None, otherwise: float) -> float:
    try:
        return parse_time(timestamp).timestamp() if timestamp else otherwise
    except TimestampError:
        return otherwise
