"""The extension points: one small Protocol each; a plugin has those it needs.

Which ones a plugin has is found out by its methods, once, when the scheduler is configured.
Orders are sort keys, smaller first. Masks and scores are arrays over nodes. A plugin never
changes what it is shown; what it remembers of a cycle begins anew with `opened`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import Amounts, BoolPerNode, FloatPerNode, IntVector

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

__all__ = [
    "Build",
    "Enqueueable",
    "Filter",
    "JobOrder",
    "JobPipelined",
    "JobReady",
    "JobValid",
    "NodeState",
    "Opened",
    "PlacementListener",
    "Plugin",
    "QueueOrder",
    "Refusal",
    "Score",
    "SortKey",
    "Verdict",
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which nodes pass one filter, and what is said of those that do not."""

    reason: str
    passes: BoolPerNode


class NodeState(Protocol):
    """Some nodes as they would be; entry i of every vector is about the same node."""

    @property
    def request(self) -> Amounts:
        """What is about to be placed; not yet part of `used`."""
        ...

    def allocatable(self, resource: str) -> IntVector: ...

    def used(self, resource: str) -> IntVector: ...


class Plugin(Protocol):
    """Any plugin."""

    @property
    def name(self) -> str: ...


Build: TypeAlias = "type[Plugin] | _Builder"


class _Builder(Protocol):
    def __call__(self, arguments: Mapping[str, Any], /) -> Plugin: ...


@runtime_checkable
class Opened(Protocol):
    """Looks at the cluster when a cycle begins."""

    def opened(self, session: "Session") -> None: ...


@runtime_checkable
class JobOrder(Protocol):
    def job_order(self, contender: Contender) -> SortKey: ...


@runtime_checkable
class QueueOrder(Protocol):
    def queue_order(self, queue: QueueInfo) -> SortKey: ...


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
class Enqueueable(Protocol):
    """May the job's pods be created? Decided tier by tier; all are told of those that may."""

    def enqueueable(self, contender: Contender) -> Vote: ...

    def enqueued(self, contender: Contender) -> None: ...

    def refusal(self, contender: Contender) -> Refusal: ...


@runtime_checkable
class Filter(Protocol):
    """Which nodes are out of the question for a class, whatever room they have."""

    def feasible(self, kind: TaskClass, nodes: NodeTable) -> list[Verdict]: ...


@runtime_checkable
class Score(Protocol):
    """How good each node is for one more pod; the sum over all plugins decides."""

    def score(self, state: NodeState) -> FloatPerNode: ...


@runtime_checkable
class PlacementListener(Protocol):
    """Keeps account of what a trial does, and undoes when the trial is rolled back."""

    def placed(self, contender: Contender, request: Amounts, count: int) -> None: ...

    def withdrawn(self, contender: Contender, request: Amounts, count: int) -> None: ...
