"""Prefer nodes that are really idle, and keep off those that are really busy.

The load is measured (`metrics` in the configuration file) and therefore old; what was placed
since the measurement is added by estimate, so that a node that looks idle is not buried before
anybody has measured again. A measurement that is too old says nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stromboli.scheduling.loads import NO_LOADS, Loads
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.plugins.api import NodeState, Verdict
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.resources import CPU, MEMORY, FloatPerNode

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

NAME: Final = "usage"

TOO_BUSY: Final = "node(s) had too high a measured load"

_FULL: Final = 100.0
_FRESH_S: Final = 300.0
_THRESHOLDS: Final = {CPU: "cpu", MEMORY: "mem"}


class Estimator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a pod will use, as a share of what it asks for."""

    request_ratio: float = 0.7
    risk_threshold: float = 0.6
    risk_factor: float = 1.2
    burst_ratio: float = 0.0
    be_cpu: str = "250m"
    be_mem: str = "200Mi"


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    weight: float = msgspec.field(default=5.0, name="usage.weight")
    cpu_weight: float = msgspec.field(default=1.0, name="cpu.weight")
    memory_weight: float = msgspec.field(default=1.0, name="memory.weight")
    thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {"cpu": 80.0, "mem": 80.0})
    """Percent; a node above one of them takes no more pods."""
    estimator: Estimator = msgspec.field(default_factory=Estimator)


class Usage:
    """Filters and scores nodes by their measured load."""

    name = NAME

    def __init__(self, args: Args) -> None:
        self._args = args
        self._loads: Loads = NO_LOADS
        self._layout = -1
        self._used_then: dict[str, FloatPerNode] = {}
        self._measured: dict[str, FloatPerNode] = {}

    def opened(self, session: "Session") -> None:
        fresh = session.now - session.loads.at <= _FRESH_S
        loads = session.loads if fresh else NO_LOADS
        if loads is not self._loads or session.nodes.layout != self._layout:
            self._loads = loads
            self._layout = session.nodes.layout
            self._remember(session)

    def _remember(self, session: "Session") -> None:
        """What the nodes measured, and what was asked of them at the time."""
        nodes = session.nodes
        unknown = float("nan")
        known = [self._loads.of.get(node.name) for node in nodes.facts]
        self._measured = {
            CPU: np.array([load.cpu if load else unknown for load in known]),
            MEMORY: np.array([load.memory if load else unknown for load in known]),
        }
        self._used_then = {
            name: nodes.used[nodes.resources.row(name)].astype(np.float64)
            if nodes.resources.row(name) < len(nodes.used)
            else np.zeros(len(nodes))
            for name in (CPU, MEMORY)
        }

    def feasible(self, kind: TaskClass, nodes: NodeTable) -> list[Verdict]:
        passes = np.ones(len(nodes), dtype=np.bool_)
        for resource, name in _THRESHOLDS.items():
            limit = self._args.thresholds.get(name)
            measured = self._measured.get(resource)
            if limit is not None and measured is not None and len(measured) == len(nodes):
                passes &= ~(measured * _FULL > limit)
        return [Verdict(TOO_BUSY, passes)]

    def score(self, state: NodeState) -> FloatPerNode:
        args = self._args
        weights = args.cpu_weight + args.memory_weight
        slots = state.slots
        total = np.zeros(len(slots))
        if not self._measured or weights <= 0:
            return total
        for resource, weight in ((CPU, args.cpu_weight), (MEMORY, args.memory_weight)):
            offered = state.allocatable(resource)
            placed_since = state.used(resource) - self._used_then[resource][slots]
            asked = dict(state.request).get(resource, 0)
            estimate = np.divide(
                args.estimator.request_ratio * (np.maximum(placed_since, 0) + asked),
                offered,
                out=np.zeros(len(slots)),
                where=offered > 0,
            )
            measured = self._measured[resource][slots]
            load = np.where(np.isnan(measured), 1.0, measured + estimate)
            risky = load > args.estimator.risk_threshold
            load = np.where(risky, load * args.estimator.risk_factor, load)
            total += weight * (1.0 - np.clip(load, 0.0, 1.0))
        return _FULL * args.weight * total / weights


def build(arguments: Mapping[str, Any]) -> Usage:
    return Usage(read_arguments(NAME, Args, arguments))
