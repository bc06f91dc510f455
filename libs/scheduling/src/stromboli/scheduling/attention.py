"""Which jobs a cycle looks at: those that changed, and those that something could have helped.

A job that could not be placed rests until an event of the kind that its explanation names; one
that holds room for ending pods is looked at every time, because what it holds is only held
within a cycle.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.alarms import Alarms
from stromboli.scheduling.cluster import Changes, Cluster
from stromboli.scheduling.explain import Explanation, Unblock
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.sleeping import Crowd, Rank, Sleepers, Until, Wait

__all__ = ["Attention"]


_LACKING_ROOM = frozenset(
    {Unblock.CAPACITY, Unblock.SHARE, Unblock.LIMIT, Unblock.TOPOLOGY, Unblock.RESERVATION}
)


@dataclass(slots=True)
class Attention:
    """Who is awake."""

    cluster: Cluster
    called: list[Crowd[Any]] = field(default_factory=list[Crowd[Any]])
    """Jobs that are alike and could be helped now: they sleep on until the first of them is."""
    _sleepers: Sleepers[Until] = field(default_factory=Sleepers[Until])
    _holding: dict[JobKey, None] = field(default_factory=dict[JobKey, None])
    _alarms: Alarms = field(default_factory=Alarms)
    _queue_waits: Sleepers[Wait] = field(default_factory=Sleepers[Wait])

    def awake(self, changes: Changes, now: float) -> list[JobKey]:
        """The jobs to look at now, by name; and of those that are `called` the first."""
        self.called = []
        if changes.everything:
            self._sleepers.clear()
            self._queue_waits.clear()
            self._alarms.ring(now)
            return sorted(self.cluster.jobs)
        awake = dict(changes.jobs)
        awake.update(self._holding)
        awake.update(dict.fromkeys(self._alarms.ring(now)))
        awake.update(dict.fromkeys(self._helped(changes)))
        self.wake(awake)
        return sorted(awake)

    def refused_before(self, changes: Changes, has_room: Callable[[Wait], bool]) -> list[JobKey]:
        """Jobs that their queue refused and that could be luckier now, by name.

        Plugins can answer that only when the cycle has opened, hence not with all others.
        """
        if not _moves_shares(changes):
            return []
        woken, called = self._queue_waits.wake_if(has_room)
        return sorted([*woken, *self._call(called, changes)])

    def _call(self, crowds: list[Crowd[Any]], changes: Changes) -> list[JobKey]:
        """Who is awake although others are like it: all, where a queue has new rules."""
        if changes.queues:
            return [job for crowd in crowds for job in crowd.wake_all()]
        self.called += crowds
        return []

    def is_called(self, job: JobKey) -> bool:
        """Whether it sleeps, and one that is like it is awake on behalf of it."""
        crowd = self._sleepers.crowd_of(job) or self._queue_waits.crowd_of(job)
        return crowd is not None and crowd in self.called

    def wake(self, jobs: Iterable[JobKey]) -> None:
        for job in jobs:
            self._wake(job)

    def _wake(self, job: JobKey) -> None:
        self._sleepers.drop(job)
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
            kinds += [Unblock.QUEUE, Unblock.QUEUE_MENDED, Unblock.LEAF]
        if _moves_shares(changes):
            # A limit too: a job may have smaller pods than the one that is beyond it.
            kinds += [Unblock.SHARE, Unblock.LIMIT, Unblock.TURN, Unblock.RESERVATION]
        if kinds or changes.started:
            kinds.append(Unblock.VICTIMS)
        if changes.volumes:
            kinds.append(Unblock.VOLUMES)
        if not kinds:
            return []
        woken, called = self._sleepers.wake_if(
            lambda until: until.unblock in kinds and self._could_be_met(until.need)
        )
        return [*woken, *self._call(called, changes)]

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
        self,
        job: JobKey,
        explanation: Explanation | None,
        rank: Rank | None,
        *,
        holding: bool,
        evicts: bool = False,
    ) -> None:
        """The job was looked at; until when need nobody do so again?

        Where jobs may take room from others, one that lacks room has more to wait for.
        """
        self._holding.pop(job, None)
        self._queue_waits.drop(job)
        if holding:
            self._holding[job] = None
        elif evicts and explanation is not None and explanation.unblock in _LACKING_ROOM:
            self._sleepers.put(job, Until(Unblock.VICTIMS, ()), rank)
        elif explanation is not None and explanation.queue:
            self._sleepers.drop(job)
            admitted = self.cluster.jobs[job].phase != PodGroupPhase.PENDING
            wait = Wait(explanation.queue, explanation.need, admitted)
            self._queue_waits.put(job, wait, rank)
        elif explanation is not None and explanation.unblock not in {Unblock.JOB, Unblock.TIME}:
            self._sleepers.put(job, Until(explanation.unblock, explanation.need), rank)

    def follow(self, crowd: Crowd[Any], last: JobKey, now: float) -> None:
        """Who slept on waits for the same as the last one like them that got nothing."""
        if _moved(crowd, last, self._sleepers) or _moved(crowd, last, self._queue_waits):
            return
        for job in crowd.wake_all():
            self.look_at(job, now)

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


def _moved(crowd: Crowd[Any], last: JobKey, home: Sleepers[Any]) -> bool:
    """Whether the job sleeps here as one of the crowd, which then is here too."""
    reason, rank = home.place_of(last) or (None, None)
    if rank is None or rank.like != crowd.like:
        return False
    if home is not crowd.home or reason != crowd.reason:
        line = list(crowd.line)
        crowd.wake_all()
        home.put_all(line, reason, crowd.like)
    return True
