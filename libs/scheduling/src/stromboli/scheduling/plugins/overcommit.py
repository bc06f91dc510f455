"""Let no more jobs into the queue than the cluster could soon hold.

A job may create its pods when what it needs at least, together with what other admitted jobs
still wait for, fits into the cluster made a little larger (`overcommit-factor`).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Refusal, Vote
from stromboli.scheduling.plugins.arguments import read_arguments
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

    def __init__(self, args: Args) -> None:
        self._factor = args.factor if args.factor >= 1 else _FACTOR
        self._session: Session | None = None
        self._counted = False
        self._idle: dict[str, int] = {}
        self._inqueue: dict[str, int] = {}

    def opened(self, session: Session) -> None:
        self._session, self._counted = session, False
        self._idle, self._inqueue = {}, {}

    def enqueueable(self, contender: Contender) -> Vote | Refusal:
        self._count_once()
        short_by = self._short_by(contender)
        if not short_by:
            return Vote.PERMIT
        overused = ", ".join(f"overused {name}" for name, _ in short_by)
        return Refusal(
            "NotEnoughResources", f"resource in cluster is overused: {overused}", short_by
        )

    def enqueued(self, contender: Contender) -> None:
        self._count(contender.job.min_resources)

    def _count_once(self) -> None:
        """Most cycles admit nobody; only those that do need the sums."""
        if self._counted or self._session is None:
            return
        self._counted = True
        total, used = self._session.totals()
        self._idle = {
            name: int(units * self._factor) - used.get(name, 0) for name, units in total.items()
        }
        for contender in self._session.wanting:
            self._count(_still_wanted(contender))

    def _short_by(self, contender: Contender) -> Amounts:
        missing = (
            (name, units + self._inqueue.get(name, 0) - self._idle.get(name, 0))
            for name, units in contender.job.min_resources
            if name != PODS
        )
        return tuple((name, units) for name, units in missing if units > 0)

    def _count(self, amounts: Amounts) -> None:
        for name, units in amounts:
            self._inqueue[name] = self._inqueue.get(name, 0) + units


def _still_wanted(contender: Contender) -> Amounts:
    """What an admitted job has a claim to and does not use yet."""
    job = contender.job
    if job.phase == PodGroupPhase.INQUEUE and not job.allocated and not job.gated:
        return job.min_resources
    wanted = (
        (name, units - job.allocated.get(name, 0) - job.gated.get(name, 0))
        for name, units in job.min_resources
    )
    return tuple((name, units) for name, units in wanted if units > 0)


def build(arguments: Mapping[str, Any]) -> Overcommit:
    return Overcommit(read_arguments(NAME, Args, arguments))
