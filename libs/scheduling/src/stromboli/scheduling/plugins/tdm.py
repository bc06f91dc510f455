"""Lend nodes for some hours of the day: time division.

A node with a zone label belongs to others outside the zone's hours (UTC). Within them it may be
used, by pods that say they can be sent away again; when the hours are over, they are, a job's
budget at a time.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stromboli.api.wellknown import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, REVOCABLE_ZONE
from stromboli.scheduling.errors import BadConfiguration, BadValue
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.moments import duration_s
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.plugins.api import Claim, SortKey, Verdict, Vote
from stromboli.scheduling.pods import JobKey, Task, TaskClass, TaskStatus
from stromboli.scheduling.resources import BoolPerNode, FloatPerNode

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

NAME: Final = "tdm"

OUT_OF_HOURS: Final = "node(s) were in a zone that is not lent to the pod now"

_ZONE: Final = "tdm.revocable-zone."
_PERIOD: Final = "tdm.evict.period"
_HOURS: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)")
_FULL: Final = 100.0
_MINUTE_S: Final = 60
_DAY_S: Final = 24 * 60 * _MINUTE_S


class Tdm:
    """Zones with hours, and who may be there."""

    name = NAME
    order_is_own = True

    def __init__(self, zones: Mapping[str, tuple[int, int]], evict_every_s: float) -> None:
        self._zones = zones
        self._evict_every_s = evict_every_s
        self._evicted_at = float("-inf")
        self._active: frozenset[str] = frozenset()
        self._session: Session | None = None

    def opened(self, session: "Session") -> None:
        self._session = session
        at = datetime.fromtimestamp(session.now, UTC)
        minute = at.hour * 60 + at.minute
        self._active = frozenset(
            zone for zone, hours in self._zones.items() if _is_within(minute, *hours)
        )

    def closed(self, session: "Session") -> None:
        """Pods that may use a lent node are looked at again when hours begin or end."""
        at = self._next_change(session.now)
        for key, contender in session.contenders.items():
            waiting = (*contender.waiting, *contender.best_effort)
            if at is not None and any(task.kind.is_revocable for task in waiting):
                session.look_again(key, at)

    def _next_change(self, now: float) -> float | None:
        """When hours begin or end next; None without zones."""
        today = now - now % _DAY_S
        moments = [today + minute * _MINUTE_S for hours in self._zones.values() for minute in hours]
        return min((at if at > now else at + _DAY_S for at in moments), default=None)

    # Nodes.

    def feasible(self, kind: TaskClass, nodes: NodeTable) -> list[Verdict]:
        free = self._in_zones(nodes, frozenset({""}))
        lent = self._in_zones(nodes, self._active) if kind.is_revocable else free
        return [Verdict(OUT_OF_HOURS, free | lent)]

    def preferences(
        self, kind: TaskClass, nodes: NodeTable, feasible: BoolPerNode
    ) -> FloatPerNode | None:
        if not kind.is_revocable:
            return None
        return np.where(self._in_zones(nodes, self._active), _FULL, 0.0)

    def _in_zones(self, nodes: NodeTable, zones: frozenset[str]) -> BoolPerNode:
        return np.fromiter(
            (dict(node.labels).get(REVOCABLE_ZONE, "") in zones for node in nodes.facts),
            np.bool_,
            len(nodes),
        )

    # Jobs.

    def job_order(self, contender: Contender) -> SortKey:
        return (contender.job.is_preemptable,)

    def job_pipelined(self, contender: Contender) -> Vote:
        return Vote.PERMIT if contender.is_pipelined else Vote.REJECT

    def job_starving(self, contender: Contender) -> bool:
        job = contender.job
        return not job.is_preemptable and job.count(TaskStatus.PENDING) > 0

    # Victims.

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        """Nobody gives way to a pod that can itself be sent away."""
        if claim.contender.job.is_preemptable or claim.task.kind.is_revocable:
            return []
        return self._within_budget(
            [
                task
                for task in candidates
                if task.status is TaskStatus.RUNNING
                and task.preemptable
                and not self._zone_of(task)
            ]
        )

    def victims(self, running: Sequence[Task]) -> Sequence[Task]:
        """Those on nodes whose hours are over, at most once per period."""
        session = self._session
        if session is None:
            return []
        chosen: list[Task] = []
        lent = [task for task in running if task.preemptable and self._zone_of(task) in self._zones]
        late = [task for task in lent if self._zone_of(task) not in self._active]
        if session.now >= self._evicted_at + self._evict_every_s:
            chosen = self._within_budget(late)
            if chosen:
                self._evicted_at = session.now
        again = self._evicted_at + self._evict_every_s
        at = again if late and again > session.now else self._next_change(session.now)
        for key in {task.job for task in lent}:
            if at is not None:
                session.look_again(key, at)
        return chosen

    def _zone_of(self, task: Task) -> str:
        session = self._session
        slot = session.nodes.slot(task.node) if session is not None else None
        if session is None or slot is None:
            return ""
        return dict(session.nodes.facts[slot].labels).get(REVOCABLE_ZONE, "")

    def _within_budget(self, tasks: Sequence[Task]) -> list[Task]:
        left: dict[JobKey, int] = {}
        chosen: list[Task] = []
        for task in tasks:
            job = self._session.jobs.get(task.job) if self._session is not None else None
            budget = left.get(task.job)
            if budget is None:
                budget = _budget(job) if job is not None else 1
            if budget > 0:
                chosen.append(task)
            left[task.job] = max(0, budget - 1)
        return chosen


def _budget(job: Job) -> int:
    """How many pods a job can do without at the moment."""
    running = job.count(TaskStatus.RUNNING)
    most_away = job.annotations.get(JDB_MAX_UNAVAILABLE, "")
    if most_away:
        finished = job.count(TaskStatus.SUCCEEDED, TaskStatus.FAILED)
        away = len(job.tasks) - finished - running
        return max(0, _amount(most_away, len(job.tasks)) - away)
    least = job.annotations.get(JDB_MIN_AVAILABLE, "")
    if least and running >= _amount(least, len(job.tasks)):
        return running - _amount(least, len(job.tasks))
    return 1


def _amount(text: str, of: int) -> int:
    """A number, or a percentage rounded up; nonsense, which admission refuses, is 0."""
    number = text.removesuffix("%")
    if not number.isdecimal():
        return 0
    return ceil(int(number) * of / 100) if text.endswith("%") else int(number)


def _is_within(minute: int, start: int, end: int) -> bool:
    """Hours that end where or before they start go on into the next day."""
    return start <= minute < end if start < end else minute >= start or minute < end


def build(arguments: Mapping[str, Any]) -> Tdm:
    zones: dict[str, tuple[int, int]] = {}
    period_s = 60.0
    for name, given in arguments.items():
        if name.startswith(_ZONE) and len(name) > len(_ZONE):
            zones[name.removeprefix(_ZONE)] = _hours(name, str(given))
        elif name == _PERIOD:
            period_s = _period(str(given))
        else:
            raise BadConfiguration(f"the argument of {NAME}", name, [f"{_ZONE}<zone>", _PERIOD])
    return Tdm(zones, period_s)


def _hours(name: str, given: str) -> tuple[int, int]:
    match = _HOURS.fullmatch(given.strip())
    if match is None:
        raise BadValue(name, given, "hours such as 10:00-21:00")
    start_h, start_min, end_h, end_min = (int(part) for part in match.groups())
    return start_h * 60 + start_min, end_h * 60 + end_min


def _period(given: str) -> float:
    period_s = duration_s(given)
    if period_s is None or period_s <= 0:
        raise BadValue(_PERIOD, given, "a duration such as 1m")
    return period_s
