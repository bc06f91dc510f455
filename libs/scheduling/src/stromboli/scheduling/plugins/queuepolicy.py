"""Every queue may have its own rule for whose turn it is, by an annotation on the Queue.

`stromboli.sh/policy: fifo` (who came first), `fair` (who has the smallest part of the cluster),
`priority` (the higher class), or `sla` (the earlier deadline). A queue that says nothing is left
to the plugins that follow. Put this one first in the first tier: the first difference decides.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from stromboli.scheduling.deadlines import created_at, deadline_of, waiting_time
from stromboli.scheduling.errors import BadValue
from stromboli.scheduling.job_shares import JobShares
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Refusal, SortKey
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.queue_reasons import misplaced_queue
from stromboli.scheduling.queues import POLICY, QueueInfo

NAME: Final = "queuepolicy"


class Policy(StrEnum):
    """In which order the jobs of a queue have their turns."""

    FIFO = "fifo"
    FAIR = "fair"
    PRIORITY = "priority"
    SLA = "sla"


_KNOWN: Final = {policy.value: policy for policy in Policy}
_NO_OPINION: Final = (0.0, "")


class Args(msgspec.Struct, frozen=True):
    """How long a job of an `sla` queue waits that does not say so itself."""

    waiting_time: str = msgspec.field(default="", name="sla-waiting-time")


class QueuePolicy(JobShares):
    """Orders the jobs of each queue by that queue's rule."""

    name = NAME
    order_is_own = True

    def __init__(self, waits_s: float | None) -> None:
        super().__init__()
        self._waits_s = waits_s

    def invalid(self, contender: Contender) -> Refusal | None:
        """A misspelt rule is no rule: better that somebody asks than that nobody notices."""
        given = self._given(contender.queue)
        if not given or given in _KNOWN:
            return None
        expected = ", ".join(_KNOWN)
        return misplaced_queue(
            f"queue {contender.queue!r} has {POLICY} {given!r}, expected one of {expected}"
        )

    def queue_order(self, queue: QueueInfo) -> SortKey:
        """No opinion, but jobs of different queues must not stand in one line."""
        return ()

    def job_order(self, contender: Contender) -> SortKey:
        """Always a number and a text, so that keys of different queues can be compared."""
        created = created_at(contender.job) or 0.0
        match _KNOWN.get(self._given(contender.queue)):
            case Policy.FIFO:
                return (created, "/".join(contender.key))
            case Policy.FAIR:
                return (self.share(contender.key), "")
            case Policy.PRIORITY:
                return (-float(contender.job.priority), "")
            case Policy.SLA:
                deadline = deadline_of(contender.job, otherwise_s=self._waits_s)
                return (math.inf if deadline is None else deadline, "")
            case None:
                return _NO_OPINION

    def _given(self, queue: str) -> str:
        info = self.session.queues.get(queue) if self.session else None
        return info.policy if info else ""


def build(arguments: Mapping[str, Any]) -> QueuePolicy:
    given = read_arguments(NAME, Args, arguments).waiting_time
    waits_s = waiting_time(given) if given else None
    if given and waits_s is None:
        raise BadValue("the sla-waiting-time", given, "a duration such as 30m or 1h30m")
    return QueuePolicy(waits_s)
