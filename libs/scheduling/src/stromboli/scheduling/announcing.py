"""Tell people through Kubernetes events, and not more than they can read.

A bound gang of a thousand pods would be a thousand events; each costs the API server as much as
the bind itself. So there is a purse: that somebody is evicted is always told, that a job waits
for a new reason or that a pod got its node only while the purse lasts. Conditions say it anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stromboli.api.kinds import POD, VC_POD_GROUP, by_token
from stromboli.contracts.intents import CreateObject
from stromboli.contracts.partitions import job_key
from stromboli.contracts.stimuli import FactChanged
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.kube_events import Said, event, reference
from stromboli.scheduling.pods import Task

__all__ = ["Announcing"]

_PURSE: Final = 100.0
_REFILL_PER_S: Final = 20.0


@dataclass(slots=True)
class Announcing:
    """Makes the events of one core."""

    _left: float = _PURSE
    _at: float = 0.0
    untold: int = 0
    """Events that the purse had nothing left for."""

    def scheduled(self, job: Job, task: Task, node: str, now: float) -> list[CreateObject]:
        if not self._pay(now):
            return []
        message = f"Successfully assigned {task.namespace}/{task.name} to {node}"
        return [_event(job, _pod(task), Said("Normal", "Scheduled", message), now)]

    def evicted(self, job: Job, task: Task, action: str, now: float) -> list[CreateObject]:
        message = f"Pod is evicted, because of {action}"
        of_group = Said("Normal", "Evict", f"{task.name}: {action}")
        return [
            _event(job, _pod(task), Said("Warning", "Evict", message), now),
            _event(job, _group(job), of_group, now),
        ]

    def failed(self, job: Job, task: Task, message: str, now: float) -> list[CreateObject]:
        """Of the pods of a job that waits, one speaks for all."""
        if not self._pay(now):
            return []
        return [_event(job, _pod(task), Said("Warning", "FailedScheduling", message), now)]

    def unschedulable(self, job: Job, message: str, now: float) -> list[CreateObject]:
        if not self._pay(now):
            return []
        # A job without pods waits to be admitted, which is nothing to warn of.
        type_ = "Warning" if job.tasks else "Normal"
        return [_event(job, _group(job), Said(type_, "Unschedulable", message), now)]

    def ready(self, job: Job, now: float) -> list[CreateObject]:
        if not self._pay(now):
            return []
        return [_event(job, _group(job), Said("Normal", "Scheduled", "pod group is ready"), now)]

    def set_aside(self, found: Sequence[tuple[FactChanged, str]], now: float) -> list[CreateObject]:
        """Objects that nobody could make sense of, each with what is wrong with it."""
        said: list[CreateObject] = []
        for fact, problem in found:
            if not self._pay(now):
                break
            about = reference(by_token(fact.kind), fact.namespace, fact.name, fact.uid)
            message = f"the scheduler can't reckon with it and goes on without it: {problem}"
            key = job_key(fact.kind, fact.namespace, fact.name)
            what = Said("Warning", "SetAside", message)
            said.append(event(about, what, now, key=key, version=fact.resource_version))
        return said

    def _pay(self, now: float) -> bool:
        self._left = min(_PURSE, self._left + _REFILL_PER_S * max(0.0, now - self._at))
        self._at = now
        if self._left < 1.0:
            self.untold += 1
            return False
        self._left -= 1.0
        return True


def _pod(task: Task) -> dict[str, str]:
    return reference(POD, task.namespace, task.name, task.uid)


def _group(job: Job) -> dict[str, str]:
    return reference(VC_POD_GROUP, *job.key, job.uid)


def _event(job: Job, about: dict[str, str], said: Said, now: float) -> CreateObject:
    return event(about, said, now, key=job.intent_key)
