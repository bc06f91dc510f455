"""Jobs that have the smallest part of the cluster come first (dominant resource fairness).

A job's part is its largest share of any resource. A job may take from another of its queue as
long as the other keeps at least as large a part as the taker then has. Volcano calls shares that
differ by less than a millionth equal; here only equal ones are. With `enableHierarchy` queues
are ordered, and give way, by the tree that their annotations draw (`drf_tree`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.scheduling.accounts import Sums, add
from stromboli.scheduling.drf_tree import ShareTree
from stromboli.scheduling.job_shares import JobShares
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim, SortKey
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey, Task
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.session import Session
from stromboli.scheduling.shares import dominant_share

NAME: Final = "drf"


class Args(msgspec.Struct, frozen=True):
    """By Volcano's name."""

    hierarchy: bool = msgspec.field(default=False, name="enableHierarchy")


class Drf(JobShares):
    """Orders jobs; queues are none of its business."""

    name = NAME
    is_even_handed = True
    is_impartial = True
    judges_by = "job"
    order_is_own = True

    def job_order(self, contender: Contender) -> SortKey:
        return (self.share(contender.key),)

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None:
        mine = self.held(claim.contender.key)
        add(mine, claim.request)
        my_share = dominant_share(mine, self.total)
        left: dict[JobKey, Sums] = {}
        victims: list[Task] = []
        for task in candidates:
            theirs = left.setdefault(task.job, self.held(task.job))
            # Also those who are spared count as gone for the next of their job, as in Volcano.
            add(theirs, task.kind.request, -1)
            if my_share <= dominant_share(theirs, self.total):
                victims.append(task)
        return victims


class HierarchicalDrf(Drf):
    """Orders queues too, by the tree of their annotations."""

    judges_by = "pod"

    def __init__(self) -> None:
        super().__init__()
        self._tree = ShareTree()

    def opened(self, session: Session) -> None:
        if session.queues_changed or self.session is None:
            self._tree.replant(session.queues)
        super().opened(session)
        self._tree.rebase(session, self.total)

    def move(self, key: JobKey, request: Amounts, count: int) -> None:
        super().move(key, request, count)
        self._tree.move(key, request, count)

    def queue_order(self, queue: QueueInfo) -> SortKey:
        return self._tree.order(queue.name)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Who, once gone, leaves its queue no worse off than the taker's is with what it takes."""
        session = self.session
        if session is None:
            return None
        tree, mine = self._tree, claim.contender
        tree.move(mine.key, claim.request, 1)
        victims: list[Task] = []
        for task in candidates:
            job = session.jobs.get(task.job)
            if job is None:
                continue
            tree.move(task.job, task.kind.request, -1)
            if tree.shares(mine.queue) <= tree.shares(session.queue_of(job)):
                victims.append(task)
            else:
                tree.move(task.job, task.kind.request, 1)
        for task in victims:
            tree.move(task.job, task.kind.request, 1)
        tree.move(mine.key, claim.request, -1)
        return victims

    def evictable(
        self, claim: Claim, candidates: Sequence[Task], *, reclaiming: bool
    ) -> Sequence[Task] | None:
        """Volcano's has no say here; then gangs take each other's room for ever."""
        return self.reclaimable(claim, candidates) if reclaiming else None


def build(arguments: Mapping[str, Any]) -> Drf:
    return HierarchicalDrf() if read_arguments(NAME, Args, arguments).hierarchy else Drf()
