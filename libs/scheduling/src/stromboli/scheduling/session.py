"""One cycle's view of the cluster: a copy of the sums, the jobs that take part, the plugins.

Facts that arrive during a cycle wait for the next one, so everything in here stands still but
for what the trial places. How the plugins' votes are combined is Volcano's: orders by the first
difference, permission tier by tier, readiness by all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.outlook import Outlook
from stromboli.scheduling.placing import place
from stromboli.scheduling.plugins.api import (
    Enqueueable,
    Filter,
    JobOrder,
    JobPipelined,
    JobReady,
    JobValid,
    NodeState,
    Opened,
    PlacementListener,
    Plugin,
    QueueOrder,
    Refusal,
    Score,
    SortKey,
    Verdict,
    Vote,
)
from stromboli.scheduling.pods import JobKey, Task, TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import PODS, BoolPerNode, FloatPerNode, IntMatrix
from stromboli.scheduling.trial import Placement, Trial

if TYPE_CHECKING:
    from stromboli.scheduling.explain import Explanation

__all__ = ["Panel", "Session"]


@dataclass(slots=True)
class Panel:
    """The configured plugins, sorted once by what they have a say in."""

    tiers: Sequence[Sequence[Plugin]]
    opened: list[Opened] = field(default_factory=list[Opened])
    job_order: list[JobOrder] = field(default_factory=list[JobOrder])
    queue_order: list[QueueOrder] = field(default_factory=list[QueueOrder])
    valid: list[JobValid] = field(default_factory=list[JobValid])
    ready: list[JobReady] = field(default_factory=list[JobReady])
    filters: list[Filter] = field(default_factory=list[Filter])
    scores: list[Score] = field(default_factory=list[Score])
    listeners: list[PlacementListener] = field(default_factory=list[PlacementListener])
    enqueueable: list[list[Enqueueable]] = field(default_factory=list[list[Enqueueable]])
    pipelined: list[list[JobPipelined]] = field(default_factory=list[list[JobPipelined]])

    def __post_init__(self) -> None:
        every = [plugin for tier in self.tiers for plugin in tier]
        self.opened = [plugin for plugin in every if isinstance(plugin, Opened)]
        self.job_order = [plugin for plugin in every if isinstance(plugin, JobOrder)]
        self.queue_order = [plugin for plugin in every if isinstance(plugin, QueueOrder)]
        self.valid = [plugin for plugin in every if isinstance(plugin, JobValid)]
        self.ready = [plugin for plugin in every if isinstance(plugin, JobReady)]
        self.filters = [plugin for plugin in every if isinstance(plugin, Filter)]
        self.scores = [plugin for plugin in every if isinstance(plugin, Score)]
        self.listeners = [plugin for plugin in every if isinstance(plugin, PlacementListener)]
        self.enqueueable = [
            [plugin for plugin in tier if isinstance(plugin, Enqueueable)] for tier in self.tiers
        ]
        self.pipelined = [
            [plugin for plugin in tier if isinstance(plugin, JobPipelined)] for tier in self.tiers
        ]


@dataclass(slots=True)
class Session:
    """The cluster in one cycle."""

    nodes: NodeTable
    panel: Panel
    queues: Mapping[str, QueueInfo]
    contenders: Mapping[JobKey, Contender]
    """Jobs that may change in this cycle."""
    wanting: Iterable[Contender]
    """Every job that was admitted and does not hold its minimum yet."""
    half_bound: frozenset[JobKey] = frozenset()
    """Gangs that stand with one leg in the cluster: they come first."""
    deferred: Mapping[JobKey, "Explanation"] = field(default_factory=dict[JobKey, "Explanation"])
    """Half-bound gangs that must not ask again yet: they take their room, but do not bind."""
    allocatable: IntMatrix = field(init=False)
    trial: Trial = field(init=False)
    waits_possible: bool = field(init=False)
    """Whether anything is ending at all."""
    _outlooks: dict[TaskClass, Outlook] = field(default_factory=dict[TaskClass, Outlook])

    def __post_init__(self) -> None:
        self.nodes.settle()
        self.allocatable = self.nodes.allocatable.copy()
        idle = self.nodes.idle
        self.waits_possible = bool(self.nodes.releasing.any())
        self.trial = Trial(idle, idle + self.nodes.releasing, self.panel.listeners)
        for plugin in self.panel.opened:
            plugin.opened(self)

    # What the cluster has.

    def totals(self) -> tuple[dict[str, int], dict[str, int]]:
        """Allocatable and used of the whole cluster; sums may exceed int64, hence Python's."""
        names = self.nodes.resources.names
        return (_summed(names, self.allocatable), _summed(names, self.nodes.used))

    # Votes.

    def job_order(self, contender: Contender) -> SortKey:
        """First the half-bound, then by plugin, age and name."""
        return (
            contender.key not in self.half_bound,
            *(plugin.job_order(contender) for plugin in self.panel.job_order),
            contender.job.created,
            contender.key,
        )

    def queue_order(self, queue: QueueInfo) -> SortKey:
        return tuple(plugin.queue_order(queue) for plugin in self.panel.queue_order)

    def invalid(self, contender: Contender) -> Refusal | None:
        for plugin in self.panel.valid:
            refusal = plugin.invalid(contender)
            if refusal is not None:
                return refusal
        return None

    def is_ready(self, contender: Contender) -> bool:
        return all(plugin.job_ready(contender) for plugin in self.panel.ready)

    def may_wait(self, contender: Contender) -> bool:
        """Whether a job that needs what is ending may keep what it holds."""
        for tier in self.panel.pipelined:
            votes = [plugin.job_pipelined(contender) for plugin in tier]
            if Vote.REJECT in votes:
                return False
            if Vote.PERMIT in votes:
                return True
        return True

    def enqueue_refusal(self, contender: Contender) -> Refusal | None:
        """None when the job may be admitted; then every plugin has been told."""
        for tier in self.panel.enqueueable:
            permitted = False
            for plugin in tier:
                vote = plugin.enqueueable(contender)
                if vote is Vote.REJECT:
                    return plugin.refusal(contender)
                permitted = permitted or vote is Vote.PERMIT
            if permitted:
                break
        for tier in self.panel.enqueueable:
            for plugin in tier:
                plugin.enqueued(contender)
        return None

    # Nodes for a class.

    def verdicts(self, kind: TaskClass) -> list[Verdict]:
        return [
            verdict
            for plugin in self.panel.filters
            for verdict in plugin.feasible(kind, self.nodes)
        ]

    def feasible(self, kind: TaskClass) -> BoolPerNode:
        return self.outlook(kind).feasible

    def outlook(self, kind: TaskClass) -> Outlook:
        """What the nodes can do for this class now."""
        outlook = self._outlooks.get(kind)
        if outlook is None:
            outlook = self._outlooks[kind] = Outlook(self, kind)
        outlook.refresh()
        return outlook

    def place(self, contender: Contender, tasks: Sequence[Task], want: int) -> int:
        """Place up to `want` of these tasks of one class and role, now or when room is left.

        Returns how many got a place; those that got one are the first of `tasks`.
        """
        found = self._place(contender, tasks[:want], pipelined=False)
        if found < want and self.waits_possible:
            found += self._place(contender, tasks[found:want], pipelined=True)
        return found

    def _place(self, contender: Contender, tasks: Sequence[Task], *, pipelined: bool) -> int:
        outlook = self.outlook(tasks[0].kind)
        capacity = outlook.later if pipelined else outlook.now
        slots = place(len(tasks), capacity, outlook.score, outlook.first)
        if len(slots):
            chosen = tuple(tasks[: len(slots)])
            placement = Placement(contender, outlook.kind, outlook.vector, chosen, slots, pipelined)
            self.trial.apply(placement)
        return len(slots)

    def score(self, state: NodeState) -> FloatPerNode:
        total: FloatPerNode | None = None
        for plugin in self.panel.scores:
            part = plugin.score(state)
            total = part if total is None else total + part
        return np.zeros(len(state.allocatable(PODS))) if total is None else total


def _summed(names: Sequence[str], amounts: IntMatrix) -> dict[str, int]:
    return {name: sum(amounts[row].tolist()) for row, name in enumerate(names)}
