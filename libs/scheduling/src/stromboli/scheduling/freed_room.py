"""Room that others were told to leave belongs to the pods that they left it for.

Making room takes time, and until it is there each cycle decides anew. Without memory anybody may
take what comes free, often the next pod of the very job that left it, and somebody is evicted
again, for ever. So the pods that wait on a node where others make room for them hold it, from the
first action of a cycle that gives out room until their own turn, which is before all queues.
Their claim is gone with the turn in which they can't use the room, and with the pods themselves.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.resources import tallied
from stromboli.scheduling.trial import Placement

if TYPE_CHECKING:
    from stromboli.scheduling.jobs import Contender
    from stromboli.scheduling.pods import JobKey, Task
    from stromboli.scheduling.session import Session

__all__ = ["FreedRoom"]


class FreedRoom:
    """Who holds what in one cycle."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._held: dict[JobKey, list[Placement]] = {}
        self._came_first: dict[JobKey, None] = {}
        """Jobs that have the first turns only because of this."""
        self._is_kept = False

    def keep(self) -> None:
        """From here on nobody else takes the room; to be called by whatever gives out room."""
        session = self._session
        if self._is_kept:
            return
        self._is_kept = True
        if not session.nominated:
            return
        claimants = [one for one in session.contenders.values() if self._claims(one)]
        if claimants:
            session.expect_releases()
        for contender in sorted(claimants, key=session.job_order):
            self._hold(contender, [*contender.waiting, *contender.best_effort])

    def _claims(self, contender: "Contender") -> bool:
        session = self._session
        return (
            contender.phase != PodGroupPhase.PENDING
            and any(
                t.uid in session.nominated for t in (*contender.waiting, *contender.best_effort)
            )
            and session.panel.invalid(contender) is None
        )

    def _hold(self, contender: "Contender", tasks: Sequence["Task"]) -> None:
        session = self._session
        held: list[Task] = []
        for _, alike in groupby(
            (task for task in tasks if task.uid in session.nominated),
            key=lambda task: (task.kind, task.role),
        ):
            batch = list(alike)
            if self._hold_all(contender, batch):
                held += batch
            elif len(batch) > 1:
                held += [task for task in batch if self._hold_all(contender, [task])]
        if held:
            uids = {task.uid for task in held}
            contender.best_effort = [t for t in contender.best_effort if t.uid not in uids]
            contender.keep([task for task in contender.waiting if task.uid not in uids])
            if contender.key not in self._session.first:
                self._came_first[contender.key] = None
                self._session.first.add(contender.key)

    def _hold_all(self, contender: "Contender", tasks: Sequence["Task"]) -> bool:
        """Whether these, of one class and role, hold the room that was made for them now."""
        session, kind = self._session, tasks[0].kind
        found = [session.nodes.slot(session.nominated[task.uid]) for task in tasks]
        slots = np.array([slot for slot in found if slot is not None], dtype=np.int64)
        if len(slots) < len(tasks):
            return False
        request = session.nodes.resources.vector(kind.request)
        where, times = tallied(slots)
        room = session.trial.future[: len(request), where]
        is_there = (
            session.choosing.outlook(contender, kind).feasible[where].all()
            and (room >= request[:, None] * times).all()
        )
        if not is_there:
            return False
        placement = Placement(contender, kind, request, tuple(tasks), slots, pipelined=True)
        session.trial.apply(placement)
        self._held.setdefault(contender.key, []).append(placement)
        return True

    # A turn.

    def holds(self, contender: "Contender", *, small: bool) -> bool:
        """Whether pods of it hold room that ask for more than a place, or for a place alone."""
        held = self._held.get(contender.key) if self._held else None
        return held is not None and any(one.kind.is_best_effort is small for one in held)

    def release(self, contender: "Contender", *, only_small: bool = False) -> list["Task"]:
        """It is the job's turn: these pods wait again, and come before its others."""
        if contender.key not in self._held:
            return []
        placements = self._held.pop(contender.key)
        if only_small:
            rest = [one for one in placements if not one.kind.is_best_effort]
            placements = [one for one in placements if one.kind.is_best_effort]
            if rest:
                self._held[contender.key] = rest
        for placement in reversed(placements):
            self._session.trial.withdraw(placement)
        tasks = [task for placement in placements for task in placement.tasks]
        if tasks:
            contender.wait_again(tasks)
        if contender.key in self._came_first and contender.key not in self._held:
            # What it wants beyond that has its turn as everybody's.
            del self._came_first[contender.key]
            self._session.first.discard(contender.key)
        return tasks

    def keep_small(self, contender: "Contender", released: Sequence["Task"]) -> None:
        """Its turn was not about those that ask for a place alone, and it may go on."""
        waiting = {task.uid for task in contender.best_effort}
        self._hold(contender, [task for task in released if task.uid in waiting])

    @property
    def still_held(self) -> "Mapping[JobKey, Sequence[Placement]]":
        """By jobs that have had no turn."""
        return self._held
