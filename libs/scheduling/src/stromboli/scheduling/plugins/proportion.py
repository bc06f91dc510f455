"""Every queue deserves a part of the cluster by its weight, and no more than it asks for.

What a queue does not ask for is shared out among those that do. A queue that has its part gets
nothing more while others want theirs; a queue that has less may take back what others have
beyond theirs. Only queues that have jobs take part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from stromboli.scheduling.accounts import AccountKeeper, Sums, add
from stromboli.scheduling.entitlements import Entitlement, flat
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim, Refusal, SortKey, Vote
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.queue_gauges import Gauges, queue_gauges
from stromboli.scheduling.queue_reasons import (
    beyond_limit,
    beyond_share,
    job_name,
    misplaced_queue,
)
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.session import Session
from stromboli.scheduling.shares import Demand, dominant_share, room_for, shortage, water_fill

NAME: Final = "proportion"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Proportion(AccountKeeper):
    """Shares out the cluster anew whenever somebody's wants have changed."""

    name = NAME

    def __init__(self) -> None:
        super().__init__()
        self._session: Session | None = None
        self._entitlements: dict[str, Entitlement] = {}
        """Limits of all queues; those that take part have what they deserve in it too."""
        self._total: dict[str, int] = {}
        self._shared_out_at = -1

    def opened(self, session: Session) -> None:
        if session.queues_changed or session.nodes_changed or self._session is None:
            self._total = session.totals()[0]
            self._entitlements = flat(session.queues, self._total)
            self._shared_out_at = -1
        self._session = session
        self.accounts.rebase(session)
        self._shares.clear()

    def _share_out(self) -> None:
        """Most cycles change nobody's wants; only those that do pay for it, when first asked."""
        if self._session is None or self._shared_out_at == self.accounts.changes:
            return
        self._shared_out_at = self.accounts.changes
        queues = self._session.queues
        taking_part = [name for name in self.accounts.queues if name in queues]
        demands = [
            Demand(
                weight=queues[name].weight,
                request=self.accounts.of(name).requested,
                limit=self._entitlements[name].limit,
                guarantee=self._entitlements[name].guarantee,
            )
            for name in taking_part
        ]
        deserved = dict(zip(taking_part, water_fill(self._total, demands), strict=True))
        for name, entitlement in self._entitlements.items():
            part = deserved.get(name, {})
            if part != entitlement.deserved:
                self._entitlements[name] = replace(entitlement, deserved=part)

    def entitlement(self, queue: str) -> Entitlement:
        self._share_out()
        return self._entitlements.get(queue) or Entitlement()

    # Order.

    def queue_order(self, queue: QueueInfo) -> SortKey:
        return (-queue.priority, self.share(queue.name))

    def share(self, queue: str) -> float:
        """The largest part of what it deserves that it has, of any resource."""
        known = self._shares.get(queue)
        if known is None:
            deserved, held = self.entitlement(queue).deserved, self.accounts.allocated(queue)
            whole = {name: deserved.get(name, 0) for name in (*deserved, *held)}
            known = self._shares[queue] = dominant_share(held, whole)
        return known

    def overused(self, queue: QueueInfo) -> bool:
        """Whether it has all that it deserves, of everything."""
        held = self.accounts.allocated(queue.name)
        deserved = self.entitlement(queue.name).deserved
        return all(units <= held.get(name, 0) for name, units in deserved.items())

    # May it have more?

    def enqueueable(self, contender: Contender) -> Vote | Refusal:
        least, queue = contender.job.min_resources, contender.queue
        limit = self.entitlement(queue).limit
        short_by = shortage(least, self.accounts.spoken_for(queue), limit, otherwise=0)
        if not short_by:
            return Vote.PERMIT
        return beyond_limit(
            queue,
            of=queue,
            need=least,
            short_by=short_by,
            limit=limit,
            holders=lambda: self._holders(queue),
        )

    def how_many(self, queue: QueueInfo, contender: Contender, kind: TaskClass, want: int) -> int:
        if not queue.is_open:
            return 0
        held = self.accounts.allocated(queue.name)
        deserved = self.entitlement(queue.name).deserved
        return room_for(kind.request, want, held, deserved, otherwise=0)

    def why_not(self, queue: QueueInfo, contender: Contender, kind: TaskClass) -> Refusal:
        if not queue.is_open:
            return misplaced_queue(f"queue {queue.name!r} is closed")
        entitlement = self.entitlement(queue.name)
        held = self.accounts.allocated(queue.name)
        beyond = shortage(kind.request, held, entitlement.limit, otherwise=0)
        if beyond:
            return beyond_limit(
                queue.name,
                of=queue.name,
                need=kind.request,
                short_by=beyond,
                limit=entitlement.limit,
                holders=lambda: self._holders(queue.name),
            )
        return beyond_share(
            queue.name,
            need=kind.request,
            short_by=shortage(kind.request, held, entitlement.deserved, otherwise=0),
            deserved=entitlement.deserved,
            holders=lambda: self._holders(queue.name),
        )

    def _holders(self, queue: str) -> list[tuple[str, Mapping[str, int]]]:
        return [(job_name(key), held) for key, held in self.accounts.holders(queue)]

    # May it take from others?

    def preemptive(self, queue: QueueInfo, claim: Claim) -> bool:
        return queue.is_open and not self._beyond_deserved(queue.name, claim.request)

    def _beyond_deserved(self, queue: str, request: Amounts) -> Amounts:
        deserved = self.entitlement(queue).deserved
        return shortage(request, self.accounts.allocated(queue), deserved, otherwise=0)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """From each queue as long as it has more of anything than it deserves."""
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
            deserved = self.entitlement(queue).deserved
            if any(units > deserved.get(name, 0) for name, units in held.items()):
                victims.append(task)
                add(held, task.kind.request, -1)
        return victims

    # Figures.

    def gauges(self) -> Gauges:
        """Volcano's metrics of queues."""
        if self._session is None:
            return {}
        queues = self._session.queues
        self._share_out()
        return queue_gauges(
            queues,
            self.accounts,
            self._entitlements,
            share=self.share,
            overused=lambda queue: self.overused(queues[queue]),
        )


def build(arguments: Mapping[str, Any]) -> Proportion:
    read_arguments(NAME, Args, arguments)
    return Proportion()
