"""Queues have what they deserve, may borrow up to their capability, and give back when asked.

Who is furthest below its deserved share comes first. A queue may grow beyond it up to its limit;
others that are below theirs take it back, but never below the guarantee. With hierarchy the same
holds on every level: what a queue uses counts for every queue above it, and siblings give way
before cousins. A queue whose place in the tree can't be made out, or that has queues below it,
takes no jobs; all other queues go on (Volcano stops everything).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import msgspec

from stromboli.api.wellknown import ROOT_QUEUE
from stromboli.scheduling.account_keeping import AccountKeeper
from stromboli.scheduling.accounts import Sums, add
from stromboli.scheduling.entitlements import Entitlement, flat, in_tree
from stromboli.scheduling.hierarchy import QueueTree
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim, Refusal, SortKey, Vote
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.queue_gauges import Gauges, queue_gauges
from stromboli.scheduling.queue_reasons import (
    beyond_limit,
    guaranteed_to,
    misplaced_queue,
    needed,
    worth_waiting_for,
)
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.reasons import Unblock
from stromboli.scheduling.reclaiming import Reclaim
from stromboli.scheduling.resources import PODS, Amounts
from stromboli.scheduling.session import Session
from stromboli.scheduling.shares import room_for, share, shortage

NAME: Final = "capacity"


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    hierarchy: bool = msgspec.field(default=False, name="enableHierarchy")
    ancestor_reclaim_level: int = msgspec.field(default=0, name="ancestorReclaimLevel")
    dynamic_resources: bool = msgspec.field(
        default=False, name="capacity.DynamicResourceAllocationEnable"
    )
    """Read, and without effect until devices are counted."""
    consumable_capacity: bool = msgspec.field(
        default=False, name="capacity.DRAConsumableCapacityEnable"
    )


class Capacity(AccountKeeper):
    """Queues side by side; their parents mean nothing."""

    name = NAME
    is_even_handed = True
    is_impartial = True
    protects = True
    judges_by = "queue"

    def __init__(self) -> None:
        super().__init__()
        self._session: Session | None = None
        self._entitlements: dict[str, Entitlement] = {}

    def opened(self, session: Session) -> None:
        if session.queues_changed or session.nodes_changed or self._session is None:
            self._entitle(session)
        self._session = session
        self.begin(session)

    def _entitle(self, session: Session) -> None:
        total = session.totals()[0]
        self._entitlements = flat(session.queues, total)
        self.keep_guarantees(self._entitlements, total)

    # Order.

    def queue_order(self, queue: QueueInfo) -> SortKey:
        """By priority; then who has least of what it deserves; then who deserves anything."""
        return (-queue.priority, self.share(queue.name), not self._deserved(queue.name))

    def share(self, queue: str) -> float:
        """Of a queue that deserves nothing it is 1: it borrows whatever it has."""
        known = self._shares.get(queue)
        if known is None:
            deserved = self._deserved(queue)
            held = self.accounts.allocated(queue)
            known = self._shares[queue] = max(
                (share(held.get(name, 0), units) for name, units in deserved.items()), default=1.0
            )
        return known

    def _deserved(self, queue: str) -> Mapping[str, int]:
        return self.entitlement(queue).deserved

    def entitlement(self, queue: str) -> Entitlement:
        return self._entitlements.get(queue) or Entitlement()

    # May it have more?

    def invalid(self, contender: Contender) -> Refusal | None:
        return self._barred(contender.queue)

    def enqueueable(self, contender: Contender) -> Vote | Refusal:
        least = contender.job.min_resources
        barred = self._barred(contender.queue)
        if barred is not None:
            return barred
        for queue in self._bounds_of(contender.queue):
            short_by = self._short(queue, least, self.accounts.spoken_for(queue))
            if short_by:
                return replace(self._refusal(queue, contender, least, short_by), need=least)
        return Vote.PERMIT

    def how_many(self, queue: QueueInfo, contender: Contender, kind: TaskClass, want: int) -> int:
        if not queue.is_open or self._barred(queue.name) is not None:
            return 0
        for name in self._bounds_of(queue.name):
            bounds = self.entitlement(name)
            taken = self._taken(name, contender, kind)
            want = room_for(kind.request, want, taken, bounds.limit, otherwise=bounds.otherwise)
        return self.left_by_guarantees(queue.name, kind.request, want)

    def why_not(self, queue: QueueInfo, contender: Contender, kind: TaskClass) -> Refusal:
        if not queue.is_open:
            return misplaced_queue(f"queue {queue.name!r} is closed", Unblock.QUEUE)
        barred = self._barred(queue.name)
        if barred is not None:
            return barred
        need, missing = needed(contender, kind)
        for name in self._bounds_of(queue.name):
            short_by = self._short(name, missing, self._taken(name, contender, kind))
            if short_by:
                refusal = self._refusal(name, contender, need, short_by)
                return replace(refusal, need=worth_waiting_for(contender, need))
        kept = self.kept_for_others(queue.name, need, missing)
        if kept is not None:
            return replace(kept, need=worth_waiting_for(contender, need))
        return misplaced_queue(f"queue {queue.name!r} is full", Unblock.SHARE)

    def _taken(self, queue: str, contender: Contender, kind: TaskClass) -> Sums:
        """What is held, and what is kept for others than these pods."""
        taken = self.accounts.allocated(queue)
        earmarked = self.accounts.earmarked(queue)
        if earmarked:
            own = contender.kept.get(kind, 0)
            add(taken, earmarked)
            add(taken, tuple((name, units * own) for name, units in kind.request), -1)
        return taken

    def has_room(self, queue: QueueInfo, need: Amounts, *, admitted: bool) -> bool:
        taken = self.accounts.allocated if admitted else self.accounts.spoken_for
        if any(self._short(name, need, taken(name)) for name in self._bounds_of(queue.name)):
            return False
        return not admitted or self.left_by_guarantees(queue.name, need, 1) > 0

    def _short(self, queue: str, request: Amounts, taken: Sums) -> Amounts:
        bounds = self.entitlement(queue)
        return shortage(request, taken, bounds.limit, otherwise=bounds.otherwise)

    def _refusal(
        self, queue: str, contender: Contender, need: Amounts, short_by: Amounts
    ) -> Refusal:
        return beyond_limit(
            queue,
            of=contender.queue,
            need=need,
            short_by=short_by,
            limit=self.entitlement(queue).limit,
            holders=lambda resource: self.largest_holders(queue, resource),
            kept=lambda resource: self.guarantees_against(queue, resource),
        )

    def _guarantees_against(self, queue: str, resource: str) -> list[tuple[str, int]]:
        queues = self._session.queues if self._session is not None else {}
        limit = self.entitlement(queue).at_most(resource)
        return guaranteed_to(queues, self._bounds_of(queue), self._rivals(queue), resource, limit)

    def _rivals(self, queue: str) -> Sequence[str]:
        """Every queue whose guarantee makes the limit of this one smaller."""
        return [name for name in self._entitlements if name != queue]

    def _barred(self, queue: str) -> Refusal | None:
        """Why the queue takes no jobs at all."""
        return None

    def _bounds_of(self, queue: str) -> Sequence[str]:
        """Every queue whose limit counts, its own first."""
        return (queue,)

    # May it take from others?

    def preemptive(self, queue: QueueInfo, claim: Claim) -> bool:
        """It stays within its limit, and of something it asks for within what it deserves."""
        request = claim.request
        if not queue.is_open or self._barred(queue.name) is not None:
            return False
        if self._short(queue.name, request, self.accounts.allocated(queue.name)):
            return False
        return any(self._deserves(name, request) for name in self._claimants(queue.name))

    def _deserves(self, queue: str, request: Amounts) -> bool:
        deserved, held = self._deserved(queue), self.accounts.allocated(queue)
        return any(
            held.get(name, 0) + units <= deserved.get(name, 0)
            for name, units in request
            if name != PODS
        )

    def _claimants(self, queue: str) -> Sequence[str]:
        """Queues in whose name it may claim."""
        return (queue,)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None:
        return self._reclaim(claim).victims(self._with_queues(candidates))

    def evictable(
        self, claim: Claim, candidates: Sequence[Task], *, reclaiming: bool
    ) -> Sequence[Task] | None:
        if not reclaiming:
            return candidates
        return self._reclaim(claim).victims(self._with_queues(candidates), for_gang=True)

    def _reclaim(self, claim: Claim) -> Reclaim:
        return Reclaim(claim.contender.queue, claim.request, self.accounts, self._entitlements)

    def _with_queues(self, tasks: Sequence[Task]) -> list[tuple[Task, str]]:
        session = self._session
        if session is None:
            return []
        jobs = session.jobs
        return [(task, session.queue_of(jobs[task.job])) for task in tasks if task.job in jobs]

    # Figures.

    def gauges(self) -> Gauges:
        """Volcano's metrics of queues."""
        if self._session is None:
            return {}
        return queue_gauges(
            self._session.queues,
            self.accounts,
            self._entitlements,
            share=self.share,
            overused=lambda queue: self.share(queue) > 1,
        )


class HierarchicalCapacity(Capacity):
    """Queues in a tree."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self._levels = levels
        self._tree = QueueTree({})
        self._shape: tuple[tuple[str, str, str], ...] | None = None

    def _entitle(self, session: Session) -> None:
        shape = QueueTree.shape(session.queues)
        if shape != self._shape:
            self._shape, self._tree = shape, QueueTree(session.queues)
            self.accounts.repath(self._tree.path)
        self._entitlements = in_tree(self._tree, session.queues)
        parents = {
            position.name: position.parent if position.parent != ROOT_QUEUE else ""
            for position in self._tree.positions
            if position.ancestors
        }
        self.keep_guarantees(self._entitlements, session.totals()[0], parents)

    def queue_order(self, queue: QueueInfo) -> SortKey:
        """Leaves first; two leaves by the shares of the queues where their paths part."""
        key: list[Any] = [-queue.priority, bool(self._tree.position(queue.name).children)]
        for name in self._tree.path(queue.name)[1:]:
            key += (self.share(name), not self._deserved(name), name)
        return tuple(key)

    def victim_queue_order(self, queue: QueueInfo, claimant: QueueInfo) -> SortKey:
        """The nearer relative gives way first."""
        return (-self._tree.common(queue.name, claimant.name),)

    def _barred(self, queue: str) -> Refusal | None:
        problem = self._tree.jobs_barred(queue)
        if not problem:
            return None
        is_parent = bool(self._tree.position(queue).children)
        return misplaced_queue(problem, Unblock.LEAF if is_parent else Unblock.QUEUE_MENDED)

    def _rivals(self, queue: str) -> Sequence[str]:
        path = self._tree.path(queue)
        return [
            sibling
            for parent, child in pairwise(path)
            for sibling in self._tree.position(parent).children
            if sibling != child
        ]

    def _bounds_of(self, queue: str) -> Sequence[str]:
        return self._tree.path(queue)[::-1]

    def _holders(self, queue: str) -> Iterable[tuple[str, Mapping[str, int]]]:
        below = self._tree.position(queue).children
        if not below:
            return super()._holders(queue)
        return ((f"queue {name}", self.accounts.allocated(name)) for name in below)

    def _claimants(self, queue: str) -> Sequence[str]:
        position = self._tree.position(queue)
        above = (position.above(level) for level in range(1, self._levels + 1))
        return (queue, *(name for name in above if name))

    def _reclaim(self, claim: Claim) -> Reclaim:
        return Reclaim(
            claim.contender.queue,
            claim.request,
            self.accounts,
            self._entitlements,
            tree=self._tree,
            levels=self._levels,
        )


def build(arguments: Mapping[str, Any]) -> Capacity:
    args = read_arguments(NAME, Args, arguments)
    if not args.hierarchy:
        return Capacity()
    return HierarchicalCapacity(max(0, args.ancestor_reclaim_level))
