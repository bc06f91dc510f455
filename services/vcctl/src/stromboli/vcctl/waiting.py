"""Why a job waits, as its PodGroup says it: code, sentence, and since when.

Volcano prints nothing of the kind; the reason hides in the events of another object.
"""

from collections.abc import Iterator
from typing import Final

from stromboli.api.scheduling import PodGroup, PodGroupConditionType, PodGroupPhase
from stromboli.scheduling.reasons import Code, Reason, reason_in
from stromboli.vcctl.go_text import at_level, go_time

__all__ = ["waiting"]

_UNHEARD: Final = Reason(
    Code.PENDING_EVALUATION, "the scheduler has said nothing about it yet; is one running?"
)
_PLACED: Final = (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED)


def waiting(pod_group: PodGroup) -> Iterator[str]:
    """Lines about a PodGroup that is not placed; none about one that is."""
    if pod_group.status.phase in _PLACED:
        return
    reason, since = _UNHEARD, pod_group.metadata.creation_timestamp
    for condition in pod_group.status.conditions:
        if condition.type == PodGroupConditionType.UNSCHEDULABLE and condition.status == "True":
            found = reason_in(condition.message)
            # Another scheduler's words have no code of ours.
            code = condition.reason if found is None else found.code
            sentence = condition.message if found is None else found.sentence
            yield from _lines(code, sentence, condition.last_transition_time)
            return
    yield from _lines(reason.code, reason.sentence, since)


def _lines(code: str, sentence: str, since: str | None) -> Iterator[str]:
    yield at_level(1, "Waiting:")
    yield at_level(2, f"Reason: \t{code}")
    yield at_level(2, f"Message:\t{sentence}")
    yield at_level(2, f"Since:  \t{go_time(since)}")
