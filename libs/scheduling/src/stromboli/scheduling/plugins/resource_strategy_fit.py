"""Pack some resources and spread others, each with its weight; keep scarce ones for who asks.

Which way a resource counts is configured by name (a trailing `*` means "starts with", the longest
such name wins). Nodes that have scarce resources can be kept free of pods that do not ask for
them, by score, and pods without a GPU can be made to leave enough cpu and memory beside each.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
import numpy as np

from stromboli.scheduling.plugins.api import NodeState
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.resources import CPU, MEMORY, PODS, Amounts, FloatPerNode

NAME: Final = "resource-strategy-fit"

_FULL: Final = 100.0
_MOST: Final = "MostAllocated"


class Strategy(msgspec.Struct, frozen=True):
    """How one resource counts."""

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    weight: int = 1


class Scarce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Resources that pods which do not ask for them should leave alone."""

    enable: bool = False
    resources: str = ""
    weight: int = 10
    weights: dict[str, int] = msgspec.field(default_factory=dict[str, int], name="resourceWeight")


def _by_default() -> dict[str, Strategy]:
    return {CPU: Strategy(), MEMORY: Strategy()}


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    weight: int = msgspec.field(default=10, name="resourceStrategyFitWeight")
    resources: dict[str, Strategy] = msgspec.field(default_factory=_by_default)
    scarce: Scarce = msgspec.field(default_factory=Scarce, name="sra")


class ResourceStrategyFit:
    """Scores nodes by how full they would be, resource by resource."""

    name = NAME

    def __init__(self, args: Args) -> None:
        self._weight = args.weight
        self._strategies = args.resources
        self._scarce = args.scarce
        self._scarce_names = tuple(
            filter(None, (name.strip() for name in args.scarce.resources.split(",")))
        )

    def score(self, state: NodeState) -> FloatPerNode:
        total = self._fit(state)
        if self._scarce.enable and self._scarce_names:
            total = total + self._left_alone(state)
        return total

    def _fit(self, state: NodeState) -> FloatPerNode:
        nodes = len(state.allocatable(PODS))
        total = np.zeros(nodes)
        fits = np.ones(nodes, dtype=np.bool_)
        weights = 0
        for name, units in state.request:
            strategy = self._strategy(name)
            if strategy is None or not strategy.weight:
                continue
            offered = state.allocatable(name)
            used = state.used(name) + units
            fits &= used <= offered
            share = np.divide(used, offered, out=np.zeros(nodes), where=offered > 0)
            total += strategy.weight * (share if strategy.type == _MOST else 1.0 - share)
            weights += strategy.weight
        return np.where(fits, total * (self._weight * _FULL / weights), 0.0) if weights else total

    def _left_alone(self, state: NodeState) -> FloatPerNode:
        """Less for nodes that have what the pod does not need and others are short of."""
        nodes = len(state.allocatable(PODS))
        if _asks_for_any(state.request, self._scarce_names):
            return np.zeros(nodes)
        weights = {name: self._scarce.weights.get(name, 1) for name in self._scarce_names}
        present = np.zeros(nodes)
        for name, weight in weights.items():
            present += weight * (state.allocatable(name) > 0)
        total = sum(weights.values())
        return _FULL * self._scarce.weight * (1.0 - present / total) if total else present

    def _strategy(self, resource: str) -> Strategy | None:
        exact = self._strategies.get(resource)
        if exact is not None:
            return exact
        prefixes = [
            name
            for name in self._strategies
            if name.endswith("*") and resource.startswith(name[:-1])
        ]
        return self._strategies[max(prefixes, key=len)] if prefixes else None


def _asks_for_any(request: Amounts, names: tuple[str, ...]) -> bool:
    return any(name in names for name, _ in request)


def build(arguments: Mapping[str, Any]) -> ResourceStrategyFit:
    return ResourceStrategyFit(read_arguments(NAME, Args, arguments))
