"""Keep the jobs of a queue on the node groups that the queue names.

A node belongs to the group in its label. What a queue requires and what it avoids is in its spec;
with a hierarchy, a queue that says nothing does as its nearest ancestor that does.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stromboli.api.scheduling import Affinity, NodeGroupAffinity
from stromboli.api.wellknown import NODEGROUP_NAME
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.plugins.api import Verdict
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import FloatPerNode

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

NAME: Final = "nodegroup"

WRONG_GROUP: Final = "node(s) were not in a node group of the queue"

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

    def opened(self, session: "Session") -> None:
        self._queues = session.queues

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
            at = self._queues.get(at.parent)
        return None


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
