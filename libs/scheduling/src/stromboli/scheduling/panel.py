"""The configured plugins, sorted once by what they have a say in, and how their votes add up.

The rules are Volcano's: orders by the first difference, readiness by all, permission and victims
tier by tier. Two accidents are not kept: when the plugins of a tier agree on no victim, that is an
empty answer and the next tier is asked; the list is not begun anew within the tier. And plugins
that protect somebody (`Protects`: gangs, critical pods, shares of queues) are heard in whatever
tier they are: what they do not give up, no other tier does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import lt
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import (
    Allocatable,
    Blocked,
    Claim,
    Closed,
    Closeness,
    Company,
    CompanyScore,
    Connecting,
    Counting,
    DomainGradient,
    DomainOrder,
    Enqueueable,
    Enqueued,
    Evictable,
    Filter,
    JobOrder,
    JobPipelined,
    JobReady,
    JobStarving,
    JobValid,
    LastFilter,
    Opened,
    Overused,
    Partial,
    PlacementListener,
    Plugin,
    Preemptable,
    Preemptive,
    Preference,
    PreFilter,
    Protector,
    Protects,
    QueueFilter,
    QueueOrder,
    QueuePreference,
    QueueRoom,
    Reclaimable,
    Refusal,
    RoomKeeper,
    RoomLimit,
    Score,
    SortKey,
    TaskOrder,
    VictimQueueOrder,
    VictimTasks,
    Vote,
)
from stromboli.scheduling.plugins.promises import (
    ByField,
    ByMinimum,
    EvenHanded,
    Foreseeing,
    Impartial,
    JudgesVictims,
    OwnOrder,
)
from stromboli.scheduling.pods import BY_ORDER, Task
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.shares import PLENTY

__all__ = ["FLAGS", "Ask", "Judges", "Panel", "Seat"]

FLAGS: Final[dict[type, str]] = {
    JobOrder: "enableJobOrder",
    JobReady: "enableJobReady",
    JobPipelined: "enableJobPipelined",
    JobStarving: "enableJobStarving",
    TaskOrder: "enableTaskOrder",
    QueueOrder: "enableQueueOrder",
    VictimQueueOrder: "enableQueueOrder",
    Preemptable: "enablePreemptable",
    Reclaimable: "enableReclaimable",
    Preemptive: "enablePreemptive",
    PreFilter: "enablePredicate",
    Filter: "enablePredicate",
    LastFilter: "enablePredicate",
    RoomLimit: "enablePredicate",
    Counting: "enablePredicate",
    QueueFilter: "enablePredicate",
    Company: "enablePredicate",
    Score: "enableNodeOrder",
    Preference: "enableNodeOrder",
    QueuePreference: "enableNodeOrder",
    CompanyScore: "enableNodeOrder",
    Closeness: "enableNodeOrder",
    DomainOrder: "enabledHyperNodeOrder",
    DomainGradient: "enabledHyperNodeGradient",
    Enqueueable: "enableJobEnqueued",
    Enqueued: "enableJobEnqueued",
    VictimTasks: "enabledVictim",
    Overused: "enabledOverused",
    Allocatable: "enabledAllocatable",
    RoomKeeper: "enabledAllocatable",
}
"""Which flag of the configuration takes a plugin's say away, by extension point."""

T = TypeVar("T")

Ask: TypeAlias = Callable[[Claim, Sequence[Task]], Sequence[Task] | None]


class Judges(NamedTuple):
    """Who names victims: of one tier all must, of the tiers any."""

    tiers: list[list[tuple[object, Ask]]]
    """With each tier those of the others that protect somebody."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A plugin, and the flags that are off for it."""

    plugin: Plugin
    off: frozenset[str] = frozenset()

    def has(self, point: type) -> bool:
        if FLAGS.get(point) in self.off or not isinstance(self.plugin, point):
            return False
        return not isinstance(self.plugin, Partial) or point not in self.plugin.lacks


@dataclass(slots=True)
class Panel:
    """Who is asked about what."""

    tiers: Sequence[Sequence[Seat]]
    connecting: list[Connecting] = field(init=False)
    opened: list[Opened] = field(init=False)
    closed: list[Closed] = field(init=False)
    listeners: list[PlacementListener] = field(init=False)
    job_order: list[JobOrder] = field(init=False)
    queue_order: list[QueueOrder] = field(init=False)
    task_order: list[TaskOrder] = field(init=False)
    victim_queue_order: list[VictimQueueOrder] = field(init=False)
    filters: list[Filter] = field(init=False)
    last_filters: list[LastFilter] = field(init=False)
    room_limits: list[RoomLimit] = field(init=False)
    counting: list[Counting] = field(init=False)
    pre_filters: list[PreFilter] = field(init=False)
    scores: list[Score] = field(init=False)
    queue_filters: list[QueueFilter] = field(init=False)
    company: list[Company] = field(init=False)
    preferences: list[Preference] = field(init=False)
    queue_preferences: list[QueuePreference] = field(init=False)
    company_scores: list[CompanyScore] = field(init=False)
    closeness: list[Closeness] = field(init=False)
    gradients: list[DomainGradient] = field(init=False)
    domain_order: list[DomainOrder] = field(init=False)
    allocatable: list[Allocatable] = field(init=False)
    room_keepers: list[RoomKeeper] = field(init=False)
    is_even_handed: bool = field(init=False)
    """Whether jobs that are alike get the same answers from everybody."""
    orders_are_own: bool = field(init=False)
    """Whether nobody's turn can move a job that only waits for its own."""
    takes_convoys: bool = field(init=False)
    """Whether jobs that are alike and follow each other may be given their turns together."""
    _task_orders: list[tuple[TaskOrder, Callable[[Task], Any] | None]] = field(init=False)
    _blocked: list[Blocked] = field(init=False)
    _protectors: list[Protector] = field(init=False)
    _valid: list[JobValid] = field(init=False)
    _ready: list[JobReady] = field(init=False)
    _overused: list[Overused] = field(init=False)
    _queue_room: list[QueueRoom] = field(init=False)
    _preemptive: list[Preemptive] = field(init=False)
    _enqueued: list[Enqueued] = field(init=False)
    _enqueueable: list[list[Enqueueable]] = field(init=False)
    _pipelined: list[list[JobPipelined]] = field(init=False)
    _starving: list[list[JobStarving]] = field(init=False)
    _preemptable: list["_Tier[Preemptable]"] = field(init=False)
    _reclaimable: list["_Tier[Reclaimable]"] = field(init=False)
    _evictable: list["_Tier[Evictable]"] = field(init=False)
    _victims: list[list[VictimTasks]] = field(init=False)

    def __post_init__(self) -> None:
        self.connecting = self._all(Connecting)
        self.opened = self._all(Opened)
        self.closed = self._all(Closed)
        self.listeners = self._all(PlacementListener)
        self.job_order = self._all(JobOrder)
        self.is_even_handed = all(isinstance(plugin, EvenHanded) for plugin in self)
        self.orders_are_own = all(isinstance(plugin, OwnOrder) for plugin in self.job_order)
        self.queue_order = self._all(QueueOrder)
        self.task_order = self._all(TaskOrder)
        self.victim_queue_order = self._all(VictimQueueOrder)
        self.filters = self._all(Filter)
        self.last_filters = self._all(LastFilter)
        self.room_limits = self._all(RoomLimit)
        self.counting = self._all(Counting)
        self.pre_filters = self._all(PreFilter)
        self.scores = self._all(Score)
        self.queue_filters = self._all(QueueFilter)
        self.company = self._all(Company)
        self.preferences = self._all(Preference)
        self.queue_preferences = self._all(QueuePreference)
        self.company_scores = self._all(CompanyScore)
        self.closeness = self._all(Closeness)
        self.gradients = self._all(DomainGradient)
        self.domain_order = self._all(DomainOrder)
        self.allocatable = self._all(Allocatable)
        self.room_keepers = self._all(RoomKeeper)
        self._task_orders = [
            (plugin, plugin.ordered_by if isinstance(plugin, ByField) else None)
            for plugin in self.task_order
        ]
        self._blocked = self._all(Blocked)
        self._protectors = self._all(Protector)
        self._valid = self._all(JobValid)
        self._ready = self._all(JobReady)
        self._overused = self._all(Overused)
        self._queue_room = self._all(QueueRoom)
        self._preemptive = self._all(Preemptive)
        self._enqueued = self._all(Enqueued)
        self._enqueueable = self._by_tier(Enqueueable)
        self._pipelined = self._by_tier(JobPipelined)
        self._starving = self._by_tier(JobStarving)
        self._preemptable = _with_protectors(self._by_tier(Preemptable))
        self._reclaimable = _with_protectors(self._by_tier(Reclaimable))
        self._evictable = _with_protectors(self._by_tier(Evictable))
        self._victims = self._by_tier(VictimTasks)
        self.takes_convoys = (
            self.is_even_handed
            and self.orders_are_own
            and bool(self._ready)
            and all(isinstance(plugin, ByMinimum) for plugin in self._ready)
            and all(isinstance(plugin, Foreseeing) for plugin in self._overused)
            and not (self.gradients or self.closeness or self.counting)
        )

    def _by_tier(self, point: type[T]) -> list[list[T]]:
        found = [[seat.plugin for seat in tier if seat.has(point)] for tier in self.tiers]
        return [[p for p in tier if isinstance(p, point)] for tier in found if tier]

    def _all(self, point: type[T]) -> list[T]:
        return [plugin for tier in self._by_tier(point) for plugin in tier]

    def __iter__(self) -> Iterator[Plugin]:
        return (seat.plugin for tier in self.tiers for seat in tier)

    # Orders.

    def put_in_order(self, tasks: list[Task]) -> None:
        """As `order_of_tasks` has it; the last word first, because that needs no plugin."""
        if len(tasks) <= 1:
            return
        numbers = [task.index for task in tasks]
        if not all(map(lt, numbers, islice(numbers, 1, None))):
            tasks.sort(key=BY_ORDER)
        for plugin, ordered_by in reversed(self._task_orders):
            if ordered_by is None or len(set(map(ordered_by, tasks))) > 1:
                tasks.sort(key=plugin.task_order)

    def order_of_tasks(self) -> Callable[[Task], SortKey]:
        """Plugins first, then by index, age and name."""
        match self.task_order:
            case []:
                return lambda task: task.order
            case [only]:
                return lambda task: (only.task_order(task), task.order)
            case several:
                return lambda task: (*(plugin.task_order(task) for plugin in several), task.order)

    # Jobs.

    def invalid(self, contender: Contender) -> Refusal | None:
        for plugin in self._valid:
            refusal = plugin.invalid(contender)
            if refusal is not None:
                return refusal
        return None

    @property
    def holds_gangs(self) -> bool:
        """Whether anybody cares that a job starts whole."""
        return bool(self._ready)

    def is_ready(self, contender: Contender) -> bool:
        return all(plugin.job_ready(contender) for plugin in self._ready)

    def may_wait(self, contender: Contender) -> bool:
        """Whether a job that needs what is ending may keep what it holds."""
        for tier in self._pipelined:
            votes = [plugin.job_pipelined(contender) for plugin in tier]
            if Vote.REJECT in votes:
                return False
            if Vote.PERMIT in votes:
                return True
        return True

    def is_starving(self, contender: Contender) -> bool:
        """Whether the job may ask others to make room."""
        for tier in self._starving:
            return all(plugin.job_starving(contender) for plugin in tier)
        return False

    def enqueue_refusal(self, contender: Contender) -> Refusal | None:
        """Why the job may not be admitted."""
        for tier in self._enqueueable:
            permitted = False
            for plugin in tier:
                vote = plugin.enqueueable(contender)
                if isinstance(vote, Refusal):
                    return vote
                if vote is Vote.REJECT:
                    name = plugin.name if isinstance(plugin, Plugin) else "a plugin"
                    return Refusal("NotAdmitted", f"{name} does not admit it")
                permitted = permitted or vote is Vote.PERMIT
            if permitted:
                return None
        return None

    def enqueued(self, contender: Contender) -> None:
        for plugin in self._enqueued:
            plugin.enqueued(contender)

    def blocked(self, contender: Contender, lacking: Amounts) -> None:
        for plugin in self._blocked:
            plugin.blocked(contender, lacking)

    # Queues.

    @property
    def watches_overuse(self) -> bool:
        return bool(self._overused)

    def overused(self, queue: QueueInfo) -> bool:
        return any(plugin.overused(queue) for plugin in self._overused)

    def turns_left(self, queue: QueueInfo, request: Amounts, pods: int) -> int:
        """How many turns, each of so many pods, begin before the queue is overused."""
        answers = (
            plugin.turns_left(queue, request, pods)
            for plugin in self._overused
            if isinstance(plugin, Foreseeing)
        )
        return min(answers, default=PLENTY)

    def has_room(self, queue: QueueInfo, need: Amounts, *, admitted: bool) -> bool:
        """Whether a job that its queue refused could be luckier now."""
        return all(plugin.has_room(queue, need, admitted=admitted) for plugin in self._queue_room)

    @property
    def knows_due(self) -> bool:
        """Whether anybody can say what a queue may take from others."""
        return bool(self._preemptive)

    def preemptive(self, queue: QueueInfo, claim: Claim) -> bool:
        return all(plugin.preemptive(queue, claim) for plugin in self._preemptive)

    # Victims.

    @property
    def judges_alike(self) -> bool:
        """Whether claims that are alike have the same victims."""
        asked = (tier.own for tier in (*self._preemptable, *self._reclaimable))
        tiers = (*asked, self.allocatable)
        return all(isinstance(plugin, Impartial) for tier in tiers for plugin in tier)

    def may_go(self, task: Task) -> bool:
        """Whether the pod may be asked to go at all."""
        return all(plugin.may_go(task) for plugin in self._protectors)

    def preempt_judges(self) -> Judges:
        return Judges([[(p, p.preemptable) for p in tier.all] for tier in self._preemptable])

    def reclaim_judges(self) -> Judges:
        return Judges([[(p, p.reclaimable) for p in tier.all] for tier in self._reclaimable])

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> list[Task]:
        return _agreed(self._preemptable, lambda p, tasks: p.preemptable(claim, tasks), candidates)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> list[Task]:
        return _agreed(self._reclaimable, lambda p, tasks: p.reclaimable(claim, tasks), candidates)

    def evictable(
        self, claim: Claim, candidates: Sequence[Task], *, reclaiming: bool
    ) -> list[Task]:
        return _agreed(
            self._evictable,
            lambda p, tasks: p.evictable(claim, tasks, reclaiming=reclaiming),
            candidates,
        )

    @property
    def names_victims(self) -> bool:
        return bool(self._victims)

    def victims(self, running: Sequence[Task]) -> list[Task]:
        for tier in self._victims:
            found = {task.uid: task for plugin in tier for task in plugin.victims(running)}
            if found:
                return list(found.values())
        return []


@dataclass(frozen=True, slots=True)
class _Tier(Generic[T]):
    """Who is asked for victims together."""

    own: list[T]
    protectors: list[T]
    """Of other tiers; they are asked about those whom this tier gives up."""

    @property
    def all(self) -> list[T]:
        return [*self.own, *self.protectors]


def _with_protectors(tiers: Sequence[list[T]]) -> list[_Tier[T]]:
    return [
        _Tier(
            tier,
            [
                plugin
                for other in tiers
                for plugin in other
                if other is not tier and isinstance(plugin, Protects)
            ],
        )
        for tier in tiers
    ]


def _agreed(
    tiers: Sequence[_Tier[T]],
    ask: Callable[[T, Sequence[Task]], Sequence[Task] | None],
    candidates: Sequence[Task],
) -> list[Task]:
    """Whom all plugins of the first tier with an answer give up, in the order given."""
    for tier in tiers:
        left = _given_up(tier, ask, candidates)
        if left:
            return left
    return []


def _given_up(
    tier: _Tier[T],
    ask: Callable[[T, Sequence[Task]], Sequence[Task] | None],
    candidates: Sequence[Task],
) -> list[Task]:
    """Those of a tier judge all candidates; who protects from another tier judges the rest.

    So of a gang that can spare one pod, that is one whom the tier gives up. Somebody has to have
    compared them with the claimant.
    """
    left: list[Task] | None = None
    has_reason = False
    for plugin in tier.own:
        answer = ask(plugin, candidates)
        if answer is None:
            continue
        has_reason = has_reason or not isinstance(plugin, JudgesVictims)
        left = _named(answer, candidates if left is None else left)
        if not left:
            return []
    for plugin in tier.protectors if left else ():
        answer = ask(plugin, left or ())
        if answer is not None:
            has_reason = has_reason or not isinstance(plugin, JudgesVictims)
            left = _named(answer, left or ())
    return left or [] if has_reason else []


def _named(answer: Sequence[Task], tasks: Sequence[Task]) -> list[Task]:
    named = {task.uid for task in answer}
    return [task for task in tasks if task.uid in named]
