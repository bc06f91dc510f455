"""A job's pods, read once and counted.

A pod knows which task, index and version of the job it was made for; one that does not say so
is not one of ours, whoever owns it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from stromboli.api.core import Pod
from stromboli.api.numerals import as_number
from stromboli.api.wellknown import JOB_RETRY_COUNT, JOB_VERSION, TASK_INDEX, TASK_SPEC

__all__ = ["Census", "Member", "member_of", "take_census"]

_AT_FIRST: Final = "Pending"
_NONE: Final[Mapping[tuple[str, str], int]] = {}
_FINISHED: Final = ("Succeeded", "Failed")
_OWN_FAILURES: Final = ("", "DeadlineExceeded")
"""Reasons in the status of a pod that failed by itself; a kubelet gives others when it evicts."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a job. What is asked of thousands of them in each decision is worked out once."""

    task: str
    index: int
    version: int
    retry: int = 0
    """The job's retry count when the pod was made."""
    uid: str
    pod: Pod
    phase: str
    is_finished: bool
    is_terminating: bool

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def ended_by_itself(self) -> bool:
        """Whether its work is done, well or badly; one that was interrupted has not ended so.

        A pod that is told to go may report any phase while it ends.
        """
        if self.is_terminating or not self.is_finished:
            return False
        return self.phase == "Succeeded" or not _is_disrupted(self.pod)

    @property
    def exit_code(self) -> int:
        """Of its first container, as Volcano looks at it."""
        for status in self.pod.status.container_statuses[:1]:
            if status.state.terminated is not None:
                return status.state.terminated.exit_code
        return 0

    @property
    def restarts(self) -> int:
        """How often the kubelet has started its containers again."""
        status = self.pod.status
        return sum(
            one.restart_count
            for one in (*status.init_container_statuses, *status.container_statuses)
        )

    @property
    def is_ready(self) -> bool:
        """Done, or at work with all its containers."""
        if self.phase == "Succeeded":
            return True
        statuses = self.pod.status.container_statuses
        return self.phase == "Running" and all(status.ready for status in statuses)


def member_of(pod: Pod, *, uid: str) -> Member | None:
    """The pod as a member of its job, or None if it does not say which it is."""
    says = pod.metadata.annotations
    task, text = says.get(TASK_SPEC), says.get(TASK_INDEX)
    index = as_number(pod.metadata.name.rpartition("-")[2] if text is None else text)
    version = as_number(says.get(JOB_VERSION, ""))
    if task is None or index is None or version is None:
        return None
    return Member(
        task=task,
        index=index,
        version=version,
        retry=as_number(says.get(JOB_RETRY_COUNT, "")) or 0,
        uid=uid,
        pod=pod,
        phase=pod.status.phase or _AT_FIRST,
        is_finished=pod.status.phase in _FINISHED,
        is_terminating=pod.metadata.deletion_timestamp is not None,
    )


def _is_disrupted(pod: Pod) -> bool:
    if pod.status.reason not in _OWN_FAILURES:
        return True
    return any(
        one.type == "DisruptionTarget" and one.status == "True" for one in pod.status.conditions
    )


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods are in which state; those that end are only counted as ending."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: dict[str, dict[str, int]] = msgspec.field(default_factory=dict[str, dict[str, int]])


def take_census(
    staying: Iterable[Member], *, ending: int, cleared: Mapping[tuple[str, str], int] = _NONE
) -> Census:
    """Count the pods that stay by phase; `cleared` ended and are gone, by (task, phase)."""
    counts = dict(cleared)
    for member in staying:
        place = (member.task, member.phase)
        counts[place] = counts.get(place, 0) + 1
    tasks: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    for (task, phase), number in counts.items():
        tasks.setdefault(task, {})[phase] = number
        totals[phase] = totals.get(phase, 0) + number
    return Census(
        pending=totals.get("Pending", 0),
        running=totals.get("Running", 0),
        succeeded=totals.get("Succeeded", 0),
        failed=totals.get("Failed", 0),
        unknown=totals.get("Unknown", 0),
        terminating=ending,
        tasks=tasks,
    )
