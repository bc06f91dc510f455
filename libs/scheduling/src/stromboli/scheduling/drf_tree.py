"""The tree of hierarchical fair sharing: what every branch has, rescaled so that none blocks.

Queues draw the tree with annotations (`root/eng/dev`, and a weight for each step); jobs are its
leaves. A branch's part of the cluster is not the plain sum of its children's: every child that
still wants more counts only as much as the child that has least, so that one that is held up by
a scarce resource does not keep its siblings from the others.

A branch with thousands of jobs is not added up again for each of them: it keeps two sums, of what
the children that are served have, and of what the others would have if their parts were one, and
a child that changed is taken out and put back. The sums are whole numbers of very small units, so
that nothing is left behind, and the same tree has the same parts however it came to be.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, TypeAlias

from stromboli.api.wellknown import ROOT_QUEUE
from stromboli.scheduling.accounts import Sums, add
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import Amounts

if TYPE_CHECKING:
    from stromboli.scheduling.plugins.api import SortKey
    from stromboli.scheduling.session import Session

__all__ = ["ShareTree"]

_NO_WEIGHT: Final = 1.0
_SMALL: Final = 1 << 32
"""So many of the units of the sums are one of a resource."""
_MOST_OUTDATED: Final = 64


@dataclass(slots=True, eq=False)
class _Leaf:
    """A job."""

    key: JobKey
    queue: str
    above: "_Branch"
    held: Sums
    wanted: Sums
    """What it has and what it waits for."""
    share: float = 0.0
    saturated: bool = False
    counted: "_Counted | None" = None
    """As the branch above has it in its sums."""


@dataclass(frozen=True, slots=True)
class _Counted:
    saturated: bool
    share: float
    amounts: tuple[tuple[str, int], ...]


@dataclass(slots=True, eq=False)
class _Branch:
    """A step of the path of some queue."""

    name: str = ""
    weight: float = _NO_WEIGHT
    above: "_Branch | None" = None
    branches: dict[str, "_Branch"] = field(default_factory=dict[str, "_Branch"])
    leaves: dict[JobKey, _Leaf] = field(default_factory=dict[JobKey, _Leaf])
    held: dict[str, float] = field(default_factory=dict[str, float])
    share: float = 0.0
    saturated: bool = False
    counted: _Counted | None = None
    stale: bool = False
    changed: dict["_Child", None] = field(default_factory=dict["_Child", None])
    """Children that are not in the sums as they are now."""
    served: dict[str, int] = field(default_factory=dict[str, int])
    """What children have that are saturated."""
    eager: dict[str, int] = field(default_factory=dict[str, int])
    """What the others would have if each had a part of one."""
    unsaturated: int = 0
    shares: list[tuple[float, int, "_Child"]] = field(
        default_factory=list[tuple[float, int, "_Child"]]
    )
    """A heap of the parts of those who want more and have something; some are outdated."""
    pushed: int = 0

    def count(self, child: "_Child") -> None:
        """Have the child in the sums as it is now."""
        self.uncount(child)
        amounts: tuple[tuple[str, int], ...] = ()
        if child.share:
            scale = _SMALL if child.saturated else _SMALL / child.share
            amounts = tuple((name, round(units * scale)) for name, units in child.held.items())
        child.counted = _Counted(child.saturated, child.share, amounts)
        self._add(child.counted, 1)
        if child.share and not child.saturated:
            self.pushed += 1
            heappush(self.shares, (child.share, self.pushed, child))

    def uncount(self, child: "_Child") -> None:
        """Forget it; what it is in the heap for is outdated then."""
        if child.counted is not None:
            self._add(child.counted, -1)
            child.counted = None

    def _add(self, counted: _Counted, sign: int) -> None:
        self.unsaturated += 0 if counted.saturated else sign
        sums = self.served if counted.saturated else self.eager
        for name, units in counted.amounts:
            total = sums.get(name, 0) + sign * units
            if total:
                sums[name] = total
            else:
                sums.pop(name, None)

    def least(self) -> float:
        """The smallest part of those who want more and have something."""
        if len(self.shares) > 2 * (self.unsaturated + _MOST_OUTDATED):
            self.shares = [entry for entry in self.shares if _is_current(self, entry)]
            heapify(self.shares)
        while self.shares and not _is_current(self, self.shares[0]):
            heappop(self.shares)
        return self.shares[0][0] if self.shares else 1.0


_Child: TypeAlias = _Leaf | _Branch


def _is_current(branch: _Branch, entry: tuple[float, int, _Child]) -> bool:
    share, _, child = entry
    counted = child.counted
    return (
        child.above is branch
        and counted is not None
        and not counted.saturated
        and counted.share == share
    )


class ShareTree:
    """Parts are reckoned when somebody asks, of the branches that something happened to."""

    def __init__(self) -> None:
        self._root = _Branch()
        self._leaves: dict[JobKey, _Leaf] = {}
        self._paths: dict[str, tuple[tuple[str, float], ...]] = {}
        self._total: Mapping[str, int] = {}
        self._held: Sums = {}
        self._short_of: frozenset[str] = frozenset()
        """Resources of which the whole cluster has nothing left to give."""

    # Facts.

    def replant(self, queues: Mapping[str, QueueInfo]) -> None:
        """The queues may stand elsewhere now."""
        paths = {name: _path(queue) for name, queue in queues.items()}
        if paths == self._paths:
            return
        self._paths = paths
        self._root = _Branch()
        for name in sorted(paths):
            self._branch(name)
        for key, leaf in self._leaves.items():
            leaf.above, leaf.counted = self._branch(leaf.queue), None
            leaf.above.leaves[key] = leaf
            _touch(leaf)

    def rebase(self, session: "Session", total: Mapping[str, int]) -> None:
        """A cycle begins: jobs that changed, in the last cycle or since, are what they are now."""
        if total != self._total:
            self._total = total
            self._touch_all()
        for key in session.dirty:
            before = self._leaves.pop(key, None)
            if before is not None:
                above = before.above
                del above.leaves[key]
                above.uncount(before)
                above.changed.pop(before, None)
                add(self._held, before.held, -1)
                _touch(above)
            job = session.jobs.get(key)
            if job is None or job.pod_group is None:
                continue
            queue = session.queue_of(job)
            leaf = _Leaf(key, queue, self._branch(queue), dict(job.allocated), job.requested)
            self._leaves[key] = leaf.above.leaves[key] = leaf
            add(self._held, leaf.held)
            _touch(leaf)

    def _branch(self, queue: str) -> _Branch:
        here = self._root
        for name, weight in self._paths.get(queue) or ((queue, _NO_WEIGHT),):
            below = here.branches.get(name)
            if below is None:
                below = here.branches[name] = _Branch(name, weight, here)
                _touch(below)
            here = below
        return here

    # What a cycle does.

    def move(self, key: JobKey, request: Amounts, count: int) -> None:
        """The job has so many pods more, or less."""
        leaf = self._leaves.get(key)
        if leaf is None:
            return
        for name, units in request:
            leaf.held[name] = leaf.held.get(name, 0) + units * count
            self._held[name] = self._held.get(name, 0) + units * count
        _touch(leaf)

    # Questions.

    def order(self, queue: str) -> "SortKey":
        """Step by step from the root: who still wants more first, then who has less by weight."""
        return tuple((step.saturated, step.share / step.weight) for step in self._steps(queue))

    def shares(self, queue: str) -> tuple[float, ...]:
        """Step by step from the root: how much it has by weight, whether it wants more or not."""
        return tuple(step.share / step.weight for step in self._steps(queue))

    def _steps(self, queue: str) -> list[_Branch]:
        self._branch(queue)
        self._refresh()
        here, steps = self._root, list[_Branch]()
        for name, _ in self._paths.get(queue) or ((queue, _NO_WEIGHT),):
            here = here.branches[name]
            steps.append(here)
        return steps

    def _refresh(self) -> None:
        short_of = frozenset(
            name for name, units in self._total.items() if self._held.get(name, 0) >= units
        )
        if short_of != self._short_of:
            # Who waits for what nobody can have is as good as served.
            self._short_of = short_of
            self._touch_all()
        self._weigh(self._root)

    def _weigh(self, branch: _Branch) -> None:
        if not branch.stale:
            return
        branch.stale = False
        changed, branch.changed = branch.changed, {}
        for child in changed:
            if isinstance(child, _Leaf):
                child.share = self._dominant(child.held)
                child.saturated = self._is_served(child)
            else:
                self._weigh(child)
            branch.count(child)
        least, served, eager = branch.least(), branch.served, branch.eager
        branch.held = {
            name: (served.get(name, 0) + eager.get(name, 0) * least) / _SMALL
            for name in (*served, *(name for name in eager if name not in served))
        }
        branch.share = self._dominant(branch.held)
        branch.saturated = not branch.unsaturated

    def _is_served(self, leaf: _Leaf) -> bool:
        """Whether it has all it wants of something, or wants something that is used up."""
        for name, wanted in leaf.wanted.items():
            if wanted and (0 < wanted <= leaf.held.get(name, 0) or name in self._short_of):
                return True
        return False

    def _dominant(self, held: Mapping[str, float]) -> float:
        total = self._total
        return max(
            (units / whole for name, units in held.items() if (whole := total.get(name))),
            default=0.0,
        )

    def _touch_all(self) -> None:
        waiting = [self._root]
        while waiting:
            branch = waiting.pop()
            branch.stale = True
            for child in (*branch.branches.values(), *branch.leaves.values()):
                branch.changed[child] = None
            waiting += branch.branches.values()


def _path(queue: QueueInfo) -> tuple[tuple[str, float], ...]:
    """The steps below the root. A queue that draws no path stands right under the root."""
    if not queue.hierarchy:
        return ((queue.name, _NO_WEIGHT),)
    steps = tuple(zip(queue.hierarchy, queue.hierarchy_weights, strict=True))
    return steps[1:] if steps[0][0] == ROOT_QUEUE and len(steps) > 1 else steps


def _touch(child: _Child) -> None:
    """It has changed, and with it every branch above."""
    if isinstance(child, _Branch):
        if child.stale:
            return
        child.stale = True
    above = child.above
    if above is not None:
        above.changed[child] = None
        _touch(above)
