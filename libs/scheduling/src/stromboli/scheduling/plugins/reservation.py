"""A large job that waits gets a date; smaller ones start only if they do not put it off.

Ours, off by default (backfilling with one reservation). The first job that finds no place is
promised the moment at which, by their estimates, enough running jobs will have ended. Another
job may start if it ends before that moment, or takes only what is left over then. Amounts of the
whole cluster are compared, not of nodes: a date is a promise to try, not a seat.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Refusal
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey, TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import PODS, added
from stromboli.scheduling.run_times import RunTimes
from stromboli.scheduling.session import Session

if TYPE_CHECKING:
    from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "reservation"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


@dataclass(slots=True)
class _Date:
    """When the job at the head should start, and what is left over then."""

    job: JobKey
    at: float
    over: dict[str, int]


class Reservation:
    """Keeps the date of the first job that waits."""

    name = NAME

    def __init__(self) -> None:
        self._session: Session | None = None
        self._times = RunTimes()
        self._head: JobKey | None = None
        self._date: _Date | None = None

    def opened(self, session: Session) -> None:
        self._session = session
        for key in session.dirty:
            self._times.note(key, session.jobs.get(key), session.now)
        if self._head is not None and not self._still_waits(session, self._head):
            self._head = None
        self._date = self._promise(session) if self._head is not None else None

    def blocked(self, contender: Contender) -> None:
        """The first of a cycle that finds no place, unless an earlier one waits already."""
        if self._head is None and self._session is not None:
            self._head = contender.key
            self._date = self._promise(self._session)

    def how_many(self, queue: QueueInfo, contender: Contender, kind: TaskClass, want: int) -> int:
        date, session = self._date, self._session
        if date is None or session is None or contender.key == date.job:
            return want
        if self._ends_in_time(session, contender, date):
            return want
        room = [date.over.get(name, 0) // units for name, units in kind.request if name != PODS]
        return max(0, min([want, *room]))

    def why_not(self, queue: QueueInfo, contender: Contender, kind: TaskClass) -> Refusal:
        date = self._date
        name = "/".join(date.job) if date else "a larger job"
        wait_s = max(0.0, date.at - self._session.now) if date and self._session else 0.0
        return Refusal(
            "NotEnoughResources",
            f"room is reserved for {name}",
            code="ReservedFor",
            sentence=f"it would put off {name}, which should start in {wait_s:.0f} s",
        )

    def placed(self, placement: "Placement") -> None:
        self._count(placement, -1)

    def withdrawn(self, placement: "Placement") -> None:
        self._count(placement, 1)

    def evicted(self, eviction: "Eviction") -> None:
        """Room that is made for somebody is not left over."""

    def restored(self, eviction: "Eviction") -> None:
        """See above."""

    def _count(self, placement: "Placement", sign: int) -> None:
        date, session = self._date, self._session
        if date is None or session is None or placement.contender.key == date.job:
            return
        if not self._ends_in_time(session, placement.contender, date):
            for name, units in placement.kind.request:
                date.over[name] = date.over.get(name, 0) + sign * units * len(placement.tasks)

    def _ends_in_time(self, session: Session, contender: Contender, date: _Date) -> bool:
        estimate = self._times.estimate_s(contender.job)
        return estimate is not None and session.now + estimate <= date.at

    def _still_waits(self, session: Session, key: JobKey) -> bool:
        job = session.jobs.get(key)
        return (
            job is not None
            and job.is_wanted
            and job.phase == PodGroupPhase.INQUEUE
            and not job.allocated
            and bool(job.awaited)
        )

    def _promise(self, session: Session) -> _Date | None:
        """None when no estimate says when the room will be there."""
        if self._head is None:
            return None
        head = session.contender(self._head)
        missing = head.waiting[: max(1, head.job.min_member - head.ready())]
        need = {
            name: units
            for name, units in added(task.kind.request for task in missing)
            if name != PODS
        }
        names = session.nodes.resources.names
        free = {
            name: sum(max(0, units) for units in session.trial.future[row].tolist())
            for row, name in enumerate(names)
            if row < len(session.trial.future)
        }
        at = session.now
        for end, key in self._ends(session):
            if _covers(free, need):
                break
            for name, units in session.jobs[key].allocated.items():
                free[name] = free.get(name, 0) + units
            at = end
        if not _covers(free, need):
            return None
        over = {name: units - need.get(name, 0) for name, units in free.items()}
        return _Date(self._head, at, over)

    def _ends(self, session: Session) -> list[tuple[float, JobKey]]:
        """When running jobs should end; those that nothing is known of are left out."""
        found: list[tuple[float, JobKey]] = []
        for key, since in self._times.running.items():
            job = session.jobs.get(key)
            estimate = self._times.estimate_s(job) if job is not None else None
            if job is not None and job.allocated and estimate is not None:
                found.append((max(session.now, since + estimate), key))
        return sorted(found)


def _covers(have: Mapping[str, int], need: Mapping[str, int]) -> bool:
    return all(have.get(name, 0) >= units for name, units in need.items())


def build(arguments: Mapping[str, Any]) -> Reservation:
    read_arguments(NAME, Args, arguments)
    return Reservation()
