"""Amounts of resources: as sorted pairs in objects, as rows in arrays.

An amount is a whole number of base units (`stromboli.api.resources`). Pairs are immutable and
ordered by name, so that equal requests are equal keys; rows are numbered in the order in which
names were first met, so nothing may depend on a row's number but what looks it up here.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stromboli.api.errors import QuantityError
from stromboli.api.fieldtypes import QuantityText
from stromboli.api.resources import counts_in_thousandths, from_base_units, to_base_units
from stromboli.scheduling.errors import BadFact

__all__ = [
    "CPU",
    "MEMORY",
    "NOTHING",
    "PODS",
    "Amounts",
    "BoolPerNode",
    "FloatPerNode",
    "IntMatrix",
    "IntVector",
    "ResourceIndex",
    "added",
    "amount_text",
    "amounts_of",
    "counts_bytes",
    "is_on_nodes",
    "larger",
    "limits_of",
    "readable",
    "tallied",
    "times",
]

Amounts: TypeAlias = tuple[tuple[str, int], ...]
IntVector: TypeAlias = NDArray[np.int64]
IntMatrix: TypeAlias = NDArray[np.int64]
FloatPerNode: TypeAlias = NDArray[np.float64]
BoolPerNode: TypeAlias = NDArray[np.bool_]

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
NOTHING: Final[Amounts] = ()
_ONE_POD: Final = (PODS, 1)

_MOST_UNITS: Final = 2**53
"""8 PiB in one object: more is a slip of the pen, and sums of it would not fit in int64."""
_BYTES: Final = frozenset({MEMORY, "ephemeral-storage"})
_PLAIN_NAMES: Final = frozenset({CPU, PODS, *_BYTES})
_NODE_PREFIXES: Final = ("hugepages-", "attachable-volumes-")


def is_on_nodes(resource: str) -> bool:
    """Whether nodes have it: a quota name such as `requests.cpu` or `count/pods` is not there."""
    if resource in _PLAIN_NAMES or resource.startswith(_NODE_PREFIXES):
        return True
    return "/" in resource and not resource.startswith(("count/", "requests.", "limits."))


def counts_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")


def amounts_of(what: str, resources: Mapping[str, QuantityText]) -> Amounts:
    """The amounts in a resource list, without zeroes and without names that no node has."""
    return tuple(pair for pair in limits_of(what, resources) if pair[1])


def limits_of(what: str, resources: Mapping[str, QuantityText]) -> Amounts:
    """As `amounts_of`, but zeroes stay: a limit of nothing is a limit."""
    found: list[tuple[str, int]] = []
    for name, quantity in resources.items():
        if not is_on_nodes(name):
            continue
        try:
            units = to_base_units(name, quantity)
        except QuantityError as fault:
            raise BadFact(what, f"{name}: {fault}") from fault
        if units < 0:
            raise BadFact(what, f"{name} is {quantity!r}, expected 0 or more")
        if units > _MOST_UNITS:
            raise BadFact(what, f"{name} is {quantity!r}, expected at most {_most(name)}")
        found.append((name, units))
    found.sort()
    return tuple(found)


def _most(name: str) -> str:
    """Of a resource in one object, in round numbers."""
    if counts_bytes(name):
        return "8Pi"
    return "9T" if counts_in_thousandths(name) else "9P"


def added(parts: Iterable[Amounts]) -> Amounts:
    total: dict[str, int] = {}
    for part in parts:
        for name, units in part:
            total[name] = total.get(name, 0) + units
    return tuple(sorted(total.items()))


def larger(one: Amounts, other: Amounts) -> Amounts:
    """Per resource the larger amount."""
    most = dict(one)
    for name, units in other:
        most[name] = max(units, most.get(name, 0))
    return tuple(sorted(most.items()))


def times(amounts: Amounts, count: int) -> Amounts:
    return tuple((name, units * count) for name, units in amounts)


@lru_cache(maxsize=1 << 12)
def readable(amounts: Amounts) -> str:
    """For people: `2 cpu, 4Gi memory, 1 pod`."""
    return ", ".join(
        "1 pod" if (name, units) == _ONE_POD else f"{amount_text(name, units)} {name}"
        for name, units in amounts
    )


def amount_text(name: str, units: int) -> str:
    """One amount, for people: `4Gi`."""
    if counts_bytes(name):
        for power, suffix in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
            if units >= 1 << power:
                return f"{round(units / (1 << power), 2):g}{suffix}"
    return str(from_base_units(name, units))


_MOST_VECTORS: Final = 1 << 12


class ResourceIndex:
    """Which row of the arrays a resource has; grows when a new name is met."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._rows: dict[str, int] = {}
        self._vectors: dict[Amounts, IntVector] = {}
        for name in (CPU, MEMORY, PODS):
            self.row(name)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self.names)
            self.names.append(name)
            self._vectors.clear()
        return row

    def vector(self, amounts: Amounts) -> IntVector:
        """The amounts by row; meets new names first, so that the vector has room for them.

        Very many pods ask for very few distinct amounts: the vector is shared, and not to be
        written to.
        """
        known = self._vectors.get(amounts)
        if known is not None:
            return known
        rows = [self.row(name) for name, _ in amounts]
        vector = np.zeros(len(self.names), dtype=np.int64)
        for row, (_, units) in zip(rows, amounts, strict=True):
            vector[row] = units
        vector.flags.writeable = False
        if len(self._vectors) >= _MOST_VECTORS:
            self._vectors.clear()
        self._vectors[amounts] = vector
        return vector

    def amounts(self, vector: IntVector) -> Amounts:
        """The positive entries of a vector, by name."""
        return tuple(
            sorted((self.names[row], int(vector[row])) for row in np.flatnonzero(vector > 0))
        )


def tallied(slots: IntVector) -> tuple[IntVector, IntVector]:
    """The distinct slots in ascending order, and how often each is there."""
    if len(slots) == 1:
        return slots, _ONCE
    ordered = np.sort(slots)
    first = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1))
    return ordered[first], np.diff(np.append(first, len(ordered)))


_ONCE: Final = np.ones(1, dtype=np.int64)
