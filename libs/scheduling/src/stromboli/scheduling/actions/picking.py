"""Choose the node where making room hurts least, as kube-scheduler does.

Some nodes are tried out, each on trial; the one whose most important victim matters least is
taken, then the smallest sum of their priorities, then the fewest of them, then the one whose
oldest victim started last, then the first tried.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stromboli.scheduling.actions.making_room import Room
from stromboli.scheduling.actions.tenancy import Tenancy
from stromboli.scheduling.plugins.api import Claim
from stromboli.scheduling.pods import Task
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Eviction

__all__ = ["Limits", "pick_gently"]

_ACTION = "preempt"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many nodes are worth trying out."""

    percent: int
    least: int
    most: int

    def of(self, nodes: int) -> int:
        return max(self.least, min(self.most, nodes * self.percent // 100), 1)


def pick_gently(
    session: Session,
    tenancy: Tenancy,
    claim: Claim,
    slots: Iterable[int],
    *,
    victims: Callable[[int], Sequence[Task]],
    limits: Limits,
) -> bool:
    """Whether the pod waits for some node now."""
    best: tuple[Any, ...] | None = None
    chosen: tuple[int, list[Task]] | None = None
    tried = 0
    for slot in slots:
        mark = session.trial.checkpoint()
        room = Room(session, tenancy, claim, slot, _ACTION)
        if not room.make(lambda slot=slot: victims(slot)):
            continue
        gone = session.trial.evictions(mark)
        harm = _harm(gone)
        session.trial.rollback(mark)
        if best is None or harm < best:
            best, chosen = harm, (slot, [eviction.task for eviction in gone])
        tried += 1
        if tried >= limits.of(len(session.nodes)) or not gone:
            break
    if chosen is None:
        return False
    slot, tasks = chosen
    for task in tasks:
        session.evict(task, claimant=claim.contender, action=_ACTION)
    Room(session, tenancy, claim, slot, _ACTION).place()
    return True


def _harm(gone: list[Eviction]) -> tuple[Any, ...]:
    priorities = [eviction.task.priority for eviction in gone]
    started = min((eviction.task.started_at for eviction in gone), default="")
    return (
        max(priorities, default=-(1 << 62)),
        sum(priorities),
        len(gone),
        tuple(-ord(character) for character in started),
    )
