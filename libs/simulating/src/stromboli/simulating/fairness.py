"""How fairly queues shared the cluster while it was too small for all.

At every moment at which some job waits, what each queue deserves is worked out: what there is of
a resource, divided by weight among those who want it, nobody more than it wants or may have, and
at least what it was promised (`deserved`, `guarantee`). What a queue got is compared with that by
dominant shares: the largest part it has of any resource. Over all such moments together, got
divided by deserved is the queue's ratio, and Jain's index of the ratios says how equal they are:
1 when all are the same, 1/n when one of n had everything.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import PODS
from stromboli.simulating.steps import Floats, Steps, grid
from stromboli.simulating.timeline import Timeline

__all__ = ["Fairness", "Part", "fairness_of", "jain"]

_HALVINGS: Final = 60
"""Enough to find a level to the last bit."""


@dataclass(frozen=True, slots=True)
class Part:
    """One queue, over the time in which it wanted something and somebody had to wait."""

    got: float
    """Its mean dominant share."""
    deserved: float
    """The mean dominant share of what it deserved."""

    @property
    def ratio(self) -> float | None:
        return self.got / self.deserved if self.deserved else None


@dataclass(frozen=True, slots=True)
class Fairness:
    """All queues together."""

    index: float | None
    """None if there were no two queues to compare."""
    contended_s: float
    """For how long somebody had to wait."""
    parts: Mapping[str, Part]


def jain(ratios: Sequence[float]) -> float | None:
    """Jain's index; None of fewer than two."""
    squares = sum(ratio * ratio for ratio in ratios)
    if len(ratios) < 2 or not squares:
        return None
    return sum(ratios) ** 2 / (len(ratios) * squares)


def fairness_of(
    timeline: Timeline, queues: Mapping[str, QueueInfo], begin: float, end: float
) -> Fairness:
    names = sorted(timeline.queues)
    resources = [name for name in timeline.resources if name != PODS]
    moments = _moments(timeline, names, resources, begin, end)
    lasts = np.diff(np.append(moments, max(end, begin)))
    waiting = sum((timeline.queues[name].waiting.at(moments) for name in names), np.zeros(1))
    contended = np.flatnonzero((waiting > 0) & (lasts > 0))
    moments, lasts = moments[contended], lasts[contended]
    capacity = _table([timeline.capacity[name] for name in resources], moments)
    wanted, got = (
        np.array(
            [
                _table([getattr(timeline.queues[name], what).get(r) for r in resources], moments)
                for name in names
            ]
        ).reshape(len(names), len(resources), len(moments))
        for what in ("wanted", "allocated")
    )
    deserved = _deserved(capacity, wanted, _Bounds.of(names, resources, queues))
    parts = _parts(names, _dominant(got, capacity), _dominant(deserved, capacity), wanted, lasts)
    ratios = [part.ratio for part in parts.values() if part.ratio is not None]
    return Fairness(jain(ratios), float(lasts.sum()), parts)


def _moments(
    timeline: Timeline, names: list[str], resources: list[str], begin: float, end: float
) -> Floats:
    lines = [timeline.queues[name] for name in names]
    changing = [line.waiting for line in lines]
    for resource in resources:
        changing.append(timeline.capacity[resource])
        for line in lines:
            changing += [
                steps[resource] for steps in (line.wanted, line.allocated) if resource in steps
            ]
    return grid(changing, begin, end)


def _table(many: list[Steps | None] | list[Steps], moments: Floats) -> Floats:
    """A row for each."""
    rows = [one.at(moments) if one is not None else np.zeros(len(moments)) for one in many]
    return np.array(rows).reshape(len(rows), len(moments))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What queues bring to the sharing out, whatever they want: by queue and resource."""

    weight: Floats
    limit: Floats
    promised: Floats

    @classmethod
    def of(
        cls, names: list[str], resources: list[str], queues: Mapping[str, QueueInfo]
    ) -> "_Bounds":
        infos = [queues.get(name) or QueueInfo(name) for name in names]
        weights = np.array([_part_of_all(info, queues) for info in infos])
        limit = [[dict(i.capability).get(name, math.inf) for name in resources] for i in infos]
        promised = [
            [
                max(dict(i.deserved).get(name, 0), dict(i.guarantee).get(name, 0))
                for name in resources
            ]
            for i in infos
        ]
        shape = (len(names), len(resources), 1)
        return cls(
            weights.reshape(-1, 1, 1),
            np.array(limit).reshape(shape),
            np.array(promised, dtype=np.float64).reshape(shape),
        )


def _part_of_all(info: QueueInfo, queues: Mapping[str, QueueInfo]) -> float:
    """Its weight among its siblings, its parent's among theirs, and so on."""
    part, seen = 1.0, set[str]()
    while info.name not in seen:
        seen.add(info.name)
        siblings = [one for one in queues.values() if one.parent == info.parent]
        part *= info.weight / max(info.weight, sum(one.weight for one in siblings))
        above = queues.get(info.parent)
        if above is None:
            break
        info = above
    return part


def _deserved(capacity: Floats, wanted: Floats, bounds: "_Bounds") -> Floats:
    """By queue, resource and moment.

    Everybody gets its weight times a level, the same for all, but no more than it wants or may
    have and no less than it was promised; the level is the highest that there is enough for.
    """
    most = np.minimum(wanted, bounds.limit)
    least = np.minimum(bounds.promised, most)
    weight = bounds.weight
    low = np.zeros(capacity.shape)
    high = np.max(most / weight, axis=0, initial=0.0)
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        fits = np.clip(weight * level, least, most).sum(axis=0) <= capacity
        low, high = np.where(fits, level, low), np.where(fits, high, level)
    enough = most.sum(axis=0) <= capacity
    return np.where(enough, most, np.clip(weight * low, least, most))


def _dominant(amounts: Floats, capacity: Floats) -> Floats:
    """The largest part of any resource, by queue and moment."""
    if not amounts.size:
        return np.zeros((amounts.shape[0], amounts.shape[2]))
    whole = np.maximum(capacity, 1.0)
    return np.max(amounts / whole[np.newaxis], axis=1)


def _parts(
    names: list[str], got: Floats, deserved: Floats, wanted: Floats, lasts: Floats
) -> dict[str, Part]:
    found: dict[str, Part] = {}
    for number, name in enumerate(names):
        when = wanted[number].any(axis=0)
        total = float(lasts[when].sum())
        if total:
            found[name] = Part(
                float((got[number] * lasts)[when].sum()) / total,
                float((deserved[number] * lasts)[when].sum()) / total,
            )
    return found
