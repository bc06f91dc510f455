"""A large job that waits gets a date; smaller ones start only if they do not put it off.

Ours, off by default (backfilling with one reservation). The first job that finds no place is
promised the moment at which, by their estimates, enough running jobs will have left the nodes
that it can use, and a seat there for each of its pods. Another job may start if it ends before
that moment, or where it stays off these seats: on every node it has what is left over then.
Where nobody knows when anything ends there is no date, and nobody is held up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.jobs import ALLOCATED, Contender
from stromboli.scheduling.neighbours import Neighbours
from stromboli.scheduling.placing import capacities
from stromboli.scheduling.plugins.api import Refusal, Verdict
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey, Task, TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import BoolPerNode, IntMatrix, IntVector, tallied
from stromboli.scheduling.run_times import RunTimes
from stromboli.scheduling.session import Session

if TYPE_CHECKING:
    from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "reservation"

RESERVED: Final = "node(s) were reserved for a job that waits"

_Wish: TypeAlias = tuple[IntVector, BoolPerNode, int]
"""What a pod asks for, the nodes that suit it, and how many such pods there are."""
_Left: TypeAlias = tuple[float, IntVector, IntVector]
"""When a job ends, the slots of its pods, and what each of them asks for."""


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


@dataclass(slots=True)
class _Date:
    """When the job at the head should start, and what each node has left over from then on."""

    job: JobKey
    at: float
    over: IntMatrix


class Reservation:
    """Keeps the date of the first job that waits."""

    name = NAME

    def __init__(self) -> None:
        self._session: Session | None = None
        self._times = RunTimes()
        self._head: JobKey | None = None
        self._known: tuple[_Date | None] | None = None
        """The date, once anybody has asked for it in this cycle."""
        self._begun: list[Placement] = []
        """What this cycle has placed: it runs from now on."""

    def opened(self, session: Session) -> None:
        self._session, self._known, self._begun = session, None, []
        for key in session.dirty:
            self._times.note(key, session.jobs.get(key), session.now)
        if self._head is not None and not self._still_waits(session, self._head):
            self._head = None

    def blocked(self, contender: Contender) -> None:
        """The first that finds no place, unless an earlier one waits already."""
        if self._session is None:
            return
        if self._head is None or self._has_begun(self._session, self._head):
            self._head, self._known = contender.key, None

    # Who else may start.

    def how_many(self, queue: QueueInfo, contender: Contender, kind: TaskClass, want: int) -> int:
        date, session = self._date_against(contender), self._session
        if date is None or session is None:
            return want
        vector = session.nodes.resources.vector(kind.request)
        everywhere = np.ones(date.over.shape[1], dtype=np.bool_)
        room = np.minimum(capacities(date.over, vector, everywhere), want)
        return int(min(want, room.sum()))

    def why_not(self, queue: QueueInfo, contender: Contender, kind: TaskClass) -> Refusal:
        date = self._known[0] if self._known is not None else None
        name = "/".join(date.job) if date else "a larger job"
        wait_s = max(0.0, date.at - self._session.now) if date and self._session else 0.0
        return Refusal(
            "NotEnoughResources",
            f"room is reserved for {name}",
            code="ReservedFor",
            sentence=f"it would put off {name}, which should start in {wait_s:.0f} s",
        )

    def counts(self, contender: Contender) -> bool:
        """On which nodes there is something left over changes with every pod."""
        return self._date_against(contender) is not None

    def tolerable(self, task: Task, neighbours: Neighbours) -> list[Verdict]:
        session = self._session
        date = self._date_against(session.contender(task.job)) if session is not None else None
        if date is None or session is None:
            return []
        vector = session.nodes.resources.vector(task.kind.request)
        everywhere = np.ones(date.over.shape[1], dtype=np.bool_)
        return [Verdict(RESERVED, capacities(date.over, vector, everywhere) > 0)]

    def _date_against(self, contender: Contender) -> _Date | None:
        """The date that this job could put off."""
        session = self._session
        if session is None or self._head is None or contender.key == self._head:
            return None
        if self._known is None:
            self._known = (self._promise(session, self._head),)
        (date,) = self._known
        if date is None or self._has_begun(session, date.job):
            return None
        return None if self._ends_in_time(session, contender, date) else date

    # What the cycle does.

    def placed(self, placement: "Placement") -> None:
        self._begun.append(placement)
        self._take(placement, -1)

    def withdrawn(self, placement: "Placement") -> None:
        self._begun.remove(placement)
        self._take(placement, 1)

    def evicted(self, eviction: "Eviction") -> None:
        """Room that is made for somebody is not left over."""

    def restored(self, eviction: "Eviction") -> None:
        """See above."""

    def _take(self, placement: "Placement", sign: int) -> None:
        if self._known is None or (date := self._known[0]) is None or self._session is None:
            return
        contender = placement.contender
        if contender.key == date.job or self._ends_in_time(self._session, contender, date):
            return
        slots, times = tallied(placement.slots)
        date.over[: len(placement.request), slots] += (
            sign * placement.request[:, None] * times[None, :]
        )

    def _ends_in_time(self, session: Session, contender: Contender, date: _Date) -> bool:
        estimate = self._times.estimate_s(contender.job)
        return estimate is not None and session.now + estimate <= date.at

    # The job at the head.

    def _still_waits(self, session: Session, key: JobKey) -> bool:
        job = session.jobs.get(key)
        return (
            job is not None
            and job.is_wanted
            and job.phase == PodGroupPhase.INQUEUE
            and not job.allocated
            and bool(job.awaited)
        )

    def _has_begun(self, session: Session, key: JobKey) -> bool:
        """Whether it found its place in this cycle after all."""
        return key in session.jobs and any(session.contender(key).placed.values())

    def _promise(self, session: Session, key: JobKey) -> _Date | None:
        """None when no estimate says when the room will be there."""
        wishes = _wishes(session, session.contender(key))
        free: IntMatrix = session.trial.future.copy()
        seats = _seats(free, wishes)
        at = session.now
        if seats is None:
            ends = sorted(self._ends(session), key=lambda left: left[0])
            leaving = _Leaving(free, ends)
            number = leaving.first_with_room(wishes)
            if number is None:
                return None
            at = ends[number - 1][0]
            free = leaving.after(sum(end <= at for end, _, _ in ends))
            seats = _seats(free, wishes)
        return _Date(key, at, free - seats) if seats is not None else None

    def _ends(self, session: Session) -> list[_Left]:
        """When running jobs should have left; those that nothing is known of are left out."""
        nodes, found = session.nodes, list[_Left]()
        for key, since in self._times.running.items():
            job = session.jobs.get(key)
            estimate = self._times.estimate_s(job) if job is not None else None
            if job is None or estimate is None:
                continue
            end = max(session.now, since + estimate)
            by_kind: dict[TaskClass, list[int]] = {}
            for task in job.tasks.values():
                slot = nodes.slot(task.node) if task.status in ALLOCATED else None
                if slot is not None:
                    by_kind.setdefault(task.kind, []).append(slot)
            found += [
                (end, np.array(slots, dtype=np.int64), nodes.resources.vector(kind.request))
                for kind, slots in by_kind.items()
            ]
        for placement in self._begun:
            estimate = self._times.estimate_s(placement.contender.job)
            if estimate is not None:
                found.append((session.now + estimate, placement.slots, placement.request))
        return found


def _wishes(session: Session, head: Contender) -> list[_Wish]:
    """The pods that the job can't start without, by class."""
    missing = head.waiting[: max(1, head.job.min_member - head.ready())]
    counts: dict[TaskClass, int] = {}
    for task in missing:
        counts[task.kind] = counts.get(task.kind, 0) + 1
    outlooks = ((session.choosing.outlook(head, kind), count) for kind, count in counts.items())
    return [(outlook.vector, outlook.feasible, count) for outlook, count in outlooks]


def _seats(free: IntMatrix, wishes: Sequence[_Wish]) -> IntMatrix | None:
    """What the pods would take of each node, the first by name first; None if they do not fit."""
    seats = np.zeros_like(free)
    for vector, feasible, count in wishes:
        room = np.minimum(capacities(free - seats, vector, feasible), count)
        before = np.cumsum(room) - room
        taken = np.clip(count - before, 0, room)
        if int(taken.sum()) < count:
            return None
        seats[: len(vector)] += vector[:, None] * taken[None, :]
    return seats


class _Leaving:
    """The nodes as they will be when one job after the other has ended."""

    def __init__(self, free: IntMatrix, ends: Sequence[_Left]) -> None:
        self._free = free
        self._upto = np.cumsum([len(slots) for _, slots, _ in ends], dtype=np.int64)
        self._slots = np.concatenate([slots for _, slots, _ in ends] or [_NOWHERE])
        self._requests = np.zeros((len(free), len(self._slots)), dtype=np.int64)
        start = 0
        for (_, _, request), end in zip(ends, self._upto.tolist(), strict=True):
            self._requests[: len(request), start:end] = request[:, None]
            start = end

    def after(self, number: int) -> IntMatrix:
        """What is free when so many have ended."""
        pods = int(self._upto[number - 1]) if number else 0
        slots = self._slots[:pods]
        freed = [
            np.bincount(slots, weights=row[:pods], minlength=self._free.shape[1])
            for row in self._requests
        ]
        return self._free + np.array(freed).astype(np.int64).reshape(self._free.shape)

    def first_with_room(self, wishes: Sequence[_Wish]) -> int | None:
        """How many must have ended until these pods fit; each that ends only adds to the room."""
        low, high = 1, len(self._upto)
        if not high or _seats(self.after(high), wishes) is None:
            return None
        while low < high:
            middle = (low + high) // 2
            if _seats(self.after(middle), wishes) is None:
                low = middle + 1
            else:
                high = middle
        return low


_NOWHERE: Final[IntVector] = np.zeros(0, dtype=np.int64)


def build(arguments: Mapping[str, Any]) -> Reservation:
    read_arguments(NAME, Args, arguments)
    return Reservation()
