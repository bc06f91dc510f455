"""Keep pods off nodes that they do not want, or that do not want them.

Each distinct constraint is asked once about each node; the answers are kept, and asked again
only for nodes whose labels, taints or readiness changed. Room is not looked at here: the
actions know what is free, now and soon.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from stromboli.api.core import NodeSelector, Taint, Toleration
from stromboli.api.errors import SelectorError
from stromboli.scheduling.nodes import NodeFacts, NodeTable
from stromboli.scheduling.plugins.api import Verdict
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.resources import BoolPerNode

NAME: Final = "predicates"

UNSCHEDULABLE: Final = "node(s) were unschedulable"
NOT_READY: Final = "node(s) were not ready"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TAINTS: Final = "node(s) had untolerated taint(s)"

_UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_REPELLING: Final = ("NoSchedule", "NoExecute")
_MOST_MASKS: Final = 4096

Question: TypeAlias = Callable[[NodeFacts], bool]


class Args(msgspec.Struct, frozen=True):
    """Switches, by Volcano's names."""

    node_affinity: bool = msgspec.field(default=True, name="predicate.NodeAffinityEnable")
    taint_toleration: bool = msgspec.field(default=True, name="predicate.TaintTolerationEnable")


@dataclass(slots=True)
class _Mask:
    layout: int
    version: int
    passes: BoolPerNode


class Predicates:
    """Filters nodes by what is written on them."""

    name = NAME

    def __init__(self, args: Args) -> None:
        self._args = args
        self._masks: dict[Hashable, _Mask] = {}

    def feasible(self, kind: TaskClass, nodes: NodeTable) -> list[Verdict]:
        tolerations = kind.tolerations
        verdicts = [
            Verdict(
                UNSCHEDULABLE,
                self._ask(
                    nodes,
                    (UNSCHEDULABLE, _tolerates(tolerations, _UNSCHEDULABLE_TAINT)),
                    lambda node: (
                        not node.unschedulable or _tolerates(tolerations, _UNSCHEDULABLE_TAINT)
                    ),
                ),
            ),
            Verdict(NOT_READY, self._ask(nodes, NOT_READY, lambda node: node.ready)),
        ]
        if self._args.node_affinity and (kind.node_selector or kind.required is not None):
            chosen = (kind.node_selector, kind.required)
            mask = self._ask(nodes, (AFFINITY, chosen), lambda node: _chooses(node, *chosen))
            verdicts.append(Verdict(AFFINITY, mask))
        if self._args.taint_toleration:
            mask = self._ask(
                nodes,
                (TAINTS, tolerations),
                lambda node: all(
                    _tolerates(tolerations, taint)
                    for taint in node.taints
                    if taint.effect in _REPELLING
                ),
            )
            verdicts.append(Verdict(TAINTS, mask))
        return verdicts

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
