"""Prefer the node that would be the fullest: pods pack together, whole nodes stay free."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from stromboli.scheduling.plugins.api import NodeState
from stromboli.scheduling.plugins.arguments import WeightedResources, read_arguments, weight_of
from stromboli.scheduling.resources import CPU, MEMORY, FloatPerNode

NAME: Final = "binpack"

_FULL: Final = 100.0
_RESOURCES: Final = WeightedResources(NAME, "binpack.resources")


class Args(msgspec.Struct, frozen=True):
    """Weights, by Volcano's names; one below 0 counts as 1."""

    weight: int = msgspec.field(default=1, name="binpack.weight")
    cpu: int = msgspec.field(default=1, name="binpack.cpu")
    memory: int = msgspec.field(default=1, name="binpack.memory")
    resources: str = msgspec.field(default="", name="binpack.resources")
    """More resources, separated by commas; each has a weight as `binpack.resources.<name>`."""


class Binpack:
    """Scores nodes by how full they would be of what the pod asks for."""

    name = NAME
    is_even_handed = True

    def __init__(self, weight: int, weights: Mapping[str, int]) -> None:
        self._weight = weight
        self._weights = weights

    def score(self, state: NodeState) -> FloatPerNode:
        asked = [(name, units) for name, units in state.request if self._weights.get(name)]
        nodes = len(state.allocatable(CPU))
        total = np.zeros(nodes)
        fits = np.ones(nodes, dtype=np.bool_)
        for name, units in asked:
            offered = state.allocatable(name)
            used = state.used(name) + units
            there = offered > 0
            fits &= ~there | (used <= offered)
            share = np.divide(used, offered, out=np.zeros(nodes), where=there)
            total += self._weights[name] * share
        weights = sum(self._weights[name] for name, _ in asked)
        return np.where(fits, total * (self._weight * _FULL / weights), 0.0) if weights else total


def build(arguments: Mapping[str, Any]) -> Binpack:
    own, extra = _RESOURCES.apart(arguments)
    args = read_arguments(NAME, Args, own)
    weights = {CPU: weight_of(NAME, args.cpu), MEMORY: weight_of(NAME, args.memory)}
    weights |= _RESOURCES.read(args.resources, extra)
    return Binpack(weight_of(NAME, args.weight), weights)
