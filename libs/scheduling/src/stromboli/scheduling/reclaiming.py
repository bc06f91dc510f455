"""Which pods a queue that has less than it deserves may take from queues that have more.

Volcano's rules (capacity), walked in the order in which victims would go, with what the earlier
ones gave already subtracted: a pod must have something the claim needs; its queue keeps its
guarantee; and its queue has more than it deserves of something the pod uses, or deserves nothing
of what the pod uses at all. `levels` above the queue must agree, where the two paths differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stromboli.scheduling.accounts import Accounts, Sums, add
from stromboli.scheduling.entitlements import Entitlement
from stromboli.scheduling.hierarchy import QueueTree
from stromboli.scheduling.pods import Task
from stromboli.scheduling.resources import PODS, Amounts

__all__ = ["Reclaim"]


@dataclass(slots=True)
class Reclaim:
    """One claim of one queue on the others."""

    queue: str
    request: Amounts
    accounts: Accounts
    entitlements: Mapping[str, Entitlement]
    tree: QueueTree | None = None
    levels: int = 0
    _left: dict[str, Sums] = field(default_factory=dict[str, Sums])
    """What is left to each queue that was looked at."""

    def victims(
        self, candidates: Sequence[tuple[Task, str]], *, for_gang: bool = False
    ) -> list[Task]:
        """Of these pods and their queues; the order is kept.

        For a whole gang only guarantee and deserved are looked at, as in Volcano: it takes
        bundles of pods, of which not every one has something that it needs.
        """
        full = self._full_ancestor()
        return [
            task
            for task, queue in candidates
            if self._is_under(queue, full)
            and self._take(task.kind.request, queue, for_gang=for_gang)
        ]

    def _take(self, request: Amounts, queue: str, *, for_gang: bool) -> bool:
        entitlement = self.entitlements.get(queue)
        if entitlement is None or not (for_gang or _shared(request, self.request)):
            return False
        left = self._left_to(queue)
        if not _keeps_guarantee(left, request, entitlement):
            return False
        if _is_undeserved(request, entitlement):
            if not for_gang and self._nobody_deserves(queue):
                return False
        elif not _has_too_much(left, request, entitlement):
            return False
        if not for_gang and not self._levels_agree(queue, request):
            return False
        for above in self.accounts.path_of(queue):
            add(self._left_to(above), request, -1)
        return True

    def _left_to(self, queue: str) -> Sums:
        left = self._left.get(queue)
        if left is None:
            left = self._left[queue] = self.accounts.allocated(queue)
        return left

    # The tree.

    def _levels_agree(self, queue: str, request: Amounts) -> bool:
        if self.tree is None:
            return True
        mine, theirs = self.tree.position(self.queue), self.tree.position(queue)
        for level in range(1, self.levels + 1):
            above = theirs.above(level)
            if not above or above == mine.above(level):
                continue
            entitlement = self.entitlements[above]
            if not _is_undeserved(request, entitlement) and not _has_too_much(
                self._left_to(above), request, entitlement
            ):
                return False
        return True

    def _nobody_deserves(self, queue: str) -> bool:
        """Neither side has a claim to it, and the same queue above is in charge of both."""
        if self.tree is None or not self.levels:
            return False
        mine, theirs = self.tree.position(self.queue), self.tree.position(queue)
        above_mine = {mine.above(level) for level in range(1, self.levels + 1)} - {""}
        if not any(theirs.above(level) in above_mine for level in range(1, self.levels + 1)):
            return False
        return _is_undeserved(self.request, self.entitlements[self.queue])

    def _full_ancestor(self) -> str:
        """The nearest queue above that has no room for the claim: only its own pods can make it.

        What others elsewhere gave up could not be used.
        """
        if self.tree is None:
            return ""
        for above in reversed(self.tree.position(self.queue).ancestors):
            entitlement, taken = self.entitlements[above], self.accounts.allocated(above)
            for name, units in self.request:
                if name != PODS and taken.get(name, 0) + units > entitlement.at_most(name):
                    return above
        return ""

    def _is_under(self, queue: str, above: str) -> bool:
        return not above or above in self.accounts.path_of(queue)


def _shared(one: Amounts, other: Amounts) -> bool:
    names = {name for name, _ in one} - {PODS}
    return any(name in names for name, _ in other)


def _keeps_guarantee(left: Sums, request: Amounts, entitlement: Entitlement) -> bool:
    gone = dict(request)
    return all(
        left.get(name, 0) - gone.get(name, 0) >= units
        for name, units in entitlement.guarantee.items()
    )


def _is_undeserved(request: Amounts, entitlement: Entitlement) -> bool:
    return not any(entitlement.deserved.get(name) for name, _ in request)


def _has_too_much(left: Sums, request: Amounts, entitlement: Entitlement) -> bool:
    return any(
        left.get(name, 0) > deserved
        for name, _ in request
        if (deserved := entitlement.deserved.get(name, 0))
    )
