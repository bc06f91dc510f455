"""One cycle's view of the cluster: a copy of the sums, the jobs that take part, the plugins.

Facts that arrive during a cycle wait for the next one, so everything in here stands still but
for what the trial places and evicts. Jobs that sleep are not asked what they want, but they are
here: others may need the room that they take.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stromboli.scheduling.choosing import Choosing
from stromboli.scheduling.freed_room import FreedRoom
from stromboli.scheduling.hypernodes import HyperNodes
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.loads import NO_LOADS, Loads
from stromboli.scheduling.neighbours import Domains, Neighbourhood
from stromboli.scheduling.network import Network
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.panel import Panel
from stromboli.scheduling.plugins.api import Refusal, SortKey
from stromboli.scheduling.pods import JobKey, PodKey, Task, TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import IntMatrix
from stromboli.scheduling.tally import Tally
from stromboli.scheduling.trial import Eviction, Trial
from stromboli.scheduling.volumes import ClaimBook
from stromboli.scheduling.whereabouts import Whereabouts

if TYPE_CHECKING:
    from stromboli.scheduling.explain import Explanation
    from stromboli.scheduling.reserve import Reserve

__all__ = ["Session"]


@dataclass(slots=True, kw_only=True)
class Session:
    """The cluster in one cycle."""

    now: float
    nodes: NodeTable
    panel: Panel
    queues: Mapping[str, QueueInfo]
    jobs: Mapping[JobKey, Job]
    """All of them, asleep or not."""
    contenders: dict[JobKey, Contender]
    """Jobs that may change in this cycle."""
    make_contender: Callable[[Job], Contender]
    queue_of: Callable[[Job], str]
    """The name of a job's queue, whether that queue exists or not."""
    tenants: Callable[[str], Iterable[Task]]
    """Our pods on the node of this name."""
    objects: Callable[[str], Mapping[tuple[str, str], Any]]
    """Facts of a kind that only plugins read, by namespace and name."""
    neighbourhood: Neighbourhood
    domains: Domains
    claim_book: ClaimBook = field(default_factory=ClaimBook)
    """Which pods on nodes use which claims."""
    hyper_nodes: HyperNodes
    actions: tuple[str, ...] = ()
    """The names of what this cycle does."""
    look_again: Callable[[JobKey, float], None]
    """Have a job looked at again at a moment, whatever happens until then."""
    nominated: Mapping[str, str] = field(default_factory=dict[str, str])
    """By uid: the node where others make room for a pod."""
    leaving: Sequence[Task] = ()
    """Pods that were told to go and are not seen ending yet."""
    spared: frozenset[str] = frozenset()
    """Uids of pods whose eviction was refused lately: they are not asked again yet."""
    loads: Loads = NO_LOADS
    """What was measured on the nodes last."""
    dirty: Sequence[JobKey] = ()
    """Jobs that may differ from how the last cycle found them, ended ones among them."""
    queues_changed: bool = True
    nodes_changed: bool = True
    first: set[JobKey] = field(default_factory=set[JobKey])
    """Jobs that have the first turns: half-bound gangs, and owners of room that comes free."""
    deferred: Mapping[JobKey, "Explanation"] = field(default_factory=dict[JobKey, "Explanation"])
    """Half-bound gangs that must not ask again yet: they take their room, but do not bind."""
    reserve: "Reserve | None" = None
    """Jobs that are like some that take part, and sleep until those get something."""
    tally: Tally = field(default_factory=Tally)
    allocatable: IntMatrix = field(init=False)
    trial: Trial = field(init=False)
    choosing: Choosing = field(init=False)
    freed: FreedRoom = field(init=False)
    whereabouts: Whereabouts = field(init=False)
    waits_possible: bool = field(init=False)
    """Whether anything is ending at all."""
    _sleeping: dict[JobKey, Contender] = field(default_factory=dict[JobKey, Contender])

    def __post_init__(self) -> None:
        self.nodes.settle()
        self.allocatable = self.nodes.allocatable.copy()
        idle = self.nodes.idle
        self.waits_possible = bool(self.nodes.releasing.any())
        self.choosing = Choosing(self, self.neighbourhood, self.domains)
        self.freed = FreedRoom(self)
        self.whereabouts = Whereabouts(self.nodes)
        listeners = [self.choosing.neighbours, *self.panel.listeners]
        if self.panel.gradients:
            listeners.append(self.whereabouts)
        self.trial = Trial(idle, idle + self.nodes.releasing, listeners)
        for plugin in self.panel.opened:
            with self.tally.plugin(plugin, "OnSessionOpen"):
                plugin.opened(self)

    def join(self, contenders: Mapping[JobKey, Contender]) -> None:
        """These take part as well."""
        self.contenders.update(contenders)

    def close(self) -> None:
        """What was not committed has not happened."""
        self.trial.rollback(0)
        for plugin in self.panel.closed:
            with self.tally.plugin(plugin, "OnSessionClose"):
                plugin.closed(self)

    # What the cluster has.

    @property
    def network(self) -> Network:
        """Which nodes are close to each other; they stay as they are during a cycle."""
        return self.hyper_nodes.network(self.nodes)

    def totals(self) -> tuple[dict[str, int], dict[str, int]]:
        """Allocatable and used of the whole cluster; sums may exceed int64, hence Python's."""
        names = self.nodes.resources.names
        return (_summed(names, self.allocatable), _summed(names, self.nodes.used))

    def contender(self, key: JobKey) -> Contender:
        """Any job, awake or not, with what this cycle did to it."""
        found = self.contenders.get(key) or self._sleeping.get(key)
        if found is None:
            found = self._sleeping[key] = self.make_contender(self.jobs[key])
        return found

    # Orders.

    def job_order(self, contender: Contender) -> SortKey:
        """First who must not wait, then by plugin, age and name."""
        return (
            contender.key not in self.first,
            *[plugin.job_order(contender) for plugin in self.panel.job_order],
            contender.job.created,
            contender.key,
        )

    def job_preference(self, contender: Contender) -> SortKey:
        """What plugins think of a job's turn, without a last word between equals."""
        return tuple([plugin.job_order(contender) for plugin in self.panel.job_order])

    def queue_order(self, queue: QueueInfo) -> SortKey:
        """By plugin, age and name."""
        return (
            *[plugin.queue_order(queue) for plugin in self.panel.queue_order],
            queue.created,
            queue.name,
        )

    def queue_order_of(self, name: str) -> SortKey:
        return self.queue_order(self.queues[name])

    # Queues.

    def queue(self, contender: Contender) -> QueueInfo:
        return self.queues[contender.queue]

    def allowed(self, contender: Contender, kind: TaskClass, want: int) -> int:
        """How many more such pods the job's queue may take."""
        for plugin in self.panel.allocatable:
            want = plugin.how_many(self.queue(contender), contender, kind, want)
            if want <= 0:
                return 0
        return want

    def why_not_allowed(self, contender: Contender, kind: TaskClass) -> Refusal | None:
        queue, more = self.queue(contender), contender.kept.get(kind, 0) + 1
        for plugin in self.panel.allocatable:
            if plugin.how_many(queue, contender, kind, more) < more:
                return plugin.why_not(queue, contender, kind)
        return None

    def keep_room(self, contender: Contender, kind: TaskClass, count: int) -> None:
        """The queue lets so many pods through its gate, or with a negative number not yet."""
        contender.keep_room(kind, count)
        for plugin in self.panel.room_keepers:
            plugin.keep_room(contender, kind, count)

    # Nodes for a class.

    def hopeless(self, contender: Contender, kind: TaskClass) -> Refusal | None:
        for plugin in self.panel.pre_filters:
            refusal = plugin.hopeless(contender, kind)
            if refusal is not None:
                return refusal
        return None

    # Trying.

    def place(self, contender: Contender, tasks: Sequence[Task], want: int) -> int:
        """Place up to `want` of these tasks of one class and role, now or when room is left.

        Returns how many got a place; those that got one are the first of `tasks`.
        """
        found = self.choosing.place(contender, tasks[:want], pipelined=False)
        if found < want and self.waits_possible:
            found += self.choosing.place(contender, tasks[found:want], pipelined=True)
        return found

    def place_at(self, contender: Contender, task: Task, slot: int) -> bool:
        """Place this pod on this node, now or when room is left there."""
        return self.choosing.place_at(contender, task, slot)

    def expect_releases(self) -> None:
        """From here on pods may be told to go, so that room later is worth a look."""
        if not self.waits_possible:
            self.waits_possible = True
            self.choosing.forget()

    def evict(self, task: Task, *, claimant: Contender | None, action: str) -> Eviction:
        """Tell a pod to go, on trial."""
        slot = self.nodes.slot(task.node)
        if slot is None:
            raise ValueError(f"{task.name} stands on {task.node!r}, which is not a node")
        eviction = Eviction(
            contender=self.contender(task.job),
            task=task,
            request=self.nodes.resources.vector(task.kind.request),
            slot=slot,
            claimant=claimant,
            action=action,
        )
        self.trial.evict(eviction)
        return eviction

    def pipelined(self) -> dict[PodKey, str]:
        """Pods that wait for room to come free, and where."""
        facts = self.nodes.facts
        return {
            (task.namespace, task.name): facts[slot].name
            for placement in self.trial.placements()
            if placement.pipelined
            for task, slot in zip(placement.tasks, placement.slots.tolist(), strict=True)
        }


def _summed(names: Sequence[str], amounts: IntMatrix) -> dict[str, int]:
    return {name: sum(amounts[row].tolist()) for row, name in enumerate(names)}
