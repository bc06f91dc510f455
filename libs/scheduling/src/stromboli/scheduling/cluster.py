"""The facts, as the arrays and records that decisions are made from.

Everything in here is a cache of facts and of our own unanswered questions: facts in any order
lead to the same state. What can't be reckoned with is set aside with its reason, and everything
else goes on. While facts are taken in, it is noted what they could change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from stromboli.api.core import Namespace, Node, Pod, PriorityClass
from stromboli.api.fieldtypes import ResourceList
from stromboli.api.scheduling import PodGroup, PodGroupPhase, Queue
from stromboli.api.topology import HyperNode
from stromboli.contracts.intents import BindGang
from stromboli.contracts.stimuli import FactChanged
from stromboli.scheduling.aside import Aside, group_named
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.fact_reading import UnfitPod
from stromboli.scheduling.hypernodes import HyperNodes, read_hyper_node
from stromboli.scheduling.jobs import ALLOCATED, Job
from stromboli.scheduling.ledger import Ledger
from stromboli.scheduling.loads import NO_LOADS, Loads
from stromboli.scheduling.neighbours import Domains, Neighbourhood
from stromboli.scheduling.nodes import NodeTable, read_node
from stromboli.scheduling.occupancy import Occupancy
from stromboli.scheduling.pods import (
    JobKey,
    PodKey,
    QueueGate,
    Task,
    TaskClass,
    TaskStatus,
    are_alike,
    read_task,
)
from stromboli.scheduling.queues import QueueInfo, read_queue
from stromboli.scheduling.resources import ResourceIndex
from stromboli.scheduling.trial import Placement
from stromboli.scheduling.volumes import KINDS as OF_VOLUMES
from stromboli.scheduling.volumes import ClaimBook

__all__ = ["FOR_PLUGINS", "Changes", "Cluster"]

FOR_PLUGINS: Final[tuple[str, ...]] = (
    "namespace",
    "poddisruptionbudget",
    "resourcequota",
    *OF_VOLUMES,
)
"""Kinds that only plugins read; the facts are kept as they are."""


@dataclass(slots=True)
class Changes:
    """What may have a different answer now."""

    jobs: dict[JobKey, None] = field(default_factory=dict[JobKey, None])
    queues: dict[str, None] = field(default_factory=dict[str, None])
    capacity: bool = False
    """Room came free, or will soon."""
    nodes: bool = False
    claims: bool = False
    """An admitted job got what it needs, or is gone."""
    company: bool = False
    """Somebody came or went, and there are pods that care who stands where."""
    others: bool = False
    """Facts that only plugins read."""
    volumes: bool = False
    """Claims and volumes, of which most jobs have none."""
    started: bool = False
    """Pods of ours that others could be asked to give up."""
    oddities: bool = False
    """Something can't be reckoned with; that helps nobody, but is to be told."""
    everything: bool = False

    def __bool__(self) -> bool:
        flags = (
            self.capacity,
            self.nodes,
            self.claims,
            self.company,
            self.others,
            self.volumes,
            self.oddities,
            self.everything,
        )
        return bool(self.jobs or self.queues) or any(flags)


class Cluster:
    """All that the scheduler knows."""

    def __init__(self, conf: SchedulingConf) -> None:
        self._scheduler_names = frozenset(conf.scheduler_names)
        self._default_queue = conf.default_queue
        self._node_selector = conf.node_selector
        self.resources = ResourceIndex()
        self.nodes = NodeTable(self.resources)
        self.occupancy = Occupancy(self.nodes)
        self.neighbourhood = Neighbourhood()
        self.domains = Domains()
        self.claim_book = ClaimBook()
        self.hyper_nodes = HyperNodes()
        self.loads: Loads = NO_LOADS
        self.ledger = Ledger()
        self.jobs: dict[JobKey, Job] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.aside = Aside()
        self.changes = Changes()
        self.wanting: dict[JobKey, None] = {}
        """Jobs that were admitted and do not hold their minimum."""
        self.dirty: dict[JobKey, None] = {}
        """Jobs that changed, by facts or by our own doing, since this was last emptied."""
        self.queue_usage: dict[str, ResourceList] = {}
        """What the status of each queue says that its pods use; emptied by who compares it."""
        self.nominated: dict[str, str] = {}
        """By uid: the node where others make room for a pod that waits."""
        self._others: dict[str, dict[tuple[str, str], Any]] = {kind: {} for kind in FOR_PLUGINS}
        self._by_uid: dict[str, Task] | None = None
        """Our pods, kept only from the moment when somebody asks who stands where."""
        self._tasks: dict[PodKey, Task] = {}
        self._kinds: set[TaskClass] = set()
        """Classes whose resources all have a row."""
        self._priority_classes: dict[str, PriorityClass] = {}

    def take_changes(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        return changes

    def take_dirty(self) -> list[JobKey]:
        dirty, self.dirty = self.dirty, {}
        return sorted(dirty)

    def look_at_everything(self) -> None:
        """Nothing that was derived from the facts holds any more."""
        self.dirty.update(dict.fromkeys(self.jobs))
        self.changes.everything = True
        self.changes.nodes = True
        self.changes.queues.update(dict.fromkeys(self.queues))

    def unusable(self) -> dict[tuple[str, str, str], str]:
        """Whatever can't be reckoned with, by kind, namespace and name, and why."""
        self.nodes.settle()
        self.hyper_nodes.network(self.nodes)
        apart = self.hyper_nodes.problems
        return self.aside.why | {("hypernode", "", name): why for name, why in apart.items()}

    def objects(self, kind: str) -> Mapping[tuple[str, str], Any]:
        return self._others[kind]

    def tenants(self, node: str) -> Iterable[Task]:
        """Our pods that stand on a node, or are promised one."""
        if self._by_uid is None:
            self._by_uid = {task.uid: task for task in self._tasks.values() if task.group}
        by_uid = self._by_uid
        return (by_uid[uid] for uid in self.occupancy.on_node(node) if uid in by_uid)

    # Facts.

    def apply_all(self, facts: Iterable[FactChanged]) -> None:
        """As `apply` one after the other, but pods of a gang that arrive together count at once."""
        together: list[Task] = []
        tasks, is_promised = self._tasks, self.ledger.is_promised
        for fact in facts:
            task = fact.after
            key = (fact.namespace, fact.name)
            if isinstance(task, Task) and key not in tasks and not is_promised(task.uid):
                if together and are_alike(together[0], task) and not task.nominated:
                    tasks[key] = task
                    together.append(task)
                    continue
                if self._only_arrives(task):
                    self._arrived(together)
                    tasks[key] = task
                    together = [task]
                    continue
            self._arrived(together)
            together = []
            self.apply(fact)
        self._arrived(together)

    def _only_arrives(self, task: Task) -> bool:
        """Whether all there is to the fact of a new pod is one more of a gang that waits."""
        return (
            task.status is TaskStatus.PENDING
            and bool(task.group)
            and task.kind.social is None
            and not task.kind.claims
            and not task.nominated
            and not self.aside.why
        )

    def _arrived(self, tasks: list[Task]) -> None:
        if not tasks:
            return
        if self._by_uid is not None:
            self._by_uid.update({task.uid: task for task in tasks})
        if self.neighbourhood.is_active:
            self.changes.company = True
        self._meet(tasks[0].kind)
        key = tasks[0].job
        self._job(key).put_new(tasks)
        self._job_changed(key)

    def apply(self, fact: FactChanged) -> None:
        before = self._no_longer_aside(fact)
        item: Any = fact.after
        try:
            match item:
                case Task():
                    self._pod_seen((fact.namespace, fact.name), item)
                case Pod():
                    task = read_task(item, self._scheduler_names)
                    self._pod_seen((fact.namespace, fact.name), task)
                case UnfitPod(problem):
                    raise problem
                case Node():
                    self._node_seen(item)
                case PodGroup():
                    self._pod_group_changed(fact, item)
                case Queue():
                    self._queue_seen(fact.name, item)
                case PriorityClass():
                    self._priority_classes[fact.name] = item
                    self._priorities_changed()
                case None:
                    self._gone(fact)
                case _:
                    self._other_seen(fact, item)
        except BadFact as bad:
            self._gone(fact)
            self._put_aside(fact, bad, before)

    def _put_aside(self, fact: FactChanged, bad: BadFact, before: str) -> None:
        group = group_named(fact.after, self._scheduler_names)
        key = (fact.namespace, group) if group else None
        if key is not None:
            self._job(key).unfit[fact.name] = bad.problem
            self._job_changed(key)
        if self.aside.put(fact, bad, before=before, job=key):
            self.changes.oddities = True

    def _no_longer_aside(self, fact: FactChanged) -> str:
        """Why it was set aside until now; empty if it was not."""
        before, key = self.aside.take_back(fact)
        if key is not None:
            job = self._job(key)
            job.unfit.pop(fact.name, None)
            self._job_changed(key)
            self._forget_if_empty(job)
        return before

    def _other_seen(self, fact: FactChanged, item: Any) -> None:
        if isinstance(item, HyperNode):
            if self.hyper_nodes.put(read_hyper_node(item)):
                self._network_changed()
            return
        known = self._others.get(fact.kind)
        if known is None:
            return  # a kind that this core does not read
        known[fact.namespace, fact.name] = item
        if isinstance(item, Namespace):
            self.neighbourhood.namespace_is(fact.name, item.metadata.labels)
        self._other_changed(fact.kind)

    def _gone(self, fact: FactChanged) -> None:
        match fact.kind:
            case "pod":
                self._pod_gone((fact.namespace, fact.name))
            case "node":
                self._node_gone(fact.name)
            case "vcpodgroup":
                self._pod_group_changed(fact, None)
            case "queue":
                self.queues.pop(fact.name, None)
                self.changes.queues[fact.name] = None
            case "hypernode":
                if self.hyper_nodes.remove(fact.name):
                    self._network_changed()
            case "priorityclass":
                self._priority_classes.pop(fact.name, None)
                self._priorities_changed()
            case other:
                if self._others.get(other, {}).pop((fact.namespace, fact.name), None) is not None:
                    self._other_changed(other)

    def _other_changed(self, kind: str) -> None:
        if kind not in OF_VOLUMES:
            self.changes.others = True
        elif kind == "csinode":
            self.changes.nodes = True
        else:
            self.changes.volumes = True

    def _priorities_changed(self) -> None:
        for job in self.jobs.values():
            job.priority = self.priority_of(job)
        self.changes.everything = True

    def _queue_seen(self, name: str, queue: Queue) -> None:
        self.queue_usage[name] = queue.status.allocated
        info = read_queue(queue)
        if self.queues.get(name) != info:
            self.queues[name] = info
            self.changes.queues[name] = None

    def _is_ours(self, node: Node) -> bool:
        labels, selector = node.metadata.labels, self._node_selector
        return not selector or any(labels.get(key) == value for key, value in selector)

    def _node_seen(self, node: Node) -> None:
        if not self._is_ours(node):
            self._node_gone(node.metadata.name)
            return
        facts, allocatable = read_node(node)
        self.occupancy.node_came(facts, allocatable)
        self.changes.nodes = self.changes.capacity = True

    def _node_gone(self, name: str) -> None:
        if name in self.nodes:
            self.nodes.remove(name)
            self.changes.nodes = True

    def _network_changed(self) -> None:
        self.changes.nodes = self.changes.capacity = True

    def _pod_group_changed(self, fact: FactChanged, pod_group: PodGroup | None) -> None:
        key = (fact.namespace, fact.name)
        job = self._job(key)
        if pod_group is not None and job.uid != pod_group.metadata.uid:
            job.forget_asked()
        job.read(pod_group, fact.resource_version)
        job.priority = self.priority_of(job)
        self._job_changed(key)
        if pod_group is None:
            self.changes.claims = True
            self._forget_if_empty(job)

    def _pod_seen(self, key: PodKey, task: Task) -> None:
        before = self._tasks.get(key)
        if before is not None and before.uid != task.uid:
            self._pod_gone(key)
            before = None
        promise = self.ledger.promise_to(task.uid)
        if promise is not None:
            if task.status is TaskStatus.PENDING and not task.node:
                task = replace(task, status=TaskStatus.BINDING, node=promise.node)
            else:
                self.ledger.settle(task.uid)
        if self.ledger.is_opening(task.uid):
            task = self._still_opening(task)
        if task.status is TaskStatus.RELEASING:
            self.ledger.evicted(task.uid)
        elif task.takes_room and self.ledger.is_evicting(task.uid):
            self.ledger.still_there(task)
            task = replace(task, status=TaskStatus.RELEASING)
        if task == before or self._says_only_what_we_wrote(before, task):
            return
        self._remember(key, task)
        self._meet(task.kind)
        self._occupy(task)
        self._settle(task)
        if before is not None and before.group and before.group != task.group:
            self._leave_job(before)
        if task.group:
            self._job(task.job).put(task)
            self._job_changed(task.job)
            self._note_standing(task)

    def _still_opening(self, task: Task) -> Task:
        """A pod whose gate we asked to be taken off changed."""
        if task.queue_gate is QueueGate.CLOSED:
            return replace(task, queue_gate=QueueGate.OPENING)
        self.ledger.opened(task.uid)
        return task

    def _says_only_what_we_wrote(self, before: Task | None, task: Task) -> bool:
        """Conditions and nominated nodes of waiting pods are our own words: no news for a job."""
        if before is None or task.status is not TaskStatus.PENDING or not task.group:
            return False
        if task != replace(before, conditions=task.conditions, nominated=task.nominated):
            return False
        self._replace(task)
        self._note_standing(task)
        return True

    def _note_standing(self, task: Task) -> None:
        if task.status is not TaskStatus.PENDING:
            self.nominated.pop(task.uid, None)
        elif task.nominated:
            self.nominated[task.uid] = task.nominated
        if task.status in {TaskStatus.BOUND, TaskStatus.RUNNING}:
            self.changes.started = True

    def _meet(self, kind: TaskClass) -> None:
        """Have a row for all that a class asks for; almost always it is an old acquaintance."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            for resource, _ in kind.request:
                self.resources.row(resource)

    def _remember(self, key: PodKey, task: Task) -> None:
        self._tasks[key] = task
        if self._by_uid is not None and task.group:
            self._by_uid[task.uid] = task

    def _job_changed(self, key: JobKey) -> None:
        self.changes.jobs[key] = None
        self.dirty[key] = None

    def _occupy(self, task: Task) -> None:
        occupancy = self.occupancy
        freed = occupancy.occupy(task) if task.takes_room else occupancy.vacate(task.uid)
        self.changes.capacity = self.changes.capacity or freed

    def _settle(self, task: Task) -> None:
        """Others may care where it stands, or that it does not."""
        if task.kind.claims:
            self.claim_book.stands(task)
        if self.neighbourhood.is_active:
            self.neighbourhood.stands(task)
            self.changes.company = True
        elif task.kind.social is not None:
            self.neighbourhood.activate(self._tasks.values())

    def _pod_gone(self, key: PodKey) -> None:
        task = self._tasks.pop(key, None)
        if task is None:
            return
        if self.neighbourhood.is_active:
            self.neighbourhood.left(task.uid)
            self.changes.company = True
        if task.kind.claims:
            self.claim_book.left(task)
        if self._by_uid is not None:
            self._by_uid.pop(task.uid, None)
        self.nominated.pop(task.uid, None)
        self.ledger.settle(task.uid)
        self.ledger.evicted(task.uid)
        self.ledger.opened(task.uid)
        if self.occupancy.vacate(task.uid):
            self.changes.capacity = True
        if task.group:
            self._leave_job(task)

    def _leave_job(self, task: Task) -> None:
        job = self._job(task.job)
        job.drop(task.uid)
        self._job_changed(task.job)
        if task.status is TaskStatus.PENDING:
            # Nobody wants what it waited for: others may deserve it now.
            self.changes.claims = True
        self._forget_if_empty(job)

    def _job(self, key: JobKey) -> Job:
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(key)
        return job

    def _forget_if_empty(self, job: Job) -> None:
        if job.pod_group is None and not job.tasks and not job.unfit:
            self.jobs.pop(job.key, None)
            self.wanting.pop(job.key, None)

    # Our own doing.

    def promise(self, placements: Sequence[Placement]) -> list[list[Task]]:
        """These pods are asked to be bound; until it is settled they count as on their nodes.

        Returns them as they are now, placement by placement.
        """
        facts = self.nodes.facts
        all_bound: list[list[Task]] = []
        for placement in placements:
            bound = [
                replace(task, status=TaskStatus.BINDING, node=facts[slot].name)
                for task, slot in zip(placement.tasks, placement.slots.tolist(), strict=True)
            ]
            self._tasks.update({(task.namespace, task.name): task for task in bound})
            if self._by_uid is not None:
                self._by_uid.update({task.uid: task for task in bound})
            if self.neighbourhood.is_active or placement.kind.claims:
                for task in bound:
                    self._settle(task)
            job = placement.contender.job
            job.put_promised(bound)
            self.dirty[job.key] = None
            all_bound.append(bound)
        self.occupancy.occupy_many(placements, all_bound)
        return all_bound

    def promised_by(self, intents: list[BindGang], bound: list[Task]) -> None:
        """The intents name the pods in the order in which they were promised their nodes."""
        at = 0
        for intent in intents:
            part = bound[at : at + len(intent.binds)]
            self.ledger.promised(intent.id, (intent.namespace, intent.name), part)
            at += len(part)

    def assume(self, namespace: str, name: str, uid: str, node: str) -> bool:
        """A pod that was bound, or may have been; False if the facts show how it is."""
        key = (namespace, name)
        task = self._tasks.get(key)
        if task is None or task.uid != uid or task.node or task.status is not TaskStatus.PENDING:
            return False
        self.ledger.assume(replace(task, status=TaskStatus.BINDING, node=node))
        self._pod_seen(key, task)
        return True

    def knows(self, task: Task) -> bool:
        """Whether this very pod is still there."""
        found = self._tasks.get((task.namespace, task.name))
        return found is not None and found.uid == task.uid

    def give_back(self, uid: str) -> Task | None:
        """The pod was not bound: its room is free, and it waits again.

        Returns it with the node that it was promised, unless it has one or is gone.
        """
        promise = self.ledger.settle(uid)
        if promise is None:
            return None
        self.occupancy.vacate(uid)
        self.changes.capacity = True
        self._job_changed(promise.job)
        task = self._tasks.get((promise.namespace, promise.name))
        if task is None or task.uid != uid:
            return None
        waits = replace(task, status=TaskStatus.PENDING, node="")
        self._replace(waits)
        self._settle(waits)
        return replace(waits, node=promise.node)

    def told_to_go(self, task: Task, intent_id: str, claimant: JobKey | None) -> None:
        """The pod's eviction was asked for; from now on it counts as ending."""
        self.ledger.evicting(intent_id, task, claimant)
        self._stands(replace(task, status=TaskStatus.RELEASING))

    def stays(self, task: Task) -> None:
        """The eviction was refused: as things stand the pod stays."""
        current = self._tasks.get((task.namespace, task.name))
        ending = current is not None and current.status is TaskStatus.RELEASING
        if current is not None and current.uid == task.uid and ending:
            self._stands(replace(current, status=task.status))

    def opens(self, task: Task, intent_id: str) -> None:
        """The pod's gate was asked to be taken off; its queue keeps room for it from now on."""
        self.ledger.opening(intent_id, task)
        self._replace(replace(task, queue_gate=QueueGate.OPENING))

    def stays_closed(self, task: Task) -> None:
        """The gate is still there: the room that was kept may be given to others."""
        current = self._tasks.get((task.namespace, task.name))
        if (
            current is not None
            and current.uid == task.uid
            and current.queue_gate is QueueGate.OPENING
        ):
            self._replace(replace(current, queue_gate=QueueGate.CLOSED))
            self.changes.claims = True

    def _stands(self, task: Task) -> None:
        self._replace(task)
        self._occupy(task)
        self._settle(task)
        self._job_changed(task.job)

    def _replace(self, task: Task) -> None:
        self._remember((task.namespace, task.name), task)
        self._job(task.job).put(task)
        self.dirty[task.job] = None

    # Derived.

    def queue_name(self, job: Job) -> str:
        return job.queue or self._default_queue

    def priority_of(self, job: Job) -> int:
        """The value of the PodGroup's class, else of the default class, else 0."""
        name = job.pod_group.spec.priority_class_name if job.pod_group else ""
        named = self._priority_classes.get(name)
        if named is not None:
            return named.value
        defaults = [c.value for c in self._priority_classes.values() if c.global_default]
        return max(defaults, default=0)

    def standing_changed(self, job: Job) -> None:
        """The status that we asked for is what counts from now on, or no longer."""
        self.note_want(job)
        self.dirty[job.key] = None

    def note_want(self, job: Job) -> None:
        """Keep `wanting` true for a job that changed."""
        admitted = job.min_resources and job.phase in {PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING}
        if admitted and job.count(*ALLOCATED) < job.min_member:
            self.wanting[job.key] = None
        elif job.key in self.wanting:
            del self.wanting[job.key]
            self.changes.claims = True
