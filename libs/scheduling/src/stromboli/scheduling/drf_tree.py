"""The tree of hierarchical fair sharing: what every branch has, rescaled so that none blocks.

Queues draw the tree with annotations (`root/eng/dev`, and a weight for each step); jobs are its
leaves. A branch's part of the cluster is not the plain sum of its children's: every child that
still wants more counts only as much as the child that has least, so that one that is held up by
a scarce resource does not keep its siblings from the others. Parts are therefore fractions, here
as in Volcano; the amounts that they are made of are whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

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


@dataclass(slots=True, eq=False)
class _Leaf:
    """A job."""

    queue: str
    above: "_Branch"
    held: Sums
    wanted: Sums
    """What it has and what it waits for."""
    share: float = 0.0
    saturated: bool = False


@dataclass(slots=True, eq=False)
class _Branch:
    """A step of the path of some queue."""

    weight: float = _NO_WEIGHT
    above: "_Branch | None" = None
    branches: dict[str, "_Branch"] = field(default_factory=dict[str, "_Branch"])
    leaves: dict[JobKey, _Leaf] = field(default_factory=dict[JobKey, _Leaf])
    held: dict[str, float] = field(default_factory=dict[str, float])
    share: float = 0.0
    saturated: bool = False
    stale: bool = True


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
            leaf.above = self._branch(leaf.queue)
            leaf.above.leaves[key] = leaf

    def rebase(self, session: "Session", total: Mapping[str, int]) -> None:
        """A cycle begins: jobs that changed, in the last cycle or since, are what they are now."""
        self._total = total
        for key in session.dirty:
            before = self._leaves.pop(key, None)
            if before is not None:
                del before.above.leaves[key]
                add(self._held, before.held, -1)
                _touch(before.above)
            job = session.jobs.get(key)
            if job is None or job.pod_group is None:
                continue
            queue = session.queue_of(job)
            leaf = _Leaf(queue, self._branch(queue), dict(job.allocated), job.requested)
            self._leaves[key] = leaf.above.leaves[key] = leaf
            add(self._held, leaf.held)
            _touch(leaf.above)
        if session.nodes_changed:
            self._touch_all()

    def _branch(self, queue: str) -> _Branch:
        here = self._root
        for name, weight in self._paths.get(queue) or ((queue, _NO_WEIGHT),):
            below = here.branches.get(name)
            if below is None:
                below = here.branches[name] = _Branch(weight, here)
                _touch(here)
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
        _touch(leaf.above)

    # Questions.

    def order(self, queue: str) -> "SortKey":
        """Step by step from the root: who still wants more first, then who has less by weight."""
        self._branch(queue)
        self._refresh()
        here, key = self._root, list[tuple[bool, float]]()
        for name, _ in self._paths.get(queue) or ((queue, _NO_WEIGHT),):
            here = here.branches[name]
            key.append((here.saturated, here.share / here.weight))
        return tuple(key)

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
        for below in branch.branches.values():
            self._weigh(below)
        for leaf in branch.leaves.values():
            leaf.share = self._dominant(leaf.held)
            leaf.saturated = self._is_served(leaf)
        children = [*branch.branches.values(), *branch.leaves.values()]
        least = min((c.share for c in children if not c.saturated and c.share), default=1.0)
        branch.held = {}
        for child in children:
            if not child.share:
                continue
            scale = 1.0 if child.saturated else least / child.share
            for name, units in child.held.items():
                branch.held[name] = branch.held.get(name, 0.0) + units * scale
        branch.share = self._dominant(branch.held)
        branch.saturated = all(child.saturated for child in children)

    def _is_served(self, leaf: _Leaf) -> bool:
        """Whether it has all it wants of something, or wants something that is used up."""
        for name, wanted in leaf.wanted.items():
            if wanted and (0 < wanted <= leaf.held.get(name, 0) or name in self._short_of):
                return True
        return False

    def _dominant(self, held: Mapping[str, float]) -> float:
        return max(
            (held.get(name, 0) / units for name, units in self._total.items() if units), default=0.0
        )

    def _touch_all(self) -> None:
        waiting = [self._root]
        while waiting:
            branch = waiting.pop()
            branch.stale = True
            waiting += branch.branches.values()


def _path(queue: QueueInfo) -> tuple[tuple[str, float], ...]:
    """The steps below the root. A queue that draws no path stands right under the root."""
    if not queue.hierarchy:
        return ((queue.name, _NO_WEIGHT),)
    steps = tuple(zip(queue.hierarchy, queue.hierarchy_weights, strict=True))
    return steps[1:] if steps[0][0] == ROOT_QUEUE and len(steps) > 1 else steps


def _touch(branch: _Branch) -> None:
    here: _Branch | None = branch
    while here is not None and not here.stale:
        here.stale = True
        here = here.above
