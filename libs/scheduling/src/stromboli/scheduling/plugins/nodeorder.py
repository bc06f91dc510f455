"""Prefer the node that stays the emptiest: pods spread over the cluster.

The score is the share of cpu and of memory that would still be free with the pod on the node,
0 to 100, averaged. A pod that asks for neither is spread by the number of pods instead.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from stromboli.scheduling.plugins.api import NodeState
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.resources import CPU, MEMORY, PODS, FloatPerNode

NAME: Final = "nodeorder"

_FULL: Final = 100.0


class Args(msgspec.Struct, frozen=True):
    """Weights, by Volcano's names."""

    least_requested: float = msgspec.field(default=1.0, name="leastrequested.weight")


class NodeOrder:
    """Scores nodes by what would be left."""

    name = NAME

    def __init__(self, args: Args) -> None:
        self._weight = args.least_requested

    def score(self, state: NodeState) -> FloatPerNode:
        asked = dict(state.request)
        resources = (CPU, MEMORY) if CPU in asked or MEMORY in asked else (PODS,)
        parts = [_left(state, resource, asked.get(resource, 0)) for resource in resources]
        return self._weight * (sum(parts[1:], start=parts[0]) / len(parts))


def _left(state: NodeState, resource: str, asked: int) -> FloatPerNode:
    offered = state.allocatable(resource)
    left = offered - state.used(resource) - asked
    share = np.divide(left, offered, out=np.zeros(len(offered)), where=offered > 0)
    return _FULL * np.maximum(share, 0.0)


def build(arguments: Mapping[str, Any]) -> NodeOrder:
    return NodeOrder(read_arguments(NAME, Args, arguments))
