"""The garbage collector: jobs that ended and said how long they want to be remembered.

The end is the time that the status says, so it does not matter when we look. A job that was
aborted may be resumed and is never collected.
"""

from typing import Final

from stromboli.api import kinds
from stromboli.api.batch import Job, JobPhase
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.controllers.plain import Plain
from stromboli.lifecycle.controllers.protocol import NOTHING_MORE, Case, Verdict
from stromboli.lifecycle.moments import as_unix
from stromboli.lifecycle.world import World

__all__ = ["GarbageController"]

_JOB: Final = kinds.VC_JOB.token
_ENDED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})


class GarbageController(Plain):
    name = "gc-controller"
    decides = _JOB
    reads = (_JOB,)

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:  # noqa: ARG002 (alone)
        entry = case.entry
        if entry is None:
            return NOTHING_MORE
        job: Job = entry.object
        expires = _expires(job)
        if expires is None or job.metadata.deletion_timestamp is not None:
            return NOTHING_MORE
        if case.now < expires:
            return Verdict(look_again_at=expires)
        # Its pods first: whoever waits for the job to be gone waits for all of it.
        asker.delete(_JOB, case.namespace, case.name, uid=entry.uid, propagation="Foreground")
        return NOTHING_MORE


def _expires(job: Job) -> float | None:
    ttl_s = job.spec.ttl_seconds_after_finished
    ended = as_unix(job.status.state.last_transition_time)
    if ttl_s is None or ended is None or job.status.state.phase not in _ENDED:
        return None
    return ended + ttl_s
