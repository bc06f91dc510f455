"""Jobs: a PodGroup, its pods, and the arithmetic of gangs.

A job exists as soon as anything speaks of it, a PodGroup or a pod that names one, in whatever
order these come. How many of its tasks are in which status is kept per role as pods change, so
that asking "is the gang complete?" costs the same for ten pods and for ten thousand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from stromboli.api import kinds
from stromboli.api.errors import UnknownKind
from stromboli.api.owners import controller_of
from stromboli.api.scheduling import PodGroup, PodGroupPhase, PodGroupStatus
from stromboli.api.wellknown import PREEMPTABLE
from stromboli.contracts.partitions import job_key
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.pods import (
    JobKey,
    QueueGate,
    Task,
    TaskClass,
    TaskStatus,
    let_through,
)
from stromboli.scheduling.resources import NOTHING, Amounts, amounts_of
from stromboli.scheduling.subgroups import Grouping, GroupKey

__all__ = ["ALLOCATED", "READY", "VALID", "Contender", "Job"]

K = TypeVar("K")
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
    min_member: int = 0
    role_minimums: Mapping[str, int] = field(default_factory=dict[str, int])
    """Per role; as in Volcano they count only if the gang's minimum covers them all."""
    priority: int = 0
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    unfit: dict[str, str] = field(default_factory=dict[str, str])
    """Its pods that can't be reckoned with, by name, and why; they are not among the tasks."""
    allocated: dict[str, int] = field(default_factory=dict[str, int])
    """What its pods that have a node, or were promised one, ask for."""
    awaited: dict[str, int] = field(default_factory=dict[str, int])
    """What its pending pods ask for."""
    gated: dict[str, int] = field(default_factory=dict[str, int])
    """The part of `awaited` of pods that may not be placed yet."""
    earmarked: dict[str, int] = field(default_factory=dict[str, int])
    """The part of `awaited` of pods that their queue let through its gate."""
    grouping: Grouping | None = None
    ready: int = 0
    """How many tasks count towards the minimum."""
    asked: PodGroupStatus | None = None
    """The status that we asked for and have not seen yet: until then it counts as the status."""
    worded_at: float = 0.0
    """When we last asked for other conditions."""
    _owner: tuple[str, str] | None = None
    _intent_key: str = ""
    """Both are worked out when first asked for."""
    _asked_by: str = ""
    _asked_version: str = ""
    """The resourceVersion that our last write was answered with."""
    by_status: dict[TaskStatus, int] = field(default_factory=dict[TaskStatus, int])
    """How many tasks are in each status; a status that nobody is in is not here."""
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
        if self._owner is None:
            self._owner = self._find_owner()
        return self._owner

    def _find_owner(self) -> tuple[str, str]:
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
        if not self._intent_key:
            kind, name = self.owner
            self._intent_key = job_key(kind, self.key[0], name)
        return self._intent_key

    # What the PodGroup says.

    def read(self, pod_group: PodGroup | None, resource_version: str) -> None:
        self.pod_group = pod_group
        self._owner, self._intent_key = None, ""
        self.resource_version = resource_version
        self.problem = ""
        self.min_resources = NOTHING
        policies = pod_group.spec.sub_group_policy if pod_group else ()
        self.grouping = Grouping(policies) if policies else None
        self.min_member = max(0, pod_group.spec.min_member) if pod_group else 0
        minimums = pod_group.spec.min_task_member if pod_group else {}
        self.role_minimums = minimums if sum(minimums.values()) <= self.min_member else {}
        if pod_group is None:
            self.forget_asked()
            return
        what = f"podgroup {self.key[0]}/{self.key[1]}"
        try:
            if pod_group.spec.min_member < 0:
                number = pod_group.spec.min_member
                raise BadFact(what, f"minMember is {number}, expected 0 or more")
            self.min_resources = amounts_of(what, pod_group.spec.min_resources)
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
    def annotations(self) -> Mapping[str, str]:
        return self.pod_group.metadata.annotations if self.pod_group else {}

    @property
    def is_preemptable(self) -> bool:
        """Whether it says of itself that it can be sent away."""
        labels = self.pod_group.metadata.labels if self.pod_group else {}
        said = self.annotations.get(PREEMPTABLE) or labels.get(PREEMPTABLE, "")
        return said.lower() == "true"

    @property
    def is_tied_to_network(self) -> bool:
        """Whether it, or a part of it, asks to stand close together."""
        spec = self.pod_group.spec if self.pod_group else None
        return spec is not None and (
            spec.network_topology is not None
            or any(policy.network_topology is not None for policy in spec.sub_group_policy)
        )

    @property
    def requested(self) -> dict[str, int]:
        """What it holds and what it waits for, together."""
        total = dict(self.allocated)
        for name, units in self.awaited.items():
            total[name] = total.get(name, 0) + units
        return total

    # What its pods say.

    def put(self, task: Task) -> None:
        before = self.tasks.get(task.uid)
        if before is not None:
            self._count(before, -1)
        self.tasks[task.uid] = task
        self._count(task, 1)

    def put_new(self, tasks: Sequence[Task]) -> None:
        """Tasks that are all alike, and new."""
        self.tasks.update({task.uid: task for task in tasks})
        self._count(tasks[0], len(tasks))

    def put_promised(self, tasks: Sequence[Task]) -> None:
        """Tasks of one class and role that were pending, and now have a node promised to them."""
        self.tasks.update({task.uid: task for task in tasks})
        first, number = tasks[0], len(tasks)
        for status, change in ((TaskStatus.PENDING, -number), (TaskStatus.BINDING, number)):
            _move(self._counts, (first.role, status), change)
            _move(self.by_status, status, change)
        self.ready += number
        _add(self.allocated, first.kind.request, number)
        _add(self.awaited, first.kind.request, -number)
        if self.earmarked:
            _add(self.earmarked, first.kind.request, -let_through(tasks))

    def drop(self, uid: str) -> None:
        task = self.tasks.pop(uid, None)
        if task is not None:
            self._count(task, -1)

    def count(self, *statuses: TaskStatus, role: str | None = None) -> int:
        total = 0  # plain loops: this is asked a dozen times per job and cycle
        if role is None:
            for status, number in self.by_status.items():
                if status in statuses:
                    total += number
        else:
            for status in statuses:
                total += self._counts.get((role, status), 0)
        return total

    def histogram(self) -> dict[str, int]:
        """How many tasks are in each status."""
        return {status.value: number for status, number in self.by_status.items()}

    def pending(self) -> list[Task]:
        """Tasks that wait for a place and may be given one."""
        return [t for t in self.tasks.values() if t.status is TaskStatus.PENDING and not t.gated]

    def at_gate(self) -> list[Task]:
        """Pending tasks that only the gate of their queue holds."""
        if not self.gated:
            return []
        return [t for t in self.in_status(TaskStatus.PENDING) if t.queue_gate is QueueGate.CLOSED]

    def room_kept(self) -> dict[TaskClass, int]:
        """For how many pods of each class its queue keeps room; for none until it is admitted."""
        kept: dict[TaskClass, int] = {}
        if self.earmarked and self.phase != PodGroupPhase.PENDING:
            for task in self.tasks.values():
                if task.is_earmarked:
                    kept[task.kind] = kept.get(task.kind, 0) + 1
        return kept

    def in_status(self, *statuses: TaskStatus) -> list[Task]:
        found = [task for task in self.tasks.values() if task.status in statuses]
        found.sort(key=lambda task: task.order)
        return found

    def _count(self, task: Task, change: int) -> None:
        self._count_status(task.role, task.status, change)
        self._account(task, task.status, change)
        if task.is_earmarked:
            _add(self.earmarked, task.kind.request, change)

    def _count_status(self, role: str, status: TaskStatus, change: int) -> None:
        if status in READY:
            self.ready += change
        _move(self._counts, (role, status), change)
        _move(self.by_status, status, change)

    def _account(self, task: Task, status: TaskStatus, change: int) -> None:
        if status in ALLOCATED:
            _add(self.allocated, task.kind.request, change)
        elif status is TaskStatus.PENDING:
            _add(self.awaited, task.kind.request, change)
            if task.gated:
                _add(self.gated, task.kind.request, change)

    # Gangs.

    @property
    def is_half_bound(self) -> bool:
        """Some of the gang are seen on their nodes, but it has never been whole."""
        return (
            (TaskStatus.BOUND in self.by_status or TaskStatus.RUNNING in self.by_status)
            and self.phase == PodGroupPhase.INQUEUE
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
    at_gate: list[Task] = field(default_factory=list[Task])
    """Pending tasks that only their queue's gate holds, in the order of their turns."""
    kept: dict[TaskClass, int] = field(default_factory=dict[TaskClass, int])
    """For how many pods of a class, without a place yet, its queue keeps room."""
    placed: dict[str, int] = field(default_factory=dict[str, int])
    pipelined: dict[str, int] = field(default_factory=dict[str, int])
    evicted: dict[str, int] = field(default_factory=dict[str, int])
    """Per role: how many have found a place, wait for one to come free, must give theirs up."""
    settled: int = 0
    """How many of those that found a place are no longer among the waiting."""
    _moved: dict[str, tuple[Task, bool]] = field(default_factory=dict[str, tuple[Task, bool]])
    """Pods of sub-groups that found a place in this cycle, and whether it is still taken."""
    _lost: dict[str, Task] = field(default_factory=dict[str, Task])

    @property
    def key(self) -> JobKey:
        return self.job.key

    @property
    def seated(self) -> int:
        """How many of the waiting have found a place in this turn, for now or for later."""
        return _sum(self.placed, None) + _sum(self.pipelined, None) - self.settled

    def keep(self, left: list[Task]) -> None:
        """Those that found a place have it; these still wait."""
        self.settled += self.seated
        self.waiting = left

    def wait_again(self, tasks: Sequence[Task]) -> None:
        """Those that had a place wait for one, before its others."""
        self.settled += self.seated
        small = [task for task in tasks if task.kind.is_best_effort]
        self.waiting = [*(t for t in tasks if not t.kind.is_best_effort), *self.waiting]
        self.best_effort = [*small, *self.best_effort]

    def keep_room(self, kind: TaskClass, count: int) -> None:
        """Its queue keeps room for so many more pods of this class, or less."""
        self.kept[kind] = self.kept.get(kind, 0) + count

    def note_placed(self, tasks: Sequence[Task], *, pipelined: bool, sign: int) -> None:
        """Tasks of one role got a place, or with sign -1 have none after all."""
        by_role = self.pipelined if pipelined else self.placed
        role = tasks[0].role
        by_role[role] = by_role.get(role, 0) + sign * len(tasks)
        if self.kept:
            self.keep_room(tasks[0].kind, -sign * let_through(tasks))
        if self.job.grouping is not None:
            for task in tasks:
                if sign > 0:
                    self._moved[task.uid] = (task, pipelined)
                else:
                    self._moved.pop(task.uid, None)

    def note_evicted(self, task: Task, *, sign: int) -> None:
        self.evicted[task.role] = self.evicted.get(task.role, 0) + sign
        if self.job.grouping is not None:
            if sign > 0:
                self._lost[task.uid] = task
            else:
                self._lost.pop(task.uid, None)

    @property
    def has_place(self) -> bool:
        """Whether this cycle has found a place for any of it, now or later."""
        return any(self.placed.values()) or any(self.pipelined.values())

    def ready(self, role: str | None = None) -> int:
        """How many count towards the minimum, what this cycle did included."""
        standing = self.job.ready if role is None else self.job.count(*READY, role=role)
        return standing + _sum(self.placed, role) - _sum(self.evicted, role)

    def ready_or_pipelined(self, role: str | None = None) -> int:
        return self.ready(role) + _sum(self.pipelined, role)

    def valid(self, role: str | None = None) -> int:
        return self.job.count(*VALID, role=role)

    @property
    def deficit(self) -> int:
        """How many more must be ready; pods that need no room are sure of their place."""
        short = self.job.min_member - self.ready() - len(self.best_effort)
        return max(0, short)  # asked several times per job and turn

    def role_deficits(self, *, pipelined: bool = False) -> dict[str, int]:
        """Per role that is short of its minimum: of how many; with `pipelined` even later."""
        if not self.job.role_minimums:
            return {}
        return self._deficits(self.ready_or_pipelined if pipelined else self.ready)

    def _deficits(self, have: _CountOf) -> dict[str, int]:
        """Per role: how many it is short of; pods that need no room are sure of theirs."""
        missing = {role: least - have(role) for role, least in self.job.role_minimums.items()}
        for task in self.best_effort:
            if task.role in missing:
                missing[task.role] -= 1
        return {role: number for role, number in missing.items() if number > 0}

    def until_ready(self, role: str) -> int | None:
        """How many more of this role complete the gang; None when other roles are missing too."""
        missing = self.role_deficits()
        own = missing.pop(role, 0)
        return None if missing else max(own, self.deficit)

    def of_use(self, role: str, *, pipelined: bool = False) -> int:
        """How many more of this role the gang needs, when of others those come that must."""
        have = self.ready_or_pipelined() if pipelined else self.ready()
        missing = self.role_deficits(pipelined=pipelined)
        own = missing.pop(role, 0)
        short = self.job.min_member - have - len(self.best_effort)
        return max(own, short - sum(missing.values()))

    def group_counts(self, *, pipelined: bool) -> dict[GroupKey, int]:
        """Ready pods of each sub-group; with `pipelined` also those that wait for room."""
        grouping = self.job.grouping
        if grouping is None:
            return {}
        standing = [task for task in self.job.in_status(*READY) if task.uid not in self._lost]
        standing += [task for task, waits in self._moved.values() if pipelined or not waits]
        return grouping.count(standing)

    def missing_groups(self, *, pipelined: bool) -> int:
        grouping = self.job.grouping
        return grouping.missing(self.group_counts(pipelined=pipelined)) if grouping else 0

    @property
    def pods_for_groups(self) -> int:
        """How many of the waiting must find a place for the sub-groups that are missing."""
        grouping = self.job.grouping
        if grouping is None:
            return 0
        return grouping.pods_missing(
            self.group_counts(pipelined=True), grouping.count(self.waiting)
        )

    @property
    def is_ready(self) -> bool:
        if self.deficit:
            return False
        return not self.role_deficits() and not self.missing_groups(pipelined=False)

    @property
    def is_pipelined(self) -> bool:
        """Complete, if what is ending now ends."""
        short = self.job.min_member - self.ready_or_pipelined() - len(self.best_effort)
        return (
            short <= 0
            and not self._deficits(self.ready_or_pipelined)
            and not self.missing_groups(pipelined=True)
        )

    @property
    def is_starving(self) -> bool:
        """Below its minimum, even if what is ending now ends."""
        return self.ready_or_pipelined() < self.job.min_member


def _move(counts: dict[K, int], what: K, change: int) -> None:
    number = counts.get(what, 0) + change
    if number:
        counts[what] = number
    else:
        counts.pop(what, None)


def _add(total: dict[str, int], amounts: Amounts, times: int) -> None:
    for name, units in amounts:
        left = total.get(name, 0) + units * times
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def _sum(by_role: dict[str, int], role: str | None) -> int:
    if not by_role:
        return 0
    return sum(by_role.values()) if role is None else by_role.get(role, 0)
