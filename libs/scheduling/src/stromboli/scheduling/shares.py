"""How much of the cluster each queue deserves, and how much of it somebody has: whole numbers.

`water_fill` is Volcano's proportion, exact: every round splits what is left by weight among the
queues that can take more, until nothing is left or nobody can. Volcano reckons in floating point
and calls what differs by less than a tenth of a unit equal; here amounts are whole base units
(thousandths of a cpu, bytes), so what is whole stays whole, and what does not divide evenly goes
unit by unit to one queue or the other. Resources do not influence each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stromboli.scheduling.resources import PODS, Amounts

__all__ = [
    "PLENTY",
    "Demand",
    "dominant_share",
    "fill",
    "room_for",
    "share",
    "shortage",
    "water_fill",
]

PLENTY: Final = 1 << 60
"""More than any cluster has."""
_MANY: Final = 32
_NEARLY: Final = 1 - 1e-6


def share(part: int, whole: int) -> float:
    """Something of nothing is all of it; nothing of nothing is nothing."""
    if whole:
        return part / whole
    return 1.0 if part else 0.0


def dominant_share(allocated: Mapping[str, int], whole: Mapping[str, int]) -> float:
    """The largest share of any resource that `whole` names."""
    return max((share(allocated.get(name, 0), units) for name, units in whole.items()), default=0.0)


def shortage(
    request: Amounts, taken: Mapping[str, int], limit: Mapping[str, int], *, otherwise: int
) -> Amounts:
    """By how much `taken` and `request` together exceed the limit, of what the request names.

    Empty if it fits. As in Volcano the number of pods is not looked at. `otherwise` is
    the limit of a resource that `limit` does not name.
    """
    short: list[tuple[str, int]] = []
    for name, units in request:
        if name == PODS or not units:
            continue
        over = taken.get(name, 0) + units - limit.get(name, otherwise)
        if over > 0:
            short.append((name, over))
    return tuple(short)


def room_for(
    request: Amounts,
    want: int,
    taken: Mapping[str, int],
    limit: Mapping[str, int],
    *,
    otherwise: int,
) -> int:
    """How many of `want` such requests still fit, one after the other; pods are not counted."""
    for name, units in request:
        if name == PODS or not units:
            continue
        left = limit.get(name, otherwise) - taken.get(name, 0)
        want = min(want, max(0, left) // units)
    return want


@dataclass(frozen=True, slots=True)
class Demand:
    """What one queue brings to the sharing out."""

    weight: int
    request: Mapping[str, int]
    limit: Mapping[str, int]
    """A resource that is not named has none."""
    guarantee: Mapping[str, int]

    def wanted(self, resource: str) -> int:
        return min(self.request.get(resource, 0), self.limit.get(resource, PLENTY))

    def satisfied(self, resource: str) -> int:
        """What it has if nobody has to do with less."""
        return max(self.wanted(resource), self.guarantee.get(resource, 0))


def water_fill(total: Mapping[str, int], demands: Sequence[Demand]) -> list[dict[str, int]]:
    """What each queue deserves of each resource, in the order of `demands`.

    Never more than it requests or may have, but at least its guarantee. Among equals the last
    unit goes by position, so give the queues in an order of their own, such as by name.
    """
    deserved: list[dict[str, int]] = [{} for _ in demands]
    for name in _names(total, demands):
        parts = fill(name, total.get(name, 0), demands)
        for found, units in zip(deserved, parts, strict=True):
            if units:
                found[name] = units
    return deserved


def _names(total: Mapping[str, int], demands: Sequence[Demand]) -> list[str]:
    """A guarantee of what no node has is kept all the same."""
    names = dict.fromkeys(total)
    for demand in demands:
        names.update(dict.fromkeys(demand.guarantee))
    return list(names)


def fill(resource: str, total: int, demands: Sequence[Demand]) -> list[int]:
    """One resource, in the order of `demands`."""
    weights = [demand.weight for demand in demands]
    wanted = [demand.wanted(resource) for demand in demands]
    guarantee = [demand.guarantee.get(resource, 0) for demand in demands]
    satisfied = list(map(max, wanted, guarantee))
    return satisfied if sum(satisfied) <= total else _fill(total, weights, wanted, guarantee)


def _fill(
    total: int, weights: Sequence[int], wanted: Sequence[int], guarantee: Sequence[int]
) -> list[int]:
    """Somebody has to do with less.

    In Volcano every queue that lacks any resource takes part in every round of every resource
    and hands back what it can't take; rounds go on until what is left is too little to count.
    They converge to a level: who can take more has its weight times that, and who was lifted
    by its guarantee in the first round has so much more. Here the level is found as a fraction
    of whole numbers, in at most as many steps as there are queues.
    """
    whole = sum(weights)
    # The first round: everybody takes part, also those who want nothing of this resource.
    parts = [
        max(min(weight * total // whole, want), least)
        for weight, want, least in zip(weights, wanted, guarantee, strict=True)
    ]
    free = [number for number, part in enumerate(parts) if part < wanted[number]]
    if sum(parts) >= total or not free:
        return parts
    lifted = [
        max(0, least * whole - weight * total)
        for weight, least in zip(weights, guarantee, strict=True)
    ]
    # From here on in wholes of a unit, so that first rounds and guarantees are exact.
    left = (total - sum(parts) + sum(parts[number] for number in free)) * whole
    by, level = whole, 0
    full = _surely_full(left / whole, [(weights[n], wanted[n], lifted[n] / whole) for n in free])
    full = {free[place] for place in full}
    while free:
        for number in full:
            parts[number] = wanted[number]
            left -= wanted[number] * whole
        free = [number for number in free if number not in full]
        by = sum(weights[number] for number in free)
        level = left - sum(lifted[number] for number in free)
        full = {n for n in free if weights[n] * level >= (wanted[n] * whole - lifted[n]) * by}
        if not full:
            break
    rests: list[tuple[int, int]] = []
    for number in free:
        part, rest = divmod(weights[number] * level + lifted[number] * by, by * whole)
        parts[number] = max(part, guarantee[number])
        rests.append((-rest, number))
    # What does not divide goes to those who miss most of a unit.
    for _, number in sorted(rests)[: max(0, total - sum(parts))]:
        parts[number] += 1
    return parts


def _surely_full(left: float, queues: list[tuple[int, int, float]]) -> list[int]:
    """Who gets all it wants, found at once and nearly: whoever is close to the level is left out.

    Only saves steps; what is exact comes after it. `queues` are weight, want and lift of each.
    """
    if len(queues) < _MANY:
        return []
    weight, want, lift = np.array(queues, dtype=np.float64).T
    level_when_full = (want - lift) / weight
    order = np.argsort(level_when_full, kind="stable")
    w, f = weight[order], lift[order]
    # The level if exactly the first k are full, for every k.
    taken = np.concatenate(([0.0], np.cumsum(want[order])[:-1]))
    levels = (left - taken - (f.sum() - np.cumsum(f) + f)) / (w.sum() - np.cumsum(w) + w)
    above = np.flatnonzero(levels < level_when_full[order])
    level = levels[above[0]] if len(above) else level_when_full.max()
    return np.flatnonzero(level_when_full < level * _NEARLY).tolist()
