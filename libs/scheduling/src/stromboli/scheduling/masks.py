"""Which nodes pass a question about what is written on them, asked again only where that changed.

Very many pods ask very few distinct questions, so each answer is kept by the value of what was
asked, over all nodes, and renewed for the nodes whose labels or taints are new.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from stromboli.api.core import NodeSelector, Taint, Toleration
from stromboli.api.errors import SelectorError
from stromboli.scheduling.nodes import NodeFacts, NodeTable
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.resources import BoolPerNode

__all__ = ["Masks", "chooses", "tolerates"]

_REPELLING: Final = ("NoSchedule", "NoExecute")
_MOST_MASKS: Final = 4096

Question: TypeAlias = Callable[[NodeFacts], bool]


@dataclass(slots=True)
class _Mask:
    layout: int
    version: int
    passes: BoolPerNode


@dataclass(slots=True)
class Masks:
    """Answers over all nodes, by what was asked."""

    _known: dict[Hashable, _Mask] = field(default_factory=dict[Hashable, _Mask])

    def ask(self, nodes: NodeTable, constraint: Hashable, passes: Question) -> BoolPerNode:
        """To look at and not to keep: it changes with the nodes."""
        mask = self._known.get(constraint)
        if mask is None or mask.layout != nodes.layout:
            if len(self._known) >= _MOST_MASKS:
                self._known.clear()
            answers = np.fromiter((passes(n) for n in nodes.facts), np.bool_, len(nodes))
            mask = self._known[constraint] = _Mask(nodes.layout, nodes.version, answers)
        elif mask.version != nodes.version:
            for slot in np.flatnonzero(nodes.versions > mask.version).tolist():
                mask.passes[slot] = passes(nodes.facts[slot])
            mask.version = nodes.version
        return mask.passes

    def chosen_by(self, kind: TaskClass, nodes: NodeTable) -> BoolPerNode:
        """Nodes that its node selector and its required affinity pick."""
        chosen = (kind.node_selector, kind.required)
        return self.ask(nodes, ("chosen", chosen), lambda node: chooses(node, *chosen))

    def bearable(self, tolerations: tuple[Toleration, ...], nodes: NodeTable) -> BoolPerNode:
        """Nodes whose taints these tolerations put up with, as far as taints keep pods away."""
        return self.ask(
            nodes,
            ("bearable", tolerations),
            lambda node: all(
                tolerates(tolerations, taint) for taint in node.taints if taint.effect in _REPELLING
            ),
        )


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def chooses(
    node: NodeFacts, selector: tuple[tuple[str, str], ...], required: NodeSelector | None
) -> bool:
    labels = dict(node.labels)
    if any(labels.get(key) != value for key, value in selector):
        return False
    try:
        return required is None or required.matches(node.name, labels)
    except SelectorError:
        return False  # the API server lets no such operator in; if one is there, it matches nothing
