"""Jobs that nobody needs to look at until something happens that could help them.

Ten thousand jobs that wait for room cost nothing while no room comes free. Whether something
that happened could help is found out once for all that wait for the same. Of those that are
also alike it is enough to look at the first by its turn: if that one gets nothing, nor does any
that asks for the same after it. So they stand in line, and the others sleep on.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from stromboli.scheduling.explain import Unblock
from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.pods import JobKey, TaskClass
from stromboli.scheduling.resources import Amounts

__all__ = ["Crowd", "Like", "Rank", "Sleepers", "Until", "Wait"]

R = TypeVar("R", bound=Hashable)

_InLine: TypeAlias = tuple[SortKey, JobKey]


class Until(NamedTuple):
    """What a job waits for in the cluster."""

    unblock: Unblock
    need: Amounts
    """What must be free before it is worth a look."""


class Wait(NamedTuple):
    """What a job that its queue refused waits for there."""

    queue: str
    need: Amounts
    """Empty: any room at all."""
    admitted: bool


class Like(NamedTuple):
    """All that decides about a job that holds nothing, but for its turn."""

    queue: str
    phase: str
    namespace: str
    priority: int
    min_member: int
    min_resources: Amounts
    minimums: tuple[tuple[str, int], ...]
    kind: TaskClass | None
    """Of all its pods; None when it has none yet."""
    role: str
    pods: int
    pod_priority: int
    may_preempt: bool


class Rank(NamedTuple):
    """Whom a job is like, and when its turn comes among them."""

    like: Like
    turn: SortKey


@dataclass(slots=True, eq=False)
class Crowd(Generic[R]):
    """Jobs that are alike and wait for the same, in the order of their turns."""

    home: "Sleepers[R]"
    reason: R
    like: Like
    line: list[_InLine] = field(default_factory=list[_InLine])

    def wake_next(self, after: SortKey | None = None) -> JobKey | None:
        """The first whose turn comes after this one."""
        at = 0 if after is None else bisect_right(self.line, after, key=lambda place: place[0])
        if at == len(self.line):
            return None
        _, job = self.line[at]
        self.home.drop(job)
        return job

    def wake_all(self) -> list[JobKey]:
        woken = [job for _, job in self.line]
        self.home.disband(self)
        return woken


@dataclass(slots=True)
class _Same(Generic[R]):
    """Who waits for one thing."""

    alone: dict[JobKey, None] = field(default_factory=dict[JobKey, None])
    crowds: dict[Like, Crowd[R]] = field(default_factory=dict[Like, Crowd[R]])


@dataclass(slots=True)
class Sleepers(Generic[R]):
    """Who sleeps, and what each waits for."""

    _asleep: dict[JobKey, tuple[R, Rank | None]] = field(
        default_factory=dict[JobKey, tuple[R, Rank | None]]
    )
    _by_reason: dict[R, _Same[R]] = field(default_factory=dict[R, _Same[R]])

    def __len__(self) -> int:
        return len(self._asleep)

    def jobs(self) -> list[JobKey]:
        return list(self._asleep)

    def place_of(self, job: JobKey) -> tuple[R, Rank | None] | None:
        """What the job waits for, and whom it is like, if anybody."""
        return self._asleep.get(job)

    def crowd_of(self, job: JobKey) -> Crowd[R] | None:
        """Those that it sleeps with and that are like it, if any can be."""
        reason, rank = self._asleep.get(job, (None, None))
        if reason is None or rank is None:
            return None
        return self._by_reason[reason].crowds[rank.like]

    def put(self, job: JobKey, reason: R, rank: Rank | None = None) -> None:
        self.drop(job)
        self._asleep[job] = (reason, rank)
        if rank is None:
            self._same(reason).alone[job] = None
        else:
            insort(self._crowd(reason, rank.like).line, (rank.turn, job))

    def put_all(self, line: list[_InLine], reason: R, like: Like) -> None:
        """Jobs that are alike, none of which sleeps here."""
        self._asleep.update({job: (reason, Rank(like, turn)) for turn, job in line})
        standing = self._crowd(reason, like).line
        standing += line
        standing.sort()

    def drop(self, job: JobKey) -> None:
        reason, rank = self._asleep.pop(job, (None, None))
        if reason is None:
            return
        same = self._by_reason[reason]
        if rank is None:
            del same.alone[job]
        else:
            line = same.crowds[rank.like].line
            del line[bisect_left(line, (rank.turn, job))]
            if not line:
                del same.crowds[rank.like]
        self._tidy(reason, same)

    def disband(self, crowd: Crowd[R]) -> None:
        """Nobody of the crowd sleeps any more."""
        if not crowd.line:
            return
        for _, job in crowd.line:
            del self._asleep[job]
        crowd.line.clear()
        same = self._by_reason[crowd.reason]
        del same.crowds[crowd.like]
        self._tidy(crowd.reason, same)

    def clear(self) -> None:
        self._asleep.clear()
        self._by_reason.clear()

    def wake_if(self, worth_a_look: Callable[[R], bool]) -> tuple[list[JobKey], list[Crowd[R]]]:
        """Wake who is like nobody and waits for one of these; crowds are called, and sleep on."""
        woken: list[JobKey] = []
        called: list[Crowd[R]] = []
        for reason, same in self._by_reason.items():
            if worth_a_look(reason):
                woken += same.alone
                called += same.crowds.values()
        for job in woken:
            self.drop(job)
        return woken, called

    def _same(self, reason: R) -> _Same[R]:
        return self._by_reason.setdefault(reason, _Same())

    def _crowd(self, reason: R, like: Like) -> Crowd[R]:
        crowds = self._same(reason).crowds
        crowd = crowds.get(like)
        if crowd is None:
            crowd = crowds[like] = Crowd(self, reason, like)
        return crowd

    def _tidy(self, reason: R, same: _Same[R]) -> None:
        if not same.alone and not same.crowds:
            del self._by_reason[reason]
