"""Which jobs a cycle looks at: those that changed, and those that something could have helped.

A job that could not be placed rests until an event of the kind that its explanation names; one
that holds room for ending pods is looked at every time, because what it holds is only held
within a cycle.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.alarms import Alarms
from stromboli.scheduling.cluster import Changes, Cluster
from stromboli.scheduling.explain import Explanation, Unblock
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.queue_waits import QueueWaits, Wait
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.sleeping import Sleepers

__all__ = ["Attention"]


_LACKING_ROOM = frozenset({Unblock.CAPACITY, Unblock.SHARE, Unblock.TOPOLOGY})


@dataclass(slots=True)
class Attention:
    """Who is awake."""

    cluster: Cluster
    _sleepers: Sleepers = field(default_factory=Sleepers)
    _holding: dict[JobKey, None] = field(default_factory=dict[JobKey, None])
    _alarms: Alarms = field(default_factory=Alarms)
    _queue_waits: QueueWaits = field(default_factory=QueueWaits)

    def awake(self, changes: Changes, now: float, *, everything: bool) -> list[JobKey]:
        """The jobs to look at now, by name."""
        if everything or changes.everything:
            self._sleepers.wake_all()
            self._queue_waits.clear()
            self._alarms.ring(now)
            return sorted(self.cluster.jobs)
        awake = dict(changes.jobs)
        awake.update(self._holding)
        awake.update(dict.fromkeys(self._alarms.ring(now)))
        awake.update(dict.fromkeys(self._helped(changes)))
        for key in awake:
            self._wake(key)
        return sorted(awake)

    def refused_before(self, changes: Changes, has_room: Callable[[Wait], bool]) -> list[JobKey]:
        """Jobs that their queue refused and that could be luckier now, by name.

        Plugins can answer that only when the cycle has opened, hence not with all others.
        """
        return sorted(self._queue_waits.wake_if(has_room)) if _moves_shares(changes) else []

    def _wake(self, job: JobKey) -> None:
        self._sleepers.wake(job)
        self._queue_waits.drop(job)

    def _helped(self, changes: Changes) -> list[JobKey]:
        kinds: list[Unblock] = []
        if changes.nodes:
            kinds.append(Unblock.NODES)
        if changes.nodes or changes.capacity or changes.company:
            kinds.append(Unblock.COMPANY)
        if changes.capacity:
            kinds += [Unblock.CAPACITY, Unblock.TOPOLOGY]
        if changes.claims or changes.capacity:
            kinds.append(Unblock.ADMISSION)
        if changes.queues:
            kinds.append(Unblock.QUEUE)
        if _moves_shares(changes):
            kinds += [Unblock.SHARE, Unblock.TURN]
        if kinds or changes.started:
            kinds.append(Unblock.VICTIMS)
        if changes.volumes:
            kinds.append(Unblock.VOLUMES)
        return self._sleepers.wake_if(kinds, self._could_be_met) if kinds else []

    def _could_be_met(self, need: Amounts) -> bool:
        """Whether the whole cluster has that much free, or will have."""
        if not need:
            return True
        nodes = self.cluster.nodes
        nodes.settle()
        for name, units in need:
            row = nodes.resources.row(name)
            if row >= len(nodes.allocatable):
                return False
            free = nodes.idle[row] + nodes.releasing[row]
            if units > int(np.maximum(free, 0).sum()):
                return False
        return True

    def rest(
        self, job: JobKey, explanation: Explanation | None, *, holding: bool, evicts: bool = False
    ) -> None:
        """The job was looked at; until when need nobody do so again?

        Where jobs may take room from others, one that lacks room has more to wait for.
        """
        self._holding.pop(job, None)
        self._queue_waits.drop(job)
        if holding:
            self._holding[job] = None
        elif evicts and explanation is not None and explanation.unblock in _LACKING_ROOM:
            self._sleepers.sleep(job, Unblock.VICTIMS, ())
        elif explanation is not None and explanation.queue:
            self._sleepers.wake(job)
            admitted = self.cluster.jobs[job].phase != PodGroupPhase.PENDING
            wait = Wait(explanation.queue, explanation.need, admitted)
            self._queue_waits.put(job, wait)
        elif explanation is not None and explanation.unblock not in {Unblock.JOB, Unblock.TIME}:
            self._sleepers.sleep(job, explanation.unblock, explanation.need)

    def wake_those(self, wanted: Callable[[JobKey], bool]) -> list[JobKey]:
        asleep = (*self._sleepers.jobs(), *self._queue_waits.jobs())
        woken = [key for key in asleep if wanted(key)]
        for key in woken:
            self._wake(key)
        return woken

    def look_at(self, job: JobKey, at: float) -> None:
        self._alarms.put(job, at)

    @property
    def next_look(self) -> float:
        return self._alarms.next

    def forget(self, job: JobKey) -> None:
        self._wake(job)
        self._holding.pop(job, None)
        self._alarms.forget(job)


def _moves_shares(changes: Changes) -> bool:
    return (changes.capacity or changes.claims or changes.nodes or changes.others) or bool(
        changes.queues
    )
