"""The part of a plugin that follows what a cycle does to queues, and can say who holds what."""

from collections.abc import Iterable, Mapping, Sequence

from stromboli.scheduling.accounts import Accounts
from stromboli.scheduling.entitlements import Entitlement
from stromboli.scheduling.guaranteed import Guaranteed
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Refusal
from stromboli.scheduling.pods import TaskClass, let_through
from stromboli.scheduling.queue_reasons import job_name, kept_for_others, largest
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.session import Session
from stromboli.scheduling.shares import PLENTY, room_for, shortage
from stromboli.scheduling.trial import Eviction, Placement

__all__ = ["AccountKeeper"]


class AccountKeeper:
    """Keeps one account per queue."""

    def __init__(self) -> None:
        self.accounts = Accounts()
        self.guaranteed = Guaranteed(self.accounts)
        self._shares: dict[str, float] = {}
        """Of queues, as far as anybody asked; forgotten when a queue's account changes."""
        self._largest: dict[tuple[str, str], list[tuple[str, int]]] = {}
        """Per queue and resource, as the cycle began: many jobs may be refused in one cycle."""

        self._against: dict[tuple[str, str], list[tuple[str, int]]] = {}
        """The same of guarantees."""

    def begin(self, session: Session) -> None:
        """A cycle begins."""
        self.accounts.rebase(session)
        self.guaranteed.begin()
        self._shares.clear()
        self._largest.clear()
        self._against.clear()

    # What a cycle does.

    def placed(self, placement: Placement) -> None:
        self._count(placement.contender.queue, placement.kind.request, len(placement.tasks))
        if placement.contender.kept:
            self.keep_room(placement.contender, placement.kind, -let_through(placement.tasks))

    def placed_together(self, placements: Sequence[Placement]) -> None:
        first = placements[0]
        pods = sum(len(placement.tasks) for placement in placements)
        self._count(first.contender.queue, first.kind.request, pods)

    def withdrawn(self, placement: Placement) -> None:
        self._count(placement.contender.queue, placement.kind.request, -len(placement.tasks))
        if placement.contender.kept:
            self.keep_room(placement.contender, placement.kind, let_through(placement.tasks))

    def keep_room(self, contender: Contender, kind: TaskClass, count: int) -> None:
        """Pods are let through the gate of their queue, or have a place now."""
        self.accounts.earmark(contender.queue, kind.request, count)

    def evicted(self, eviction: Eviction) -> None:
        self._count(eviction.contender.queue, eviction.task.kind.request, -1)

    def restored(self, eviction: Eviction) -> None:
        self._count(eviction.contender.queue, eviction.task.kind.request, 1)

    def enqueued(self, contender: Contender) -> None:
        self.accounts.admit(contender.queue, contender.job.min_resources)

    def _count(self, queue: str, request: Amounts, count: int) -> None:
        self.accounts.place(queue, request, count)
        self.guaranteed.moved(queue)
        for above in self.accounts.path_of(queue):
            self._shares.pop(above, None)

    # What others are sure of.

    def keep_guarantees(
        self,
        entitlements: Mapping[str, Entitlement],
        total: Mapping[str, int],
        parents: Mapping[str, str] | None = None,
    ) -> None:
        """Queues have other guarantees, or there is more or less to keep; side by side, or not."""
        sure = {name: one.guarantee for name, one in entitlements.items()}
        self.guaranteed.configure(sure, parents or dict.fromkeys(sure, ""), total)

    def left_by_guarantees(self, queue: str, request: Amounts, want: int) -> int:
        """For how many of these there is room that is kept for nobody else."""
        return room_for(request, want, {}, self.guaranteed.room(queue), otherwise=PLENTY)

    def kept_for_others(self, queue: str, need: Amounts, missing: Amounts) -> Refusal | None:
        """What the queue may not have because others are sure of it."""
        short_by = shortage(missing, {}, self.guaranteed.room(queue), otherwise=PLENTY)
        if not short_by:
            return None
        keepers = self.guaranteed.keepers(queue, [name for name, _ in short_by])
        return kept_for_others(need, short_by, keepers)

    # Who holds what.

    def largest_holders(self, queue: str, resource: str) -> list[tuple[str, int]]:
        known = self._largest.get((queue, resource))
        if known is None:
            known = self._largest[queue, resource] = largest(self._holders(queue), resource)
        return known

    def _holders(self, queue: str) -> Iterable[tuple[str, Mapping[str, int]]]:
        return ((job_name(key), held) for key, held in self.accounts.holders(queue))

    def guarantees_against(self, queue: str, resource: str) -> list[tuple[str, int]]:
        """The queues with the largest guarantees that leave this one less of a resource."""
        known = self._against.get((queue, resource))
        if known is None:
            known = self._against[queue, resource] = self._guarantees_against(queue, resource)
        return known

    def _guarantees_against(self, queue: str, resource: str) -> list[tuple[str, int]]:
        raise NotImplementedError
