"""What queues are sure of and do not use is nobody else's.

Volcano takes the guarantees of all others off the limit of each queue, one queue at a time: two
queues together still fill the cluster, and the guarantee of a third is gone when it wants it.
Here all that guarantees leave is one pool. A queue has its own guarantee first, then what the
queues above it are sure of, and of the pool as much as nobody else has taken.

Sums are kept queue by queue as a cycle goes on; without any guarantee nothing is kept at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stromboli.scheduling.accounts import Accounts

__all__ = ["Guaranteed"]

_POOL = ""
"""Stands above every queue that has no parent."""


@dataclass(slots=True)
class _Resource:
    """Of one resource that somebody is sure of."""

    total: int
    sure: dict[str, int]
    """By queue."""
    kept: dict[str, int] = field(default_factory=dict[str, int])
    """By queue: what it is sure of, or has, whichever is more; so for those below it."""
    below: dict[str, int] = field(default_factory=dict[str, int])
    """By queue with others below it: what is kept for them together."""


@dataclass(slots=True)
class Guaranteed:
    """Follows the accounts of the queues, of which there is one for each queue above another."""

    accounts: Accounts
    _parents: Mapping[str, str] = field(default_factory=dict[str, str])
    _resources: dict[str, _Resource] = field(default_factory=dict[str, _Resource])
    _moved: dict[str, None] = field(default_factory=dict[str, None])
    """Queues that a cycle did something to: what it only tried is gone when the next begins."""

    def configure(
        self,
        guarantees: Mapping[str, Mapping[str, int]],
        parents: Mapping[str, str],
        total: Mapping[str, int],
    ) -> None:
        """`parents` of all queues that count, empty where nobody is above them."""
        self._parents = parents
        self._resources = {}
        for queue in parents:
            for name, units in guarantees.get(queue, {}).items():
                if units:
                    found = self._resources.setdefault(name, _Resource(total.get(name, 0), {}))
                    found.sure[queue] = units
        self._moved = dict.fromkeys(parents)

    def begin(self) -> None:
        """A cycle begins, and the accounts are as the facts have them."""
        moved, self._moved = self._moved, {}
        if self._resources:
            for queue in dict.fromkeys((*moved, *self.accounts.changed)):
                self._follow(queue)

    def moved(self, queue: str) -> None:
        """The account of this queue is a different one."""
        if self._resources:
            self._moved[queue] = None
            self._follow(queue)

    def room(self, queue: str) -> dict[str, int]:
        """How much more the queue may take, of every resource that is kept for somebody else.

        Of others it may take what the nodes have: nobody is waited for who wants nothing kept.
        """
        return {
            name: self._room(queue, name, of)
            for name, of in self._resources.items()
            if self._keepers(queue, name, of)
        }

    def keepers(self, queue: str, resources: Iterable[str]) -> list[str]:
        """Other queues that are sure of more of these than they use, by name."""
        found: set[str] = set()
        for resource in resources:
            of = self._resources.get(resource)
            if of is not None:
                found.update(self._keepers(queue, resource, of))
        return sorted(found)

    def _keepers(self, queue: str, resource: str, of: _Resource) -> list[str]:
        above = set(self._path(queue))
        return [
            name for name in of.sure if name not in above and self._unused(name, resource, of) > 0
        ]

    def _room(self, queue: str, name: str, of: _Resource) -> int:
        left = max(0, of.total - of.below.get(_POOL, 0))
        return left + sum(self._unused(above, name, of) for above in self._path(queue))

    def _unused(self, queue: str, resource: str, of: _Resource) -> int:
        return of.kept.get(queue, 0) - self._used(queue, resource, of)

    def _used(self, queue: str, resource: str, of: _Resource) -> int:
        below = of.below.get(queue)
        return self.accounts.held(queue).get(resource, 0) if below is None else below

    def _path(self, queue: str) -> Iterable[str]:
        """From the queue up."""
        while queue:
            yield queue
            queue = self._parents.get(queue, _POOL)

    def _follow(self, queue: str) -> None:
        if queue not in self._parents:
            return
        for resource, of in self._resources.items():
            for name in self._path(queue):
                now = max(of.sure.get(name, 0), self._used(name, resource, of))
                change = now - of.kept.get(name, 0)
                if not change:
                    break
                of.kept[name] = now
                parent = self._parents.get(name, _POOL)
                of.below[parent] = of.below.get(parent, 0) + change
