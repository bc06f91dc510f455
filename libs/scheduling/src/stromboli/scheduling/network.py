"""The network as a tree of domains over the nodes, in arrays.

A domain is a HyperNode that can be reckoned with; above all of them stands a virtual one with
every node, one tier higher than the highest. Domains are numbered by tier and name, so the first
of several is the lowest, and of equals the first by name. Which nodes each has stands in one long
list, so that sums over all domains are one operation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from stromboli.api.scheduling import NetworkTopologyMode, NetworkTopologySpec
from stromboli.scheduling.resources import IntMatrix, IntVector

__all__ = ["TOP", "DomainSums", "Network", "Part"]

TOP: Final = "<cluster-top-hypernode>"
"""Volcano's name for what is above all HyperNodes."""

_MANY: Final = 100
"""So many nodes are added up anew rather than one by one."""

A = TypeVar("A", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Part:
    """One domain, before it has a number: its name, tier, parent and nodes."""

    name: str
    tier: int
    parent: str
    """Empty where there is none but the top."""
    slots: IntVector
    """Ascending, and at least one."""


@dataclass(slots=True, eq=False)
class Network:
    """The domains of one layout of the nodes."""

    parts: Sequence[Part]
    """By tier and name."""
    nodes: int
    top_tier: int = 1
    tier_names: Mapping[str, int] = field(default_factory=dict[str, int])
    names: list[str] = field(init=False)
    tiers: IntVector = field(init=False)
    parents: IntVector = field(init=False)
    """Of the top it is the top itself."""
    leaf: IntVector = field(init=False)
    """Of each node the lowest domain that has it."""
    _slots: list[IntVector] = field(init=False)
    _flat: IntVector = field(init=False)
    _starts: IntVector = field(init=False)
    _domains: list[IntVector] | None = None
    _at_tier: dict[int, IntVector] = field(default_factory=dict[int, IntVector])

    def __post_init__(self) -> None:
        everywhere = np.arange(self.nodes, dtype=np.int64)
        self.names = [*(part.name for part in self.parts), TOP]
        self.tiers = np.array([*(part.tier for part in self.parts), self.top_tier], dtype=np.int64)
        numbers = {part.name: number for number, part in enumerate(self.parts)}
        self.parents = np.array(
            [*(numbers.get(part.parent, self.top) for part in self.parts), self.top],
            dtype=np.int64,
        )
        self._slots = [*(part.slots for part in self.parts), everywhere]
        self._flat = np.concatenate(self._slots)
        sizes = [len(slots) for slots in self._slots]
        self._starts = np.concatenate(([0], np.cumsum(sizes[:-1], dtype=np.int64)))
        self.leaf = np.full(self.nodes, self.top, dtype=np.int64)
        for number in reversed(range(len(self.parts))):
            self.leaf[self._slots[number]] = number

    def __len__(self) -> int:
        return len(self.names)

    @property
    def top(self) -> int:
        return len(self.parts)

    @property
    def lowest_tier(self) -> int:
        return int(self.tiers.min())

    def slots(self, domain: int) -> IntVector:
        return self._slots[domain]

    # Sums.

    def sums(self, per_node: NDArray[A]) -> NDArray[A]:
        """The last axis is nodes before and domains after."""
        if not self.nodes:
            return np.zeros((*per_node.shape[:-1], len(self)), dtype=per_node.dtype)
        return np.add.reduceat(per_node[..., self._flat], self._starts, axis=-1)

    def domains_of(self, slot: int) -> IntVector:
        """All that have this node."""
        if self._domains is None:
            sizes = [len(slots) for slots in self._slots]
            numbers = np.repeat(np.arange(len(self), dtype=np.int64), sizes)
            by_node = np.argsort(self._flat, kind="stable")
            ends = np.cumsum(np.bincount(self._flat, minlength=self.nodes))
            self._domains = np.split(numbers[by_node], ends[:-1])
        return self._domains[slot]

    # Kinship.

    def lineage(self, domain: int) -> list[int]:
        """The domain and all above it, the top last."""
        found = [domain]
        while found[-1] != self.top:
            found.append(int(self.parents[found[-1]]))
        return found

    def below(self, root: int) -> IntVector:
        """The root and every domain in it, in order."""
        inside = np.arange(len(self), dtype=np.int64)
        while True:
            above = np.where(inside == root, root, self.parents[inside])
            if (above == inside).all():
                return cast("IntVector", np.flatnonzero(inside == root))
            inside = above

    def smallest(self, slots: IntVector) -> int:
        """The lowest domain that has all of these nodes."""
        is_there = np.zeros(self.nodes, dtype=np.int64)
        is_there[slots] = 1
        return int(np.argmax(self.sums(is_there) == is_there.sum()))

    def meeting(self, domain: int) -> IntVector:
        """For every domain the lowest one that it and this domain are in."""
        is_above = np.zeros(len(self), dtype=np.bool_)
        is_above[self.lineage(domain)] = True
        met = np.arange(len(self), dtype=np.int64)
        while not (known := is_above[met]).all():
            met = np.where(known, met, self.parents[met])
        return met

    def at_tier(self, tier: int) -> IntVector:
        """Of every node its domain at a tier; -1 where it has none there."""
        known = self._at_tier.get(tier)
        if known is None:
            found = self.leaf
            while (lower := self.tiers[found] < tier).any():
                found = np.where(lower, self.parents[found], found)
            known = self._at_tier[tier] = np.where(self.tiers[found] == tier, found, -1)
        return known

    # What jobs ask for.

    def highest(self, asked: NetworkTopologySpec | None, *, within: int | None) -> int | None:
        """The highest tier that a job may be spread over, or a part of one; None: it did not ask.

        What it does not limit is limited by `within`, the job's own limit, or by nothing.
        """
        if asked is None:
            return None
        unlimited = self.top_tier if within is None else within
        if asked.mode == NetworkTopologyMode.SOFT:
            return unlimited
        if asked.highest_tier_allowed is not None:
            return min(asked.highest_tier_allowed, self.top_tier)
        return self.tier_names.get(asked.highest_tier_name, self.top_tier)

    def reach(self, domain: int, tier: int) -> int | None:
        """The highest domain around this one that is not above a tier."""
        allowed = [each for each in self.lineage(domain) if self.tiers[each] <= tier]
        return allowed[-1] if allowed else None


class DomainSums:
    """The sums over every domain of amounts that change on a few nodes at a time."""

    def __init__(self, network: Network, per_node: IntMatrix) -> None:
        self._network = network
        self._seen = per_node.copy()
        self.sums: IntMatrix = network.sums(per_node)

    def follow(self, per_node: IntMatrix, slots: IntVector) -> None:
        """On these nodes, and on no others, something has changed."""
        if len(slots) > _MANY:
            self._seen = per_node.copy()
            self.sums = self._network.sums(per_node)
            return
        for slot in slots.tolist():
            change = per_node[:, slot] - self._seen[:, slot]
            self.sums[:, self._network.domains_of(slot)] += change[:, None]
            self._seen[:, slot] = per_node[:, slot]
