"""Keep the jobs of a queue on the node groups that the queue names.

A node belongs to the group in its label. What a queue requires and what it avoids is in its spec;
with a hierarchy, a queue that says nothing does as its nearest ancestor that does. An annotation of
the queue may say how much it may use in a group; then its pods are placed one at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stromboli.api.fieldtypes import ResourceList
from stromboli.api.scheduling import Affinity, NodeGroupAffinity
from stromboli.api.wellknown import NODEGROUP_LIMITS, NODEGROUP_NAME, ROOT_QUEUE
from stromboli.scheduling.accounts import Sums, add
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.jobs import ALLOCATED, Contender
from stromboli.scheduling.neighbours import Neighbours
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.plugins.api import Verdict
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import Amounts, FloatPerNode, limits_of

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session
    from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "nodegroup"

WRONG_GROUP: Final = "node(s) were not in a node group of the queue"
USED_UP: Final = "node(s) were in a node group of which the queue has used its limit"
UNREADABLE: Final = f"node(s) were in a node group whose limit ({NODEGROUP_LIMITS}) can't be read"

_REQUIRED: Final = 100.0
_PREFERRED: Final = 50.0
_AVOIDED: Final = -1.0


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    strict: bool = True
    """Nodes without a group are for nobody."""
    ordered: bool = msgspec.field(default=False, name="enablePreferredOrder")
    """Of the preferred groups, the earlier ones are better."""
    hierarchy: bool = msgspec.field(default=False, name="enableHierarchy")


class NodeGroup:
    """Filters and scores nodes by their group, per queue."""

    name = NAME

    def __init__(self, args: Args) -> None:
        self._args = args
        self._queues: Mapping[str, QueueInfo] = {}
        self._session: Session | None = None
        self._limits: dict[str, _Limits] = {}
        """By queue, of those that have any."""
        self._used: dict[tuple[str, str], Sums] | None = None
        """By queue and group; most cycles need not know."""

    def opened(self, session: "Session") -> None:
        self._queues, self._session, self._used = session.queues, session, None
        if session.queues_changed:
            said = {
                name: queue.annotations.get(NODEGROUP_LIMITS, "")
                for name, queue in session.queues.items()
            }
            self._limits = {name: _read_limits(name, text) for name, text in said.items() if text}

    def feasible_in(self, queue: QueueInfo, kind: TaskClass, nodes: NodeTable) -> list[Verdict]:
        affinity = self._affinity_of(queue)
        allowed: dict[str, bool] = {}
        for group in _groups(nodes):
            if group not in allowed:
                allowed[group] = self._allows(affinity, group)
        passes = np.fromiter((allowed[group] for group in _groups(nodes)), np.bool_, len(nodes))
        return [Verdict(WRONG_GROUP, passes)]

    def preferences_in(
        self, queue: QueueInfo, kind: TaskClass, nodes: NodeTable
    ) -> FloatPerNode | None:
        affinity = self._affinity_of(queue)
        if affinity is None:
            return None
        scores: dict[str, float] = {}
        for group in _groups(nodes):
            if group not in scores:
                scores[group] = self._worth(affinity, group)
        return np.fromiter((scores[group] for group in _groups(nodes)), np.float64, len(nodes))

    def _allows(self, affinity: Affinity | None, group: str) -> bool:
        if not group:
            return not self._args.strict and affinity is None
        if affinity is None:
            return False
        near, apart = _sides(affinity)
        if group in _preferred(apart):
            return True
        return group in (*_required(near), *_preferred(near)) and group not in _required(apart)

    def _worth(self, affinity: Affinity, group: str) -> float:
        near, apart = _sides(affinity)
        worth = _REQUIRED if group in _required(near) else 0.0
        preferred = _preferred(near)
        if group in preferred:
            rank = preferred.index(group) if self._args.ordered else 0
            worth += _PREFERRED * (len(preferred) - rank) / len(preferred)
        return _AVOIDED if group in _preferred(apart) else worth

    def _affinity_of(self, queue: QueueInfo) -> Affinity | None:
        seen: set[str] = set()
        at: QueueInfo | None = queue
        while at is not None and at.name not in seen:
            if at.affinity is not None or not self._args.hierarchy:
                return at.affinity
            seen.add(at.name)
            at = self._queues.get(at.parent or ROOT_QUEUE)
        return None

    # How much a queue uses of a group.

    def counts(self, contender: Contender) -> bool:
        return contender.queue in self._limits

    def tolerable(self, task: Task, neighbours: Neighbours) -> list[Verdict]:
        session = self._session
        queue = session.queue_of(session.jobs[task.job]) if session is not None else ""
        limits = self._limits.get(queue)
        if session is None or limits is None:
            return []
        groups = _groups(session.nodes)
        if limits.problem:
            passes = np.fromiter((not group for group in groups), np.bool_, len(groups))
            return [Verdict(UNREADABLE, passes)]
        used = self._usage(session)
        has_room = {
            group: _fits(used.get((queue, group), {}), task.kind.request, limits.of.get(group, ()))
            for group in set(groups)
        }
        passes = np.fromiter((has_room[group] for group in groups), np.bool_, len(groups))
        return [Verdict(USED_UP, passes)]

    def placed(self, placement: "Placement") -> None:
        self._move(placement, 1)

    def withdrawn(self, placement: "Placement") -> None:
        self._move(placement, -1)

    def evicted(self, eviction: "Eviction") -> None:
        self._count(eviction.contender.queue, eviction.slot, eviction.task.kind.request, -1)

    def restored(self, eviction: "Eviction") -> None:
        self._count(eviction.contender.queue, eviction.slot, eviction.task.kind.request, 1)

    def _move(self, placement: "Placement", sign: int) -> None:
        if placement.contender.queue in self._limits:
            for slot in placement.slots.tolist():
                self._count(placement.contender.queue, slot, placement.kind.request, sign)

    def _count(self, queue: str, slot: int, request: Amounts, sign: int) -> None:
        session = self._session
        if session is not None and queue in self._limits:
            group = _group_of(session.nodes, slot)
            add(self._usage(session).setdefault((queue, group), {}), request, sign)

    def _usage(self, session: "Session") -> dict[tuple[str, str], Sums]:
        """As it was when the cycle began, and as far as it was counted since."""
        if self._used is None:
            self._used = {}
            for job in session.jobs.values():
                queue = session.queue_of(job)
                for task in job.in_status(*ALLOCATED) if queue in self._limits else ():
                    slot = session.nodes.slot(task.node)
                    if slot is not None:
                        group = _group_of(session.nodes, slot)
                        add(self._used.setdefault((queue, group), {}), task.kind.request)
        return self._used


@dataclass(frozen=True, slots=True)
class _Limits:
    of: Mapping[str, Amounts] = field(default_factory=dict[str, Amounts])
    """By group."""
    problem: str = ""


def _read_limits(queue: str, text: str) -> _Limits:
    try:
        said = msgspec.json.decode(text, type=dict[str, ResourceList])
        return _Limits(
            {group: limits_of(f"queue {queue}: {group}", most) for group, most in said.items()}
        )
    except (msgspec.DecodeError, RecursionError, BadFact) as fault:
        return _Limits(problem=str(fault))


def _fits(used: Mapping[str, int], request: Amounts, most: Amounts) -> bool:
    limits = dict(most)
    return all(
        used.get(name, 0) + units <= limits[name] for name, units in request if name in limits
    )


def _group_of(nodes: NodeTable, slot: int) -> str:
    return dict(nodes.facts[slot].labels).get(NODEGROUP_NAME, "")


def _groups(nodes: NodeTable) -> list[str]:
    return [dict(node.labels).get(NODEGROUP_NAME, "") for node in nodes.facts]


def _sides(affinity: Affinity) -> tuple[NodeGroupAffinity | None, NodeGroupAffinity | None]:
    return affinity.node_group_affinity, affinity.node_group_anti_affinity


def _required(side: NodeGroupAffinity | None) -> tuple[str, ...]:
    return side.required_during_scheduling_ignored_during_execution if side is not None else ()


def _preferred(side: NodeGroupAffinity | None) -> tuple[str, ...]:
    return side.preferred_during_scheduling_ignored_during_execution if side is not None else ()


def build(arguments: Mapping[str, Any]) -> NodeGroup:
    return NodeGroup(read_arguments(NAME, Args, arguments))
