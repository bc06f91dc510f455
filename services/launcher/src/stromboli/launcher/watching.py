"""What a person with `kubectl get -w` would see of some jobs, with the time of each step.

The steps of a job: submitted, reviewed (admission has let it in), its PodGroup, enqueued, bound
(the whole gang has nodes), running (the whole gang runs), and its end. When it was reviewed is
what HISTORY says; the other times are when the watch showed them.
"""

import asyncio
import random
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from stromboli.api import kinds
from stromboli.api.wire import decode_object
from stromboli.contracts import codec
from stromboli.contracts.errors import Undecodable
from stromboli.contracts.permissions import OPERATOR
from stromboli.contracts.streams import HISTORY
from stromboli.kube import Changed, EventType, KubeClient, ListPage, Reflector
from stromboli.runtime.bus.connection import BusSettings, connect
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.clock import SystemClock

STEPS = ("submitted", "reviewed", "podgroup", "enqueued", "bound", "running", "completed")
_ENDED = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
_STARTED = frozenset({"Running", "Succeeded"})


@dataclass(slots=True)
class JobStory:
    """One job, its PodGroup and its pods, as last seen; and when each step was reached."""

    job: Any = None
    podgroup: Any = None
    pods: dict[str, Any] = field(default_factory=dict[str, Any])
    at: dict[str, float] = field(default_factory=dict[str, float])
    deleted_while: dict[str, str] = field(default_factory=dict[str, str])
    """Pods that are gone, and the phase they were last seen in."""

    @property
    def phase(self) -> str:
        return self.job.status.state.phase if self.job is not None else ""

    @property
    def reason(self) -> str:
        """Why it does not run, in the scheduler's words."""
        if self.podgroup is None:
            return ""
        conditions = [c for c in self.podgroup.status.conditions if c.type == "Unschedulable"]
        return conditions[0].message if conditions and conditions[0].status == "True" else ""

    def note(self) -> None:
        """Write down the steps that have been reached by now."""
        if self.job is None:
            return
        needed = self.job.spec.min_available
        pods = self.pods.values()
        reached = {
            "podgroup": self.podgroup is not None,
            "enqueued": self.podgroup is not None
            and self.podgroup.status.phase in {"Inqueue", "Running", "Completed"},
            "bound": sum(bool(pod.spec.node_name) for pod in pods) >= needed,
            "running": sum(pod.status.phase in _STARTED for pod in pods) >= needed,
            "completed": self.phase in _ENDED,
        }
        for step, is_reached in reached.items():
            if is_reached:
                self.at.setdefault(step, time.time())


@dataclass(slots=True)
class JobWatcher:
    """Follows the jobs of one namespace."""

    kube: KubeClient
    stories: dict[str, JobStory] = field(default_factory=dict[str, JobStory])
    queues: dict[str, Any] = field(default_factory=dict[str, Any])

    def story(self, name: str) -> JobStory:
        return self.stories.setdefault(name, JobStory())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for kind in (kinds.VC_JOB, kinds.VC_POD_GROUP, kinds.POD, kinds.QUEUE):
                group.create_task(self._follow(kind))

    async def _follow(self, kind: Any) -> None:
        rng = random.Random(kind.token)  # noqa: S311 (spreads retries, guards nothing)
        async with aclosing(Reflector(self.kube, kind, rng=rng).changes()) as changes:
            async for change in changes:
                match change:
                    case ListPage(items):
                        for raw in items:
                            self._seen(kind, raw, gone=False)
                    case Changed(event):
                        gone = event.type is EventType.DELETED
                        self._seen(kind, event.object, gone=gone)
                    case _:
                        pass

    def _seen(self, kind: Any, raw: bytes, *, gone: bool) -> None:
        found = decode_object(kind, raw)
        if kind is kinds.QUEUE:
            self.queues[found.metadata.name] = found
            return
        name = _job_of(kind, found)
        if not name:
            return
        story = self.story(name)
        if kind is kinds.VC_JOB:
            story.job = found
        elif kind is kinds.VC_POD_GROUP:
            story.podgroup = None if gone else found
        elif gone:
            story.pods.pop(found.metadata.name, None)
            story.deleted_while[found.metadata.name] = found.status.phase
        else:
            story.pods[found.metadata.name] = found
        if not gone:
            story.note()


def _job_of(kind: Any, found: Any) -> str:
    if kind is kinds.VC_JOB:
        return found.metadata.name
    owners = [o.name for o in found.metadata.owner_references if o.kind == "Job"]
    return owners[0] if owners else ""


@dataclass(slots=True)
class HistoryWatcher:
    """Reads what the services have decided about the jobs, and when."""

    watcher: JobWatcher
    settings: BusSettings

    async def run(self) -> None:
        async with connect(self.settings, OPERATOR) as connection:
            await LogReader(connection, SystemClock(), stream=HISTORY.name, listener=self).run()

    # The LogListener protocol. The story is a short one: it is read again after an interruption.

    def attach(self, position: LogPosition) -> int:  # noqa: ARG002 (of the protocol)
        return 1

    def apply(self, message: LogMessage) -> None:
        try:
            line = codec.history.decode(message.payload)
        except Undecodable:
            return
        if line.what == "job.reviewed":
            self.watcher.story(line.job).at.setdefault("reviewed", line.at)

    def caught_up(self) -> None:
        """What comes next is told as it comes."""
