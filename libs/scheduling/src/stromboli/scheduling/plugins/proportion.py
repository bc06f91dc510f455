"""Every queue deserves a part of the cluster by its weight, and no more than it asks for.

What a queue does not ask for is shared out among those that do. A queue that has its part gets
nothing more while others want theirs; a queue that has less may take back what others have
beyond theirs. Only queues that have jobs take part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from stromboli.scheduling.account_keeping import AccountKeeper
from stromboli.scheduling.accounts import Sums, add
from stromboli.scheduling.entitlements import Entitlement, flat
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim, Refusal, SortKey, Vote
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.queue_gauges import Gauges, queue_gauges
from stromboli.scheduling.queue_reasons import (
    beyond_limit,
    beyond_share,
    guaranteed_to,
    misplaced_queue,
    needed,
    worth_waiting_for,
)
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.reasons import Unblock
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.session import Session
from stromboli.scheduling.shares import PLENTY, Demand, dominant_share, room_for, shortage
from stromboli.scheduling.sharing import Sharing

NAME: Final = "proportion"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Proportion(AccountKeeper):
    """Shares out the cluster anew whenever somebody's wants have changed."""

    name = NAME
    is_even_handed = True
    is_impartial = True
    protects = True
    judges_by = "queue"

    def __init__(self) -> None:
        super().__init__()
        self._session: Session | None = None
        self._limits: dict[str, Entitlement] = {}
        self._sharing = Sharing()

    def opened(self, session: Session) -> None:
        self.begin(session)
        changed = self.accounts.changed
        total = self._sharing.total
        if session.nodes_changed or self._session is None:
            total = session.totals()[0]
        if session.queues_changed or self._session is None or total != self._sharing.total:
            self._limits = flat(session.queues, total)
            self.keep_guarantees(self._limits, total)
            self.guaranteed.begin()
            self._sharing.begin(total)
            changed = dict.fromkeys(self._limits)
        for name in changed:
            self._sharing.put(name, self._demand(session, name))
        self._session = session

    def _demand(self, session: Session, queue: str) -> Demand | None:
        """A queue without jobs takes no part."""
        account, limits = self.accounts.of(queue), self._limits.get(queue)
        if limits is None or not account.jobs:
            return None
        return Demand(
            weight=session.queues[queue].weight,
            request=dict(account.requested),
            limit=limits.limit,
            guarantee=limits.guarantee,
        )

    def entitlement(self, queue: str) -> Entitlement:
        limits = self._limits.get(queue) or Entitlement()
        return replace(limits, deserved=self._sharing.deserved(queue))

    # Order.

    def queue_order(self, queue: QueueInfo) -> SortKey:
        return (-queue.priority, self.share(queue.name))

    def share(self, queue: str) -> float:
        """The largest part of what it deserves that it has, of any resource."""
        known = self._shares.get(queue)
        if known is None:
            deserved, held = self._sharing.deserved(queue), self.accounts.held(queue)
            whole = {name: deserved.get(name, 0) for name in (*deserved, *held)}
            known = self._shares[queue] = dominant_share(held, whole)
        return known

    def overused(self, queue: QueueInfo) -> bool:
        """Whether it has all that it deserves, of everything."""
        held = self.accounts.held(queue.name)
        deserved = self._sharing.deserved(queue.name)
        return all(units <= held.get(name, 0) for name, units in deserved.items())

    def turns_left(self, queue: QueueInfo, request: Amounts, pods: int) -> int:
        held, asked = self.accounts.held(queue.name), dict(request)
        turns = 0
        for name, units in self._sharing.deserved(queue.name).items():
            lacking = units - held.get(name, 0)
            if lacking > 0:
                step = asked.get(name, 0) * pods
                turns = max(turns, -(-lacking // step) if step else PLENTY)
        return turns

    # May it have more?

    def enqueueable(self, contender: Contender) -> Vote | Refusal:
        least, queue = contender.job.min_resources, contender.queue
        taken = self.accounts.spoken_for(queue)
        short_by = shortage(least, taken, self._limit(queue), otherwise=0)
        if not short_by:
            return Vote.PERMIT
        return replace(self._beyond_limit(queue, least, short_by), need=least)

    def _beyond_limit(self, queue: str, need: Amounts, short_by: Amounts) -> Refusal:
        return beyond_limit(
            queue,
            of=queue,
            need=need,
            short_by=short_by,
            limit=self._limit(queue),
            holders=lambda resource: self.largest_holders(queue, resource),
            kept=lambda resource: self.guarantees_against(queue, resource),
        )

    def _limit(self, queue: str) -> Mapping[str, int]:
        return (self._limits.get(queue) or Entitlement()).limit

    def _guarantees_against(self, queue: str, resource: str) -> list[tuple[str, int]]:
        queues = self._session.queues if self._session is not None else {}
        others = [name for name in queues if name != queue]
        limit = self._limit(queue).get(resource, 0)
        return guaranteed_to(queues, (queue,), others, resource, limit)

    def how_many(self, queue: QueueInfo, contender: Contender, kind: TaskClass, want: int) -> int:
        if not queue.is_open:
            return 0
        held = self.accounts.held(queue.name)
        deserved = self._sharing.deserved(queue.name)
        want = room_for(kind.request, want, held, deserved, otherwise=0)
        return self.left_by_guarantees(queue.name, kind.request, want)

    def why_not(self, queue: QueueInfo, contender: Contender, kind: TaskClass) -> Refusal:
        if not queue.is_open:
            return misplaced_queue(f"queue {queue.name!r} is closed", Unblock.QUEUE)
        entitlement = self.entitlement(queue.name)
        held = self.accounts.held(queue.name)
        need, missing = needed(contender, kind)
        beyond = shortage(missing, held, entitlement.limit, otherwise=0)
        too_much = shortage(missing, held, entitlement.deserved, otherwise=0)
        kept = None if beyond or too_much else self.kept_for_others(queue.name, need, missing)
        if kept is not None:
            refusal = kept
        elif beyond:
            refusal = self._beyond_limit(queue.name, need, beyond)
        else:
            refusal = beyond_share(
                queue.name,
                need=need,
                short_by=too_much,
                deserved=entitlement.deserved,
                holders=lambda resource: self.largest_holders(queue.name, resource),
            )
        return replace(refusal, need=worth_waiting_for(contender, need))

    def has_room(self, queue: QueueInfo, need: Amounts, *, admitted: bool) -> bool:
        if not need:
            return not self.overused(queue)
        if admitted:
            has_share = not self._beyond_deserved(queue.name, need)
            return has_share and self.left_by_guarantees(queue.name, need, 1) > 0
        limit = self.entitlement(queue.name).limit
        return not shortage(need, self.accounts.spoken_for(queue.name), limit, otherwise=0)

    # May it take from others?

    def preemptive(self, queue: QueueInfo, claim: Claim) -> bool:
        return queue.is_open and not self._beyond_deserved(queue.name, claim.request)

    def _beyond_deserved(self, queue: str, request: Amounts) -> Amounts:
        deserved = self._sharing.deserved(queue)
        return shortage(request, self.accounts.allocated(queue), deserved, otherwise=0)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """From each queue as long as it has more of anything than it deserves, and is sure of."""
        session = self._session
        if session is None:
            return None
        left: dict[str, Sums] = {}
        victims: list[Task] = []
        for task in candidates:
            job = session.jobs.get(task.job)
            if job is None:
                continue
            queue = session.queue_of(job)
            held = left.setdefault(queue, self.accounts.allocated(queue))
            deserved = self._sharing.deserved(queue)
            has_more = any(units > deserved.get(name, 0) for name, units in held.items())
            if has_more and self._keeps_guarantee(queue, held, task.kind.request):
                victims.append(task)
                add(held, task.kind.request, -1)
        return victims

    def _keeps_guarantee(self, queue: str, held: Sums, request: Amounts) -> bool:
        sure = (self._limits.get(queue) or Entitlement()).guarantee
        return all(held.get(name, 0) - units >= sure.get(name, 0) for name, units in request)

    def evictable(
        self, claim: Claim, candidates: Sequence[Task], *, reclaiming: bool
    ) -> Sequence[Task] | None:
        """Volcano's has no say here; then a gang takes what other queues deserve."""
        return self.reclaimable(claim, candidates) if reclaiming else candidates

    # Figures.

    def gauges(self) -> Gauges:
        """Volcano's metrics of queues."""
        if self._session is None:
            return {}
        queues = self._session.queues
        return queue_gauges(
            queues,
            self.accounts,
            {name: self.entitlement(name) for name in queues},
            share=self.share,
            overused=lambda queue: self.overused(queues[queue]),
        )


def build(arguments: Mapping[str, Any]) -> Proportion:
    read_arguments(NAME, Args, arguments)
    return Proportion()
