"""Jobs: a PodGroup, its pods, and the arithmetic of gangs.

A job exists as soon as anything speaks of it, a PodGroup or a pod that names one, in whatever
order these come. How many of its tasks are in which status is kept per role as pods change, so
that asking "is the gang complete?" costs the same for ten pods and for ten thousand.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from stromboli.api import kinds
from stromboli.api.errors import UnknownKind
from stromboli.api.owners import controller_of
from stromboli.api.scheduling import PodGroup, PodGroupPhase, PodGroupStatus
from stromboli.contracts.partitions import job_key
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.pods import JobKey, Task, TaskStatus
from stromboli.scheduling.resources import NOTHING, Amounts, amounts_of

__all__ = ["ALLOCATED", "READY", "VALID", "Contender", "Job"]

_CountOf: TypeAlias = Callable[[str], int]

ALLOCATED = (TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING)
"""Holds room on a node and is meant to stay."""
READY = (*ALLOCATED, TaskStatus.SUCCEEDED)
"""Counts towards the gang's minimum."""
VALID = (*READY, TaskStatus.PENDING)
"""Counts, or could count, towards it."""


@dataclass(slots=True, eq=False)
class Job:
    """One PodGroup and its pods, as the facts have them."""

    key: JobKey
    pod_group: PodGroup | None = None
    resource_version: str = "0"
    problem: str = ""
    """Why the PodGroup can't be reckoned with; empty when it can."""
    min_resources: Amounts = NOTHING
    priority: int = 0
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    asked: PodGroupStatus | None = None
    """The status that we asked for and have not seen yet: until then it counts as the status."""
    _asked_by: str = ""
    _asked_version: str = ""
    """The resourceVersion that our last write was answered with."""
    _counts: dict[tuple[str, TaskStatus], int] = field(
        default_factory=dict[tuple[str, TaskStatus], int]
    )

    # Identity.

    @property
    def uid(self) -> str:
        return self.pod_group.metadata.uid if self.pod_group else ""

    @property
    def is_wanted(self) -> bool:
        """Whether there is a PodGroup, and it is not being deleted."""
        return self.pod_group is not None and not self.pod_group.metadata.deletion_timestamp

    @property
    def created(self) -> str:
        return (self.pod_group.metadata.creation_timestamp or "") if self.pod_group else ""

    @property
    def owner(self) -> tuple[str, str]:
        """Kind and name of the root owner, which every intent about this job is ordered by."""
        metadata = self.pod_group.metadata if self.pod_group else None
        owner = controller_of(metadata) if metadata else None
        if owner is None:
            return ("vcpodgroup", self.key[1])
        try:
            return (kinds.by_gvk(owner.api_version, owner.kind).token, owner.name)
        except UnknownKind:
            return (owner.kind.lower(), owner.name)

    @property
    def intent_key(self) -> str:
        kind, name = self.owner
        return job_key(kind, self.key[0], name)

    # What the PodGroup says.

    def read(self, pod_group: PodGroup | None, resource_version: str) -> None:
        self.pod_group = pod_group
        self.resource_version = resource_version
        self.problem = ""
        self.min_resources = NOTHING
        if pod_group is None:
            self.forget_asked()
            return
        try:
            self.min_resources = amounts_of(
                f"podgroup {self.key[0]}/{self.key[1]}", pod_group.spec.min_resources
            )
        except BadFact as bad:
            self.problem = str(bad)
        self._see_own_write()

    def ask(self, status: PodGroupStatus, intent_id: str) -> None:
        self.asked, self._asked_by, self._asked_version = status, intent_id, ""

    def wrote(self, intent_id: str, resource_version: str) -> None:
        """A status was written, as this version; only the last one asked for matters."""
        if intent_id == self._asked_by:
            self._asked_version = resource_version
            self._see_own_write()

    def not_written(self, intent_id: str) -> None:
        if intent_id == self._asked_by:
            self.forget_asked()

    def forget_asked(self) -> None:
        self.asked, self._asked_by, self._asked_version = None, "", ""

    def _see_own_write(self) -> None:
        if self._asked_version and int(self.resource_version) >= int(self._asked_version):
            self.forget_asked()

    @property
    def status(self) -> PodGroupStatus:
        if self.asked is not None:
            return self.asked
        return self.pod_group.status if self.pod_group else PodGroupStatus()

    @property
    def phase(self) -> str:
        return self.status.phase or PodGroupPhase.PENDING

    @property
    def queue(self) -> str:
        return self.pod_group.spec.queue if self.pod_group else ""

    @property
    def min_member(self) -> int:
        return self.pod_group.spec.min_member if self.pod_group else 0

    @property
    def role_minimums(self) -> Mapping[str, int]:
        """Per role; as in Volcano they count only if the gang's minimum covers them all."""
        if self.pod_group is None:
            return {}
        minimums = self.pod_group.spec.min_task_member
        return minimums if sum(minimums.values()) <= self.min_member else {}

    # What its pods say.

    def put(self, task: Task) -> None:
        before = self.tasks.get(task.uid)
        if before is not None:
            self._count(before, -1)
        self.tasks[task.uid] = task
        self._count(task, 1)

    def drop(self, uid: str) -> None:
        task = self.tasks.pop(uid, None)
        if task is not None:
            self._count(task, -1)

    def count(self, *statuses: TaskStatus, role: str | None = None) -> int:
        return sum(
            number
            for (of_role, status), number in self._counts.items()
            if status in statuses and (role is None or role == of_role)
        )

    def histogram(self) -> dict[str, int]:
        """How many tasks are in each status."""
        found: dict[str, int] = {}
        for (_, status), number in self._counts.items():
            found[status.value] = found.get(status.value, 0) + number
        return found

    def pending(self) -> list[Task]:
        """Tasks that wait for a place and may be given one, in the order of their turns."""
        waiting = [t for t in self.tasks.values() if t.status is TaskStatus.PENDING and not t.gated]
        waiting.sort(key=lambda task: (-task.priority, task.order))
        return waiting

    def in_status(self, *statuses: TaskStatus) -> list[Task]:
        found = [task for task in self.tasks.values() if task.status in statuses]
        found.sort(key=lambda task: task.order)
        return found

    def _count(self, task: Task, change: int) -> None:
        key = (task.role, task.status)
        number = self._counts.get(key, 0) + change
        if number:
            self._counts[key] = number
        else:
            self._counts.pop(key, None)

    # Gangs.

    @property
    def is_half_bound(self) -> bool:
        """Some of the gang are seen on their nodes, but it has never been whole."""
        return (
            self.phase == PodGroupPhase.INQUEUE
            and self.count(TaskStatus.BOUND, TaskStatus.RUNNING) > 0
            and self.count(
                TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED
            )
            < self.min_member
        )


@dataclass(slots=True, eq=False)
class Contender:
    """A job in one cycle: the facts, and what the cycle has placed so far."""

    job: Job
    queue: str
    phase: str
    """Of the PodGroup, as this cycle sees it."""
    waiting: list[Task]
    """Pending tasks that want room, in the order of their turns."""
    best_effort: list[Task]
    """Pending tasks that ask for nothing but a place."""
    placed: dict[str, int] = field(default_factory=dict[str, int])
    pipelined: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def key(self) -> JobKey:
        return self.job.key

    def ready(self, role: str | None = None) -> int:
        """How many count towards the minimum, those placed in this cycle included."""
        return self.job.count(*READY, role=role) + _sum(self.placed, role)

    def ready_or_pipelined(self, role: str | None = None) -> int:
        return self.ready(role) + _sum(self.pipelined, role)

    def valid(self, role: str | None = None) -> int:
        return self.job.count(*VALID, role=role)

    @property
    def deficit(self) -> int:
        """How many more must be ready; pods that need no room are sure of their place."""
        return max(0, self.job.min_member - self.ready() - len(self.best_effort))

    def role_deficits(self) -> dict[str, int]:
        return _deficits(self.job.role_minimums.items(), self.ready)

    def until_ready(self, role: str) -> int | None:
        """How many more of this role complete the gang; None when other roles are missing too."""
        missing = self.role_deficits()
        own = missing.pop(role, 0)
        return None if missing else max(own, self.deficit)

    @property
    def is_ready(self) -> bool:
        return not self.deficit and not self.role_deficits()

    @property
    def is_pipelined(self) -> bool:
        """Complete, if what is ending now ends."""
        short = self.job.min_member - self.ready_or_pipelined() - len(self.best_effort)
        return short <= 0 and not _deficits(self.job.role_minimums.items(), self.ready_or_pipelined)


def _deficits(minimums: Iterable[tuple[str, int]], have: _CountOf) -> dict[str, int]:
    missing = {role: least - have(role) for role, least in minimums}
    return {role: number for role, number in missing.items() if number > 0}


def _sum(by_role: dict[str, int], role: str | None) -> int:
    return sum(by_role.values()) if role is None else by_role.get(role, 0)
