"""The named moments in a job's life at which a test may break something, heard on the bus.

A fault at a guessed time hits nothing, or something else on a slower machine. These points are
what the services themselves say: facts, and the intent that completes the job.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from stromboli.contracts.intents import PatchObject
from stromboli.testkit.eavesdropping import Overheard

__all__ = ["POINTS", "JobProgress"]

POINTS: Final = (
    "podgroup created",
    "enqueued",
    "first pod created",
    "all pods created",
    "first bind applied",
    "gang bound",
    "job running",
    "completion decided",
    "first pod deleted",
    "job completed",
)


@dataclass(slots=True)
class JobProgress:
    """Which points one job has reached; give `hear` to an eavesdropper."""

    job: str
    gang_size: int
    _reached: Mapping[str, asyncio.Event] = field(
        default_factory=lambda: {point: asyncio.Event() for point in POINTS}
    )
    _pods: set[str] = field(default_factory=set[str])
    _bound: set[str] = field(default_factory=set[str])

    async def until(self, point: str, deadline_s: float) -> None:
        async with asyncio.timeout(deadline_s):
            await self._reached[point].wait()

    def hear(self, word: Overheard) -> None:
        if (job := word.fact("vcjob")) is not None and job.metadata.name == self.job:
            self._job_is(job.status.state.phase)
        elif (group := word.fact("vcpodgroup")) is not None and self._owns(group):
            self._reach("podgroup created")
            if group.status.phase == "Inqueue":
                self._reach("enqueued")
        elif (pod := word.fact("pod")) is not None and self._owns(pod):
            self._pod_is(pod)
        elif (pod := word.end("pod")) is not None and self._owns(pod):
            self._reach("first pod deleted")
        elif isinstance(word.message, PatchObject):
            self._patched(word.message)

    def _job_is(self, phase: str) -> None:
        if phase == "Running":
            self._reach("job running")
        elif phase == "Completed":
            self._reach("job completed")

    def _pod_is(self, pod: Any) -> None:
        name = pod.metadata.name
        self._pods.add(name)
        self._reach("first pod created")
        if len(self._pods) >= self.gang_size:
            self._reach("all pods created")
        if pod.spec.node_name:
            self._bound.add(name)
            self._reach("first bind applied")
        if len(self._bound) >= self.gang_size:
            self._reach("gang bound")
        if pod.metadata.deletion_timestamp is not None:
            self._reach("first pod deleted")

    def _patched(self, intent: PatchObject) -> None:
        if intent.kind != "vcjob" or intent.name != self.job:
            return
        status = msgspec.json.decode(intent.patch, type=dict[str, Any]).get("status", {})
        if status.get("state", {}).get("phase") in {"Completing", "Completed"}:
            self._reach("completion decided")

    def _owns(self, found: Any) -> bool:
        return any(owner.name == self.job for owner in found.metadata.owner_references)

    def _reach(self, point: str) -> None:
        self._reached[point].set()
