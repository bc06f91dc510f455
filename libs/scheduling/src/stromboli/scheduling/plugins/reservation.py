"""A large job that waits gets a date; smaller ones start only if they do not put it off.

Ours, off by default (backfilling with one reservation). The first job that finds no place is
promised the moment at which, by their estimates, enough running jobs will have left the nodes
that it can use, and a seat there for each of its pods; and its queue, where that is what it waits
for. Another job may start if it ends before that moment, or where it stays off these seats: on
every node, and in that queue, it has what is left over then. Where nobody knows when anything
ends there is no date, and nobody is held up.
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
from stromboli.scheduling.resources import (
    Amounts,
    BoolPerNode,
    IntMatrix,
    IntVector,
    tallied,
)
from stromboli.scheduling.run_times import RunTimes
from stromboli.scheduling.session import Session

if TYPE_CHECKING:
    from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "reservation"

RESERVED: Final = "node(s) were reserved for a job that waits"

_Wish: TypeAlias = tuple[IntVector, BoolPerNode, int]
"""What a pod asks for, the nodes that suit it, and how many such pods there are."""


_NOWHERE: Final[IntVector] = np.zeros(0, dtype=np.int64)
_PLENTY: Final = 1 << 60
"""More than anybody asks for."""


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


@dataclass(frozen=True, slots=True)
class _Left:
    """Pods of one job that are alike, and when they end."""

    at: float
    queue: str
    slots: IntVector
    request: IntVector
    """Of each of them."""


@dataclass(slots=True)
class _Date:
    """When the job at the head should start, and what is left over from then on."""

    job: JobKey
    queue: str
    at: float
    over: IntMatrix
    """On each node."""
    spare: IntVector | None
    """In the job's queue; None where the queue does not hold it up."""

    def room(self, contender: Contender, request: IntVector, want: int) -> int:
        """How many such pods of another job would put it off in nothing."""
        everywhere = np.ones(self.over.shape[1], dtype=np.bool_)
        seats = np.minimum(capacities(self.over, request, everywhere), want).sum()
        if self.spare is None or contender.queue != self.queue:
            return int(min(want, seats))
        asked = np.flatnonzero(request)
        fits = (np.maximum(self.spare[asked], 0) // request[asked]).min(initial=want)
        return int(min(want, seats, fits))

    def take(self, placement: "Placement", sign: int) -> None:
        rows = len(placement.request)
        slots, times = tallied(placement.slots)
        self.over[:rows, slots] += sign * placement.request[:, None] * times[None, :]
        if self.spare is not None and placement.contender.queue == self.queue:
            self.spare[:rows] += sign * placement.request * len(placement.slots)


class Reservation:
    """Keeps the date of the first job that waits."""

    name = NAME

    def __init__(self) -> None:
        self._session: Session | None = None
        self._times = RunTimes()
        self._head: JobKey | None = None
        self._lacking: Amounts = ()
        """What its queue was short of when the job last had its turn."""
        self._used_then: IntVector = _NOWHERE
        """And what its queue used at that moment."""
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

    def blocked(self, contender: Contender, lacking: Amounts) -> None:
        """The first that finds no place, unless an earlier one waits already."""
        if self._session is None:
            return
        if self._head is None or self._has_begun(self._session, self._head):
            self._head, self._known = contender.key, None
        if self._head == contender.key:
            self._lacking, self._known = lacking, None
            self._used_then = self._used(self._session, contender.queue) if lacking else _NOWHERE

    # Who else may start.

    def how_many(self, queue: QueueInfo, contender: Contender, kind: TaskClass, want: int) -> int:
        date, session = self._date_against(contender), self._session
        if date is None or session is None:
            return want
        return date.room(contender, session.nodes.resources.vector(kind.request), want)

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
        if self._has_begun(session, self._head):
            return None
        if session.nominated and not session.nominated.keys().isdisjoint(contender.job.tasks):
            return None  # others have left their room for it, and for nobody else
        if self._known is None:
            self._known = (self._promise(session, self._head),)
        (date,) = self._known
        if date is None or self._ends_in_time(session, contender, date):
            return None
        return date

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
        date.take(placement, sign)

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
        head = session.contender(key)
        wishes = _wishes(session, head)
        lacking = self._lacking_now(session, head.queue)
        ends = sorted(self._ends(session), key=lambda left: left.at)
        leaving = _Leaving(session.trial.future, ends, head.queue)
        number = leaving.first_with_room(wishes, lacking)
        if number is None:
            return None
        at = ends[number - 1].at if number else session.now
        by_then = sum(left.at <= at for left in ends)
        free = leaving.after(by_then)
        seats = _seats(free, wishes)
        if seats is None:
            return None
        spare = leaving.returned(by_then) - lacking if self._lacking else None
        return _Date(key, head.queue, at, free - seats, spare)

    def _lacking_now(self, session: Session, queue: str) -> IntVector:
        """Since then others of the queue may have begun or ended; what it has enough of is free."""
        resources = session.nodes.resources
        lacking = np.full(len(resources), -_PLENTY, dtype=np.int64)
        if self._lacking:
            grown = self._used(session, queue)
            grown[: len(self._used_then)] -= self._used_then
            for name, units in self._lacking:
                row = resources.row(name)
                lacking[row] = units + grown[row]
        return lacking

    def _used(self, session: Session, queue: str) -> IntVector:
        """By the queue's pods, those included that this cycle has placed."""
        resources = session.nodes.resources
        used = np.zeros(len(resources), dtype=np.int64)
        for job in session.jobs.values():
            if job.allocated and session.queue_of(job) == queue:
                for name, units in job.allocated.items():
                    used[resources.row(name)] += units
        for placement in self._begun:
            if placement.contender.queue == queue:
                used[: len(placement.request)] += placement.request * len(placement.slots)
        return used

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
            queue = session.contender(key).queue
            found += [
                _Left(
                    at=end,
                    queue=queue,
                    slots=np.array(slots, dtype=np.int64),
                    request=nodes.resources.vector(kind.request),
                )
                for kind, slots in by_kind.items()
            ]
        for placement in self._begun:
            estimate = self._times.estimate_s(placement.contender.job)
            if estimate is not None:
                end, queue = session.now + estimate, placement.contender.queue
                found.append(_Left(end, queue, placement.slots, placement.request))
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

    def __init__(self, free: IntMatrix, ends: Sequence[_Left], queue: str) -> None:
        self._free = free
        self._upto = np.cumsum([len(left.slots) for left in ends], dtype=np.int64)
        self._slots = np.concatenate([left.slots for left in ends] or [_NOWHERE])
        self._requests = np.zeros((len(free), len(self._slots)), dtype=np.int64)
        returned = np.zeros((len(free), len(ends) + 1), dtype=np.int64)
        start = 0
        for number, (left, end) in enumerate(zip(ends, self._upto.tolist(), strict=True), 1):
            rows = len(left.request)
            self._requests[:rows, start:end] = left.request[:, None]
            if left.queue == queue:
                returned[:rows, number] = left.request * len(left.slots)
            start = end
        self._returned = returned.cumsum(axis=1)

    def after(self, number: int) -> IntMatrix:
        """What is free when so many have ended."""
        pods = int(self._upto[number - 1]) if number else 0
        slots = self._slots[:pods]
        freed = [
            np.bincount(slots, weights=row[:pods], minlength=self._free.shape[1])
            for row in self._requests
        ]
        return self._free + np.array(freed).astype(np.int64).reshape(self._free.shape)

    def returned(self, number: int) -> IntVector:
        """What the queue has back when so many have ended."""
        return self._returned[:, number]

    def first_with_room(self, wishes: Sequence[_Wish], lacking: IntVector) -> int | None:
        """How many must have ended until these pods fit; each that ends only adds to the room."""
        low, high = 0, len(self._upto)
        if not self._has_room(high, wishes, lacking):
            return None
        while low < high:
            middle = (low + high) // 2
            if self._has_room(middle, wishes, lacking):
                high = middle
            else:
                low = middle + 1
        return low

    def _has_room(self, number: int, wishes: Sequence[_Wish], lacking: IntVector) -> bool:
        if (self.returned(number)[: len(lacking)] < lacking).any():
            return False
        return _seats(self.after(number), wishes) is not None


def build(arguments: Mapping[str, Any]) -> Reservation:
    read_arguments(NAME, Args, arguments)
    return Reservation()
