"""Prefer the node that would be the fullest: pods pack together, whole nodes stay free."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from stromboli.scheduling.errors import BadConfiguration, BadValue
from stromboli.scheduling.plugins.api import NodeState
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.resources import CPU, MEMORY, FloatPerNode

NAME: Final = "binpack"

_FULL: Final = 100.0
_EXTRA: Final = "binpack.resources."


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
    extra = {name: value for name, value in arguments.items() if name.startswith(_EXTRA)}
    args = read_arguments(
        NAME, Args, {name: value for name, value in arguments.items() if name not in extra}
    )
    weights = {CPU: _weight(args.cpu), MEMORY: _weight(args.memory)}
    for name in filter(None, (part.strip() for part in args.resources.split(","))):
        weights[name] = _weight(extra.pop(_EXTRA + name, 1))
    if extra:
        known = [_EXTRA + name for name in weights if name not in {CPU, MEMORY}]
        raise BadConfiguration(f"the argument of {NAME}", next(iter(extra)), known or ["none"])
    return Binpack(_weight(args.weight), weights)


def _weight(given: Any) -> int:
    try:
        return weight if (weight := int(given)) >= 0 else 1
    except (TypeError, ValueError):
        raise BadValue(f"a weight of {NAME}", given, "a whole number") from None
