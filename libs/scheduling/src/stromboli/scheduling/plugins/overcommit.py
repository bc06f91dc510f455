"""Let no more jobs into the queue than the cluster could soon hold.

A job may create its pods when what it needs at least, together with what other admitted jobs
still wait for, fits into the cluster made a little larger (`overcommit-factor`).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.jobs import ALLOCATED, Contender, Job
from stromboli.scheduling.plugins.api import Refusal, Vote
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.resources import PODS, Amounts
from stromboli.scheduling.session import Session

NAME: Final = "overcommit"

_FACTOR: Final = 1.2


class Args(msgspec.Struct, frozen=True):
    """By Volcano's name."""

    factor: float = msgspec.field(default=_FACTOR, name="overcommit-factor")


class Overcommit:
    """Holds back jobs that could not start anyway."""

    name = NAME
    is_even_handed = True

    def __init__(self, args: Args) -> None:
        self._factor = args.factor if args.factor >= 1 else _FACTOR
        self._session: Session | None = None
        self._idle: dict[str, int] | None = None
        """What could soon be free; most cycles admit nobody and need not know."""
        self._claims: dict[JobKey, Amounts] = {}
        """What admitted jobs have a claim to and do not use yet."""
        self._claimed: dict[str, int] = {}
        self._admitted: dict[str, int] = {}
        """The claims of jobs that were admitted in this cycle."""

    def opened(self, session: Session) -> None:
        self._session, self._idle, self._admitted = session, None, {}
        for key in session.dirty:
            job = session.jobs.get(key)
            _add(self._claimed, self._claims.pop(key, ()), -1)
            claim = _still_wanted(job) if job is not None else ()
            if claim:
                self._claims[key] = claim
                _add(self._claimed, claim, 1)

    def enqueueable(self, contender: Contender) -> Vote | Refusal:
        short_by = self._short_by(contender)
        if not short_by:
            return Vote.PERMIT
        overused = ", ".join(f"overused {name}" for name, _ in short_by)
        return Refusal(
            "NotEnoughResources", f"resource in cluster is overused: {overused}", short_by
        )

    def enqueued(self, contender: Contender) -> None:
        _add(self._admitted, contender.job.min_resources, 1)

    def _short_by(self, contender: Contender) -> Amounts:
        idle = self._room()
        missing = (
            (
                name,
                units
                + self._claimed.get(name, 0)
                + self._admitted.get(name, 0)
                - idle.get(name, 0),
            )
            for name, units in contender.job.min_resources
            if name != PODS
        )
        return tuple((name, units) for name, units in missing if units > 0)

    def _room(self) -> dict[str, int]:
        if self._idle is None:
            total, used = self._session.totals() if self._session else ({}, {})
            self._idle = {
                name: int(units * self._factor) - used.get(name, 0) for name, units in total.items()
            }
        return self._idle


def _still_wanted(job: Job) -> Amounts:
    """What an admitted job has a claim to and does not use yet."""
    admitted = job.phase in {PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING}
    if not job.is_wanted or not admitted or job.count(*ALLOCATED) >= job.min_member:
        return ()
    wanted = (
        (name, units - job.allocated.get(name, 0) - job.gated.get(name, 0))
        for name, units in job.min_resources
    )
    return tuple((name, units) for name, units in wanted if units > 0)


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, units in amounts:
        total[name] = total.get(name, 0) + sign * units


def build(arguments: Mapping[str, Any]) -> Overcommit:
    return Overcommit(read_arguments(NAME, Args, arguments))
