"""Pack some resources and spread others, each with its weight; keep scarce ones for who asks.

Which way a resource counts is configured by name (a trailing `*` means "starts with", the longest
such name wins). Nodes that have scarce resources can be kept free of pods that do not ask for
them, by score, and pods without a GPU can be made to leave enough cpu and memory beside each. A
pod can say itself which way its resources count, and how much.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
import numpy as np

from stromboli.scheduling.plugins.api import NodeState
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.resources import (
    CPU,
    MEMORY,
    PODS,
    Amounts,
    FloatPerNode,
    IntMatrix,
    IntVector,
    ResourceIndex,
)

NAME: Final = "resource-strategy-fit"

_FULL: Final = 100.0
_MOST: Final = "MostAllocated"
_LEAST: Final = "LeastAllocated"
_WEIGHT: Final = 10
_MOST_KNOWN: Final = 4096
_ANY_NUMBER: Final = np.iinfo(np.int64).max
_MEMORY_PER_THOUSANDTH: Final = 1_000_000
"""A proportion of 1 is a gigabyte for a whole device, which is a thousand thousandths."""


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


class Proportional(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices beside which others must leave some cpu and memory."""

    enable: bool = False
    resources: str = ""
    proportions: dict[str, float] = msgspec.field(
        default_factory=dict[str, float], name="resourceProportion"
    )
    """`<device>.cpu`: cores for each that is free, `<device>.memory`: gigabytes; 1 if not said."""


def _by_default() -> dict[str, Strategy]:
    return {CPU: Strategy(), MEMORY: Strategy()}


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    weight: int = msgspec.field(default=_WEIGHT, name="resourceStrategyFitWeight")
    resources: dict[str, Strategy] = msgspec.field(default_factory=_by_default)
    scarce: Scarce = msgspec.field(default_factory=Scarce, name="sra")
    proportional: Proportional = msgspec.field(default_factory=Proportional)


class ResourceStrategyFit:
    """Scores nodes by how full they would be, resource by resource."""

    name = NAME
    is_even_handed = True

    def __init__(self, args: Args) -> None:
        self._weight = args.weight if args.weight > 0 else _WEIGHT
        self._strategies = args.resources or _by_default()
        self._by_pods: dict[tuple[str, str], dict[str, Strategy]] = {}
        self._devices = _proportions(args.proportional) if args.proportional.enable else {}
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
        strategies = self._strategies_of(state.kind)
        for name, units in state.request:
            strategy = _strategy(strategies, name)
            if strategy is None:
                continue
            weight = max(1, strategy.weight)
            offered = state.allocatable(name)
            used = state.used(name) + units
            fits &= (used <= offered) | (offered <= 0)
            there = offered > 0
            share = np.divide(used, offered, out=np.zeros(nodes), where=there)
            total += weight * (share if strategy.type == _MOST else there - share)
            weights += weight
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

    def _strategies_of(self, kind: TaskClass) -> Mapping[str, Strategy]:
        """As configured, or as the pods themselves want it."""
        if not any(kind.strategy):
            return self._strategies
        known = self._by_pods.get(kind.strategy)
        if known is None:
            if len(self._by_pods) >= _MOST_KNOWN:
                self._by_pods.clear()
            known = self._by_pods[kind.strategy] = self._overridden(*kind.strategy)
        return known

    def _overridden(self, type_: str, weights: str) -> dict[str, Strategy]:
        """What can't be read changes nothing."""
        found = dict(self._strategies)
        for name, weight in _weights(weights).items():
            if weight > 0:
                known = _strategy(self._strategies, name) or Strategy()
                found[name] = msgspec.structs.replace(known, weight=weight)
        if type_ in {_MOST, _LEAST}:
            found = {name: msgspec.structs.replace(one, type=type_) for name, one in found.items()}
        return found

    # What must be left beside devices.

    def room_for(
        self, kind: TaskClass, resources: ResourceIndex, free: IntMatrix
    ) -> IntVector | None:
        """How many pods without a device leave enough for those that are free."""
        if not self._devices or _asks_for_any(kind.request, tuple(self._devices)):
            return None
        asked = dict(kind.request)
        room = np.full(free.shape[1], _ANY_NUMBER, dtype=np.int64)
        for device, (cpu, memory) in self._devices.items():
            row = resources.row(device)
            if row >= len(free):
                continue
            devices = np.maximum(free[row], 0)
            for name, per_device in ((CPU, cpu), (MEMORY, memory * _MEMORY_PER_THOUSANDTH)):
                left = free[resources.row(name)] - np.ceil(devices * per_device).astype(np.int64)
                units = asked.get(name, 0)
                fits = left // units if units else np.where(left < 0, 0, _ANY_NUMBER)
                room = np.where(devices > 0, np.minimum(room, np.maximum(fits, 0)), room)
        return room


def _strategy(strategies: Mapping[str, Strategy], resource: str) -> Strategy | None:
    exact = strategies.get(resource)
    if exact is not None:
        return exact
    prefixes = [
        name for name in strategies if name.endswith("*") and resource.startswith(name[:-1])
    ]
    return strategies[max(prefixes, key=len)] if prefixes else None


def _weights(text: str) -> dict[str, int]:
    try:
        return msgspec.json.decode(text, type=dict[str, int]) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}


def _proportions(said: Proportional) -> dict[str, tuple[float, float]]:
    """By device: cpu and memory; a proportion below 0 counts as 1."""

    def rate(name: str) -> float:
        given = said.proportions.get(name, 1.0)
        return given if given >= 0 else 1.0

    names = filter(None, (name.strip() for name in said.resources.split(",")))
    return {name: (rate(f"{name}.cpu"), rate(f"{name}.memory")) for name in names}


def _asks_for_any(request: Amounts, names: tuple[str, ...]) -> bool:
    return any(name in names for name, _ in request)


def build(arguments: Mapping[str, Any]) -> ResourceStrategyFit:
    return ResourceStrategyFit(read_arguments(NAME, Args, arguments))
