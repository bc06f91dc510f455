"""The extension points: one small Protocol each; a plugin has those it needs.

Which ones a plugin has is found out by its methods, once, when the scheduler is configured.
Orders are sort keys, smaller first. Masks and scores are arrays over nodes. A plugin never
changes what it is shown; what it remembers of a cycle begins anew with `opened`, and everything
that a cycle tried and did not keep has been taken back through the listeners by then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.reasons import Unblock
from stromboli.scheduling.remote import Remote
from stromboli.scheduling.resources import (
    Amounts,
    BoolPerNode,
    FloatPerNode,
    IntMatrix,
    IntVector,
    ResourceIndex,
    added,
)

if TYPE_CHECKING:
    from stromboli.scheduling.neighbours import Neighbours
    from stromboli.scheduling.network import Network
    from stromboli.scheduling.session import Session
    from stromboli.scheduling.trial import Eviction, Placement

__all__ = [
    "Allocatable",
    "Blocked",
    "Build",
    "Claim",
    "Closed",
    "Closeness",
    "Company",
    "CompanyScore",
    "Connecting",
    "Counting",
    "DomainGradient",
    "DomainOrder",
    "Enqueueable",
    "Enqueued",
    "Evictable",
    "FewDomains",
    "Filter",
    "Gathering",
    "JobOrder",
    "JobPipelined",
    "JobReady",
    "JobStarving",
    "JobValid",
    "LastFilter",
    "NodeState",
    "Opened",
    "Overused",
    "Partial",
    "PlacementListener",
    "Plugin",
    "PreFilter",
    "Preemptable",
    "Preemptive",
    "Preference",
    "Protector",
    "Protects",
    "QueueFilter",
    "QueueOrder",
    "QueuePreference",
    "QueueRoom",
    "Reclaimable",
    "Refusal",
    "RoomLimit",
    "Score",
    "SortKey",
    "TaskOrder",
    "Verdict",
    "VictimQueueOrder",
    "VictimTasks",
    "Vote",
]

SortKey: TypeAlias = tuple[Any, ...]


class Vote(IntEnum):
    """How a plugin answers where several are asked."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job may not go on, with Volcano's reason and wording."""

    reason: str
    message: str
    short_by: Amounts = ()
    code: str = ""
    """The reason in our words (`explain.Code`), where the asker can't know it."""
    sentence: str = ""
    """For people: who refuses, short of what, and who has it."""
    need: Amounts = ()
    """What the queue must have room for before asking again can help; empty: nobody knows."""
    unblock: Unblock | None = None
    """What would help, where the code alone does not say it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which nodes pass one filter, and what is said of those that do not."""

    reason: str
    passes: BoolPerNode


@dataclass(frozen=True, slots=True)
class Claim:
    """Who wants others to make room: one pod of a job, or for whole gangs several."""

    contender: Contender
    tasks: tuple[Task, ...]

    @property
    def task(self) -> Task:
        return self.tasks[0]

    @property
    def request(self) -> Amounts:
        """Of all its pods together."""
        if len(self.tasks) == 1:
            return self.tasks[0].kind.request
        return added(task.kind.request for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Gathering:
    """Pods that are to stand together: those of a job, or of a sub-group."""

    request: Amounts
    """Of all its pods, wherever they stand."""
    pods: int
    standing: IntVector
    """Slots of those that have a place, one for each."""


class NodeState(Protocol):
    """Some nodes as they would be; entry i of every vector is about the same node."""

    @property
    def slots(self) -> IntVector:
        """Which nodes; one may be there several times, as it would be after so many pods."""
        ...

    @property
    def kind(self) -> TaskClass:
        """Whose pods are about to be placed."""
        ...

    @property
    def request(self) -> Amounts:
        """What is about to be placed; not yet part of `used`."""
        ...

    def allocatable(self, resource: str) -> IntVector: ...

    def used(self, resource: str) -> IntVector: ...


@runtime_checkable
class Plugin(Protocol):
    """Any plugin."""

    @property
    def name(self) -> str: ...


Build: TypeAlias = "type[Plugin] | _Builder"


class _Builder(Protocol):
    def __call__(self, arguments: Mapping[str, Any], /) -> Plugin: ...


# A plugin begins.


@runtime_checkable
class Partial(Protocol):
    """Has no say, as it is configured, in some points that it has the methods of."""

    @property
    def lacks(self) -> frozenset[type]: ...


@runtime_checkable
class Connecting(Protocol):
    """Asks somebody else. Raises Unconnected where there is no way out."""

    def connect(self, remote: Remote | None) -> None: ...


# A cycle begins and ends.


@runtime_checkable
class Opened(Protocol):
    """Looks at the cluster when a cycle begins."""

    def opened(self, session: "Session") -> None: ...


@runtime_checkable
class Closed(Protocol):
    """Looks at what a cycle decided when it is over."""

    def closed(self, session: "Session") -> None: ...


@runtime_checkable
class PlacementListener(Protocol):
    """Keeps account of what a trial does, and undoes when the trial is rolled back."""

    def placed(self, placement: "Placement") -> None: ...

    def withdrawn(self, placement: "Placement") -> None: ...

    def evicted(self, eviction: "Eviction") -> None: ...

    def restored(self, eviction: "Eviction") -> None: ...


# Orders: the first difference over all plugins decides.


@runtime_checkable
class JobOrder(Protocol):
    def job_order(self, contender: Contender) -> SortKey: ...


@runtime_checkable
class QueueOrder(Protocol):
    def queue_order(self, queue: QueueInfo) -> SortKey: ...


@runtime_checkable
class TaskOrder(Protocol):
    """Among the pods of one job."""

    def task_order(self, task: Task) -> SortKey: ...


@runtime_checkable
class VictimQueueOrder(Protocol):
    """Which queue gives way first; without an opinion it is the last by `queue_order`."""

    def victim_queue_order(self, queue: QueueInfo, claimant: QueueInfo) -> SortKey: ...


# Jobs.


@runtime_checkable
class JobValid(Protocol):
    """Refuses jobs that can't be placed whatever the cluster has; the first refusal counts."""

    def invalid(self, contender: Contender) -> Refusal | None: ...


@runtime_checkable
class JobReady(Protocol):
    """All that have an opinion must agree before anything of the job is bound."""

    def job_ready(self, contender: Contender) -> bool: ...


@runtime_checkable
class JobPipelined(Protocol):
    """May the job keep what it holds until other pods have ended? Decided tier by tier."""

    def job_pipelined(self, contender: Contender) -> Vote: ...


@runtime_checkable
class JobStarving(Protocol):
    """May the job take from others? The first tier with an opinion decides, by all in it."""

    def job_starving(self, contender: Contender) -> bool: ...


@runtime_checkable
class Blocked(Protocol):
    """Is told of jobs whose turn passed without their finding a place."""

    def blocked(self, contender: Contender, lacking: Amounts) -> None:
        """`lacking` is what its queue is short of; empty where only nodes lack room."""
        ...


@runtime_checkable
class Enqueueable(Protocol):
    """May the job's pods be created? Decided tier by tier; a refusal is a vote against."""

    def enqueueable(self, contender: Contender) -> Vote | Refusal: ...


@runtime_checkable
class Enqueued(Protocol):
    """Is told of every job that was admitted, by whatever votes."""

    def enqueued(self, contender: Contender) -> None: ...


# Queues.


@runtime_checkable
class Overused(Protocol):
    """One that says so is enough: then the queue gets nothing more in this cycle."""

    def overused(self, queue: QueueInfo) -> bool: ...


@runtime_checkable
class Allocatable(Protocol):
    """How many more pods of one class a queue may take; the smallest answer counts."""

    def how_many(
        self, queue: QueueInfo, contender: Contender, kind: TaskClass, want: int
    ) -> int: ...

    def why_not(self, queue: QueueInfo, contender: Contender, kind: TaskClass) -> Refusal:
        """Asked only after `how_many` was less than wanted."""
        ...


@runtime_checkable
class RoomKeeper(Protocol):
    """Keeps room in a queue for pods that may pass its gate, until they have a place."""

    def keep_room(self, contender: Contender, kind: TaskClass, count: int) -> None:
        """For so many pods more of this class; less, if `count` is negative."""
        ...


@runtime_checkable
class QueueRoom(Protocol):
    """Whether jobs that a queue refused are worth waking; asked when a cycle has opened.

    `need` is what the refusal said, or empty for jobs of a queue that was overused. A wrong
    "no" makes a job sleep too long, a wrong "yes" only costs a look.
    """

    def has_room(self, queue: QueueInfo, need: Amounts, *, admitted: bool) -> bool: ...


@runtime_checkable
class Preemptive(Protocol):
    """May the queue take this much from other queues? All must agree."""

    def preemptive(self, queue: QueueInfo, claim: Claim) -> bool: ...


# Victims. None abstains; an empty answer is a veto in its tier.


@runtime_checkable
class Preemptable(Protocol):
    """Who may give way to a pod of the same queue."""

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None: ...


@runtime_checkable
class Reclaimable(Protocol):
    """Who may give way to a pod of another queue."""

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None: ...


@runtime_checkable
class Evictable(Protocol):
    """Who may give way to a whole gang, of the same queue or of another (`reclaiming`)."""

    def evictable(
        self, claim: Claim, candidates: Sequence[Task], *, reclaiming: bool
    ) -> Sequence[Task] | None: ...


@runtime_checkable
class Protects(Protocol):
    """Names victims only to protect all others, and these nobody takes, whatever tiers say."""

    protects: bool


@runtime_checkable
class Protector(Protocol):
    """Keeps pods from being asked at all, whatever the tiers say; one is enough."""

    def may_go(self, task: Task) -> bool: ...


@runtime_checkable
class VictimTasks(Protocol):
    """Who should go for its own sake (`shuffle`); the first tier that names any decides."""

    def victims(self, running: Sequence[Task]) -> Sequence[Task]: ...


# Nodes.


@runtime_checkable
class PreFilter(Protocol):
    """Refuses a class of pods before any node is looked at."""

    def hopeless(self, contender: Contender, kind: TaskClass) -> Refusal | None: ...


@runtime_checkable
class Filter(Protocol):
    """Which nodes are out of the question for a class, whatever room they have."""

    def feasible(self, kind: TaskClass, nodes: NodeTable) -> list[Verdict]: ...


@runtime_checkable
class LastFilter(Protocol):
    """Asked after all other filters, and only about the nodes that they left."""

    def last_verdict(
        self, contender: Contender, kind: TaskClass, nodes: NodeTable, left: BoolPerNode
    ) -> Verdict | None: ...


@runtime_checkable
class RoomLimit(Protocol):
    """How many pods of a class nodes can take, where that is less than they have room for."""

    def room_for(
        self, kind: TaskClass, resources: ResourceIndex, free: IntMatrix
    ) -> IntVector | None:
        """`free` has a column for each node; None where there is nothing to say."""
        ...


@runtime_checkable
class Counting(Protocol):
    """Whether each pod of a job changes what `Company` says of the next, so that all are asked."""

    def counts(self, contender: Contender) -> bool: ...


@runtime_checkable
class Score(Protocol):
    """How good each node is for one more pod; the sum over all plugins decides."""

    def score(self, state: NodeState) -> FloatPerNode: ...


@runtime_checkable
class Preference(Protocol):
    """How much a class likes each node, whatever stands there; None where it does not care."""

    def preferences(
        self, kind: TaskClass, nodes: NodeTable, feasible: BoolPerNode
    ) -> FloatPerNode | None: ...


@runtime_checkable
class QueueFilter(Protocol):
    """Which nodes are out of the question for the jobs of a queue."""

    def feasible_in(self, queue: QueueInfo, kind: TaskClass, nodes: NodeTable) -> list[Verdict]: ...


@runtime_checkable
class QueuePreference(Protocol):
    """How much the jobs of a queue like each node."""

    def preferences_in(
        self, queue: QueueInfo, kind: TaskClass, nodes: NodeTable
    ) -> FloatPerNode | None: ...


@runtime_checkable
class Company(Protocol):
    """Which nodes a pod can't share with those that stand there, or were just placed there."""

    def tolerable(self, task: Task, neighbours: "Neighbours") -> list[Verdict]: ...


@runtime_checkable
class CompanyScore(Protocol):
    """How much a pod likes its neighbours on each node."""

    def sociability(
        self, task: Task, neighbours: "Neighbours", feasible: BoolPerNode
    ) -> FloatPerNode | None: ...


# Parts of the network.


@runtime_checkable
class DomainGradient(Protocol):
    """Which domains in another may be tried, tier by tier; the first plugin alone is asked.

    None of them is above `tier`. With `evicting` room is to be made there.
    """

    def gradients(
        self, network: "Network", root: int, tier: int, *, evicting: bool
    ) -> list[IntVector]: ...


@runtime_checkable
class FewDomains(Protocol):
    """Says that trying many domains to make room in them is not worth the while."""

    most_domains: int


@runtime_checkable
class DomainOrder(Protocol):
    """How good each of these domains is for pods that are to stand together."""

    def domain_scores(self, gathering: Gathering, domains: IntVector) -> FloatPerNode: ...


@runtime_checkable
class Closeness(Protocol):
    """How much a pod likes each node for its place in the network; None where it does not care.

    Asked before each batch of equal pods, since what was placed before changes the answer.
    """

    def closeness(self, contender: Contender, task: Task) -> FloatPerNode | None: ...
