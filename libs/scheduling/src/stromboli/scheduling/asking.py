"""Decisions as intents and history.

The id of an intent holds the time of the cycle and a running number: the gateway stores an
outcome once per id, so asking for the same thing again must be a new question.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stromboli.api.owners import controller_of
from stromboli.api.scheduling import PodGroupStatus
from stromboli.contracts.intents import (
    BINDS_PER_PART,
    BindGang,
    EvictPod,
    PatchObject,
    PodBinding,
    intent_id,
)
from stromboli.contracts.permissions import SCHEDULER
from stromboli.contracts.records import HistoryRecorded
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.pods import Task
from stromboli.scheduling.status import status_patch

__all__ = ["POD_EVICTED", "Asking", "told", "told_evicted"]

POD_EVICTED: Final = "pod.evicted"
"""In the story of a job: one of its pods had to go."""
_NO_GATES: Final = b'{"spec":{"schedulingGates":null}}'


@dataclass(slots=True)
class Asking:
    """Makes the messages of one core."""

    _number: int = 0

    def bind(self, job: Job, bound: list[Task], now: float) -> list[BindGang]:
        """The gang in parts; none of them is bound before all have arrived."""
        attempt = self._id("bind", job, now)
        binds = [PodBinding(task.name, task.uid, task.node) for task in bound]
        parts = [
            tuple(binds[at : at + BINDS_PER_PART]) for at in range(0, len(binds), BINDS_PER_PART)
        ]
        return [
            BindGang(
                id=f"{attempt}-{number}",
                key=job.intent_key,
                service=SCHEDULER,
                namespace=job.key[0],
                name=job.key[1],
                attempt=attempt,
                part=number,
                parts=len(parts),
                binds=part,
            )
            for number, part in enumerate(parts)
        ]

    def patch_status(self, job: Job, status: PodGroupStatus, now: float) -> PatchObject:
        return PatchObject(
            id=self._id("patch", job, now),
            key=job.intent_key,
            service=SCHEDULER,
            kind="vcpodgroup",
            namespace=job.key[0],
            name=job.key[1],
            uid=job.uid,
            patch=status_patch(status),
        )

    def evict(self, job: Job, task: Task, now: float) -> EvictPod:
        return EvictPod(
            id=self._id("evict", job, now),
            key=job.intent_key,
            service=SCHEDULER,
            namespace=task.namespace,
            name=task.name,
            uid=task.uid,
        )

    def open_gate(self, job: Job, task: Task, now: float) -> PatchObject:
        """Take the gate of its queue off a pod.

        The pod has no other gate, and none can be added to a pod that exists.
        """
        return PatchObject(
            id=self._id("open", job, now),
            key=job.intent_key,
            service=SCHEDULER,
            kind="pod",
            namespace=task.namespace,
            name=task.name,
            uid=task.uid,
            patch=_NO_GATES,
        )

    def _id(self, verb: str, job: Job, now: float) -> str:
        self._number += 1
        return intent_id(SCHEDULER, verb, *job.key, job.uid, repr(now), self._number)


def told(
    job: Job, what: str, why: str, now: float, detail: Iterable[tuple[str, str]] = ()
) -> HistoryRecorded:
    """One line of the job's story."""
    owner = controller_of(job.pod_group.metadata) if job.pod_group else None
    return HistoryRecorded(
        namespace=job.key[0],
        job=job.owner[1],
        uid=owner.uid if owner else job.uid,
        service=SCHEDULER,
        at=now,
        what=what,
        why=why,
        detail=dict(detail),
    )


def told_evicted(job: Job, task: Task, now: float, *, action: str, whom: str) -> HistoryRecorded:
    """That a pod of the job had to go, from where, by which action and for whom."""
    detail = (("action", action), ("node", task.node), ("pod", task.name), ("for", whom))
    return told(job, POD_EVICTED, f"{task.name} makes room for {whom}", now, detail)
