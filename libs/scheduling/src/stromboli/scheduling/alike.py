"""Which jobs are alike, so that looking at the first of them is looking at all of them.

Alike are jobs of one queue that hold nothing yet and ask for the same pods, all of one class.
That the first gets nothing then says that nobody after it does, because within one action room
and the rights of queues only shrink (`allocate`, `enqueue`), or because nothing has changed in
between (`preempt`, `reclaim`). Where a plugin judges jobs by more than that, or an order moves
with what others get, nobody is alike. Nor is who cares about neighbours, volumes or the network,
or has pods of several classes: whether such a gang fits is also luck.
"""

from typing import Final

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.panel import Panel
from stromboli.scheduling.pods import TaskStatus
from stromboli.scheduling.session import Session
from stromboli.scheduling.sleeping import Like, Rank

__all__ = ["Alike"]

_MAKING_ROOM: Final = ("preempt", "reclaim")
_KNOWN: Final = frozenset({"enqueue", "allocate", "backfill", *_MAKING_ROOM})


class Alike:
    """What one configuration has to say about it."""

    def __init__(self, panel: Panel, actions: tuple[str, ...]) -> None:
        self._is_of_use = (
            panel.is_even_handed
            and panel.orders_are_own
            and _are_in_order(actions)
            and (panel.judges_alike or not set(_MAKING_ROOM) & set(actions))
        )

    def rank(self, session: Session, contender: Contender) -> Rank | None:
        """As the job waits now; None: it is like nobody."""
        like = self.like(session, contender)
        return None if like is None else Rank(like, session.job_order(contender)[1:])

    def like(self, session: Session, contender: Contender) -> Like | None:
        job, waiting = contender.job, contender.waiting
        if (
            not self._is_of_use
            or job.pod_group is None
            or job.grouping is not None
            or job.is_tied_to_network
            or job.min_member < 1
            or contender.kept
            or contender.key in session.first
            or contender.queue not in session.queues
            or session.queue(contender).strict_order
            or len(waiting) != len(job.tasks)
            or job.by_status.get(TaskStatus.PENDING, 0) != len(job.tasks)
            or not _are_of_one_kind(session, contender)
        ):
            return None
        first = waiting[0] if waiting else None
        return Like(
            queue=contender.queue,
            phase=contender.phase,
            namespace=job.key[0],
            priority=job.priority,
            min_member=job.min_member,
            min_resources=job.min_resources,
            minimums=tuple(sorted(job.pod_group.spec.min_task_member.items())),
            kind=first.kind if first else None,
            role=first.role if first else "",
            pods=len(waiting),
            pod_priority=first.priority if first else 0,
            may_preempt=first.may_preempt if first else True,
        )


def _are_of_one_kind(session: Session, contender: Contender) -> bool:
    waiting, nominated = contender.waiting, session.nominated
    if not waiting:
        return True
    first = waiting[0]
    return all(
        task.kind == first.kind
        and task.role == first.role
        and task.priority == first.priority
        and task.may_preempt == first.may_preempt
        and task.uid not in nominated
        for task in waiting
    ) and not session.choosing.neighbours.concern_any(waiting)


def _are_in_order(actions: tuple[str, ...]) -> bool:
    """Whether jobs are admitted before they are placed, and others make room only after that."""
    if "allocate" not in actions or not _KNOWN.issuperset(actions):
        return False
    if len(set(actions)) != len(actions):
        return False
    at = actions.index("allocate")
    return "enqueue" not in actions[at:] and not set(_MAKING_ROOM) & set(actions[:at])
