"""Keep pods off nodes that they do not want, or that do not want them.

What depends on the node alone (labels, taints, readiness) is asked once per distinct constraint
and node, and asked again only for nodes that changed. What depends on other pods (ports, affinity
between pods, spreading) is asked anew for every pod, over all nodes at once. Room is not looked
at here: the actions know what is free, now and soon.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from stromboli.api.core import NodeSelector, Taint, Toleration
from stromboli.api.errors import SelectorError
from stromboli.scheduling.neighbours import Neighbours
from stromboli.scheduling.nodes import NodeFacts, NodeTable
from stromboli.scheduling.plugins.api import Verdict
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.resources import BoolPerNode
from stromboli.scheduling.social import Social, Spread
from stromboli.scheduling.spreading import domain_counts, eligible

NAME: Final = "predicates"

UNSCHEDULABLE: Final = "node(s) were unschedulable"
NOT_READY: Final = "node(s) were not ready"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TAINTS: Final = "node(s) had untolerated taint(s)"
PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
NEAR: Final = "node(s) didn't match pod affinity rules"
APART: Final = "node(s) didn't match pod anti-affinity rules"
UNWELCOME: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL: Final = f"{SPREAD} (missing required label)"

_UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_REPELLING: Final = ("NoSchedule", "NoExecute")
_MOST_MASKS: Final = 4096

Question: TypeAlias = Callable[[NodeFacts], bool]


class Args(msgspec.Struct, frozen=True):
    """Switches, by Volcano's names; those of volumes and devices are read by nobody yet."""

    node_affinity: bool = msgspec.field(default=True, name="predicate.NodeAffinityEnable")
    node_ports: bool = msgspec.field(default=True, name="predicate.NodePortsEnable")
    taint_toleration: bool = msgspec.field(default=True, name="predicate.TaintTolerationEnable")
    pod_affinity: bool = msgspec.field(default=True, name="predicate.PodAffinityEnable")
    topology_spread: bool = msgspec.field(default=True, name="predicate.PodTopologySpreadEnable")
    volume_limits: bool = msgspec.field(default=True, name="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = msgspec.field(default=True, name="predicate.VolumeZoneEnable")
    volume_binding: bool = msgspec.field(default=True, name="predicate.VolumeBindingEnable")
    cache: bool = msgspec.field(default=True, name="predicate.CacheEnable")
    devices: bool = msgspec.field(default=False, name="predicate.DynamicResourceAllocationEnable")
    bind_timeout_s: int = msgspec.field(default=600, name="volumebinding.bindTimeoutSeconds")
    binding_weight: float = msgspec.field(default=1.0, name="volumebinding.weight")
    binding_shape: Any = msgspec.field(default=None, name="volumebinding.shape")
    filter_timeout_s: int = msgspec.field(default=10, name="dynamicresources.filterTimeoutSeconds")


@dataclass(slots=True)
class _Mask:
    layout: int
    version: int
    passes: BoolPerNode


class Predicates:
    """Filters nodes by what is written on them, and by who stands there."""

    name = NAME

    def __init__(self, args: Args) -> None:
        self._args = args
        self._masks: dict[Hashable, _Mask] = {}
        self._nodes: NodeTable | None = None

    # The node alone.

    def feasible(self, kind: TaskClass, nodes: NodeTable) -> list[Verdict]:
        self._nodes = nodes
        verdicts = [
            Verdict(UNSCHEDULABLE, self._open_to(kind.tolerations, nodes)),
            Verdict(NOT_READY, self._ask(nodes, NOT_READY, lambda node: node.ready)),
        ]
        if self._args.node_affinity and (kind.node_selector or kind.required is not None):
            verdicts.append(Verdict(AFFINITY, self._chosen_by(kind, nodes)))
        if self._args.taint_toleration:
            verdicts.append(Verdict(TAINTS, self._bearable(kind.tolerations, nodes)))
        return verdicts

    def _open_to(self, tolerations: tuple[Toleration, ...], nodes: NodeTable) -> BoolPerNode:
        tolerated = _tolerates(tolerations, _UNSCHEDULABLE_TAINT)
        return self._ask(
            nodes, (UNSCHEDULABLE, tolerated), lambda node: tolerated or not node.unschedulable
        )

    def _chosen_by(self, kind: TaskClass, nodes: NodeTable) -> BoolPerNode:
        chosen = (kind.node_selector, kind.required)
        return self._ask(nodes, (AFFINITY, chosen), lambda node: _chooses(node, *chosen))

    def _bearable(self, tolerations: tuple[Toleration, ...], nodes: NodeTable) -> BoolPerNode:
        return self._ask(
            nodes,
            (TAINTS, tolerations),
            lambda node: all(
                _tolerates(tolerations, taint)
                for taint in node.taints
                if taint.effect in _REPELLING
            ),
        )

    def _ask(self, nodes: NodeTable, constraint: Hashable, passes: Question) -> BoolPerNode:
        mask = self._masks.get(constraint)
        if mask is None or mask.layout != nodes.layout:
            if len(self._masks) >= _MOST_MASKS:
                self._masks.clear()
            answers = np.fromiter((passes(n) for n in nodes.facts), np.bool_, len(nodes))
            mask = self._masks[constraint] = _Mask(nodes.layout, nodes.version, answers)
        elif mask.version != nodes.version:
            for slot in np.flatnonzero(nodes.versions > mask.version).tolist():
                mask.passes[slot] = passes(nodes.facts[slot])
            mask.version = nodes.version
        return mask.passes

    # Those who stand there.

    def tolerable(self, task: Task, neighbours: Neighbours) -> list[Verdict]:
        social = task.kind.social or Social()
        verdicts: list[Verdict] = []
        if self._args.node_ports and social.ports:
            free = ~np.logical_or.reduce([neighbours.taken(port) for port in social.ports])
            verdicts.append(Verdict(PORTS, free))
        if self._args.pod_affinity:
            if social.near:
                verdicts.append(Verdict(NEAR, _near(task, social, neighbours)))
            verdicts += [
                Verdict(APART, ~(neighbours.in_domain(term.topology, neighbours.picked(term)) > 0))
                for term in social.apart
            ]
            verdicts.append(Verdict(UNWELCOME, ~neighbours.unwelcoming(task)))
        if self._args.topology_spread:
            for spread in social.spreads:
                if spread.is_hard:
                    verdicts += self._even(task, spread, neighbours)
        return verdicts

    def _even(self, task: Task, spread: Spread, neighbours: Neighbours) -> list[Verdict]:
        """Nodes whose domain would not get too far ahead of the emptiest one."""
        codes, _ = neighbours.codes(spread.term.topology)
        labelled = codes >= 0
        counted = eligible(spread, labelled, *self._policies(task.kind, labelled))
        per_domain, exists = domain_counts(spread, neighbours, counted)
        least = int(per_domain[exists].min()) if exists.any() else 0
        if int(exists.sum()) < spread.min_domains:
            least = 0
        itself = spread.term.selector.matches(task.labels)
        skew = per_domain[np.maximum(codes, 0)] + itself - least
        return [
            Verdict(SPREAD_LABEL, labelled),
            Verdict(SPREAD, labelled & (skew <= spread.max_skew)),
        ]

    def _policies(self, kind: TaskClass, labelled: BoolPerNode) -> tuple[BoolPerNode, BoolPerNode]:
        nodes = self._nodes
        if nodes is None or len(nodes) != len(labelled):
            return labelled, labelled
        return self._chosen_by(kind, nodes), self._bearable(kind.tolerations, nodes)


def _near(task: Task, social: Social, neighbours: Neighbours) -> BoolPerNode:
    """Near all that it wants near; the first of a kind that wants its own is welcome anywhere."""
    passes: BoolPerNode | None = None
    anybody = False
    labelled: BoolPerNode | None = None
    for term in social.near:
        counts = neighbours.picked(term)
        anybody = anybody or bool(counts.any())
        near = neighbours.in_domain(term.topology, counts) > 0
        inside = neighbours.codes(term.topology)[0] >= 0
        passes = near if passes is None else passes & near
        labelled = inside if labelled is None else labelled & inside
    if passes is None or labelled is None:
        return np.ones(0, dtype=np.bool_)
    wants_its_own = all(neighbours.picks(term, task) for term in social.near)
    return labelled if wants_its_own and not anybody else passes


def _tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def _chooses(
    node: NodeFacts, selector: tuple[tuple[str, str], ...], required: NodeSelector | None
) -> bool:
    labels = dict(node.labels)
    if any(labels.get(key) != value for key, value in selector):
        return False
    try:
        return required is None or required.matches(node.name, labels)
    except SelectorError:
        return False  # the API server lets no such operator in; if one is there, it matches nothing


def build(arguments: Mapping[str, Any]) -> Predicates:
    return Predicates(read_arguments(NAME, Args, arguments))
