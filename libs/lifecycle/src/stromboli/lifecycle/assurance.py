"""When the objects of a job's plugins are asked for once more, should somebody have deleted them.

No fact tells of ConfigMaps, Services and Secrets: there are too many of them, and a Secret must
not travel. But to ask for what is there does no harm, and makes what is not. So a job asks again
whenever pods of it start anew, soon when a pod has a node and does not start, which is what a
missing volume looks like, and now and then while it runs.
"""

from typing import Final

from stromboli.api.numerals import as_number
from stromboli.lifecycle.moments import as_unix
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.situations import Situation

__all__ = ["asked_now", "is_assured", "next_check"]

_EVERY_S: Final = 600.0
_SOONEST_S: Final = 60.0
_PART_OF_WAIT: Final = 4
"""The longer a pod does not start, the less often: its image may be large."""


def is_assured(situation: Situation, records: Records) -> bool:
    """Have they been asked for in this run of the job, and not too long ago?"""
    run, at = _equipped(records)
    if run != _run_of(situation) or at is None or situation.was_unanswered:
        return False
    return situation.now < at + _interval(situation)


def asked_now(situation: Situation) -> str:
    """What the status notes when they are asked for."""
    return f"{_run_of(situation)}@{int(situation.now)}"


def next_check(situation: Situation, records: Records) -> float | None:
    """When they are asked for again, if nothing else happens; a job without pods can wait."""
    _, at = _equipped(records)
    return None if at is None or not situation.members else at + _interval(situation)


def _run_of(situation: Situation) -> str:
    status = situation.job.status
    return f"{status.version}.{status.retry_count}"


def _equipped(records: Records) -> tuple[str, int | None]:
    run, _, at = records.equipped.partition("@")
    return run, as_number(at)


def _interval(situation: Situation) -> float:
    waited = max(_waits_since_s(situation), default=None)
    if waited is None:
        return _EVERY_S
    return min(_EVERY_S, max(_SOONEST_S, waited / _PART_OF_WAIT))


def _waits_since_s(situation: Situation) -> list[float]:
    """For how long pods are there that have a node and have not started."""
    found: list[float] = []
    for member in situation.members:
        if member.phase == "Pending" and member.pod.spec.node_name and not member.is_terminating:
            created = as_unix(member.pod.metadata.creation_timestamp)
            if created is not None:
                found.append(situation.now - created)
    return found
