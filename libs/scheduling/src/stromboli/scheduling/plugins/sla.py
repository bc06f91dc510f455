"""A job that has waited as long as it was ready to is let in, and may hold what it has.

How long that is, the PodGroup says, or the configuration for all. Before that moment the plugin
has no opinion, so it only overrules plugins in tiers after its own. Jobs with an earlier
deadline come first.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.scheduling.deadlines import deadline_of, waiting_time
from stromboli.scheduling.errors import BadValue
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import SortKey, Vote
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.session import Session

NAME: Final = "sla"


class Args(msgspec.Struct, frozen=True):
    """By Volcano's name."""

    waiting_time: str = msgspec.field(default="", name="sla-waiting-time")


class Sla:
    """Keeps deadlines."""

    name = NAME
    order_is_own = True

    def __init__(self, waits_s: float | None) -> None:
        self._waits_s = waits_s
        self._session: Session | None = None

    def opened(self, session: Session) -> None:
        self._session = session

    def job_order(self, contender: Contender) -> SortKey:
        deadline = deadline_of(contender.job, otherwise_s=self._waits_s)
        return (math.inf if deadline is None else deadline,)

    def enqueueable(self, contender: Contender) -> Vote:
        return self._vote(contender)

    def job_pipelined(self, contender: Contender) -> Vote:
        return self._vote(contender)

    def _vote(self, contender: Contender) -> Vote:
        deadline = deadline_of(contender.job, otherwise_s=self._waits_s)
        if deadline is None or self._session is None:
            return Vote.ABSTAIN
        if self._session.now >= deadline:
            return Vote.PERMIT
        self._session.look_again(contender.key, deadline)
        return Vote.ABSTAIN


def build(arguments: Mapping[str, Any]) -> Sla:
    given = read_arguments(NAME, Args, arguments).waiting_time
    waits_s = waiting_time(given) if given else None
    if given and waits_s is None:
        raise BadValue("the sla-waiting-time", given, "a duration such as 30m or 1h30m")
    return Sla(waits_s)
