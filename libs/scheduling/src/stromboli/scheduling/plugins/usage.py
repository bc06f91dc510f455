"""Prefer nodes that are really idle, and keep off those that are really busy.

The load is measured (`metrics` in the configuration file) and therefore old; what was placed
since the measurement is added by estimate, so that a node that looks idle is not buried before
anybody has measured again. A measurement that is too old says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stromboli.api.errors import QuantityError
from stromboli.api.resources import to_base_units
from stromboli.scheduling.errors import BadValue
from stromboli.scheduling.loads import NO_LOADS, Loads
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.plugins.api import NodeState, Verdict
from stromboli.scheduling.plugins.arguments import Percent, Weight, read_arguments
from stromboli.scheduling.pods import TaskClass
from stromboli.scheduling.resources import CPU, MEMORY, PODS, FloatPerNode, IntVector, tallied

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session
    from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "usage"

BUSY: Final = {
    CPU: "the CPU load of the node exceeds the upper limit",
    MEMORY: "the memory load of the node exceeds the upper limit",
}

_FULL: Final = 100.0
_FRESH_S: Final = 300.0
_MOMENT_S: Final = 0.001
_RESOURCES: Final = (CPU, MEMORY)


class Estimator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a pod will use: a part of what it asks for, and of what its limits allow beyond."""

    request_ratio: float = 0.7
    burst_ratio: float = 0.0
    risk_threshold: float = 0.6
    """From this load of a node on, what is estimated there counts `risk_factor` times."""
    risk_factor: float = 1.2
    be_cpu: str = "250m"
    """Of a pod that asks for neither cpu nor memory."""
    be_mem: str = "200Mi"


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Percent; a node above one of them takes no more pods."""

    cpu: Percent = 80.0
    mem: Percent = 80.0


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    weight: Weight = msgspec.field(default=5, name="usage.weight")
    cpu_weight: Weight = msgspec.field(default=1, name="cpu.weight")
    memory_weight: Weight = msgspec.field(default=1, name="memory.weight")
    thresholds: Thresholds = msgspec.field(default_factory=Thresholds)
    estimator: Estimator = msgspec.field(default_factory=Estimator)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Cpu and memory that one pod will use: on a node at rest, and on one at risk."""

    calm: FloatPerNode
    risky: FloatPerNode


class Estimates:
    """Of pods, by their class."""

    def __init__(self, said: Estimator) -> None:
        self._said = said
        self._modest = np.array(
            [_units("be_cpu", CPU, said.be_cpu), _units("be_mem", MEMORY, said.be_mem)]
        )
        self.risk = max(1.0, said.risk_factor)
        self._known: dict[TaskClass, Estimate] = {}

    def of(self, kind: TaskClass) -> Estimate:
        known = self._known.get(kind)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[kind] = self._estimate(kind)
        return known

    def _estimate(self, kind: TaskClass) -> Estimate:
        asked, burst = dict(kind.request), dict(kind.burst)
        request = np.array([asked.get(name, 0) for name in _RESOURCES], dtype=np.float64)
        beyond = np.array([burst.get(name, 0) for name in _RESOURCES], dtype=np.float64)
        if not request.any() and not beyond.any():
            return Estimate(self._modest, self._modest * self.risk)
        likely = request * self._said.request_ratio + beyond * self._said.burst_ratio
        most = request + beyond
        return Estimate(np.clip(likely, 0.0, most), np.clip(likely * self.risk, 0.0, most))


_MOST_KNOWN: Final = 4096


class Usage:
    """Filters and scores nodes by their measured load."""

    name = NAME

    def __init__(self, args: Args) -> None:
        self._args = args
        self._estimates = Estimates(args.estimator)
        self._session: Session | None = None
        self._loads: Loads = NO_LOADS
        self._layout = -1
        self._measured = np.zeros((2, 0))
        """Cpu and memory, as a part of each node; not a number where nobody measured."""
        self._calm = self._risky = np.zeros((2, 0))
        """What is estimated of those that were placed since."""
        self._placed: dict[int, tuple[float, Placement, tuple[str, ...]]] = {}
        """When, who and on which nodes: as far as no measurement can know of it."""

    def opened(self, session: "Session") -> None:
        self._session = session
        fresh = session.now - session.loads.at <= _FRESH_S
        loads = session.loads if fresh else NO_LOADS
        if loads is not self._loads or session.nodes.layout != self._layout:
            self._loads, self._layout = loads, session.nodes.layout
            self._begin(session)

    def closed(self, session: "Session") -> None:
        """Where a node is too busy, who waits is looked at again when that is too long ago."""
        if any(not verdict.passes.all() for verdict in self._verdicts()):
            for key, contender in session.contenders.items():
                if contender.waiting:
                    session.look_again(key, self._loads.at + _FRESH_S + _MOMENT_S)

    def _begin(self, session: "Session") -> None:
        nodes, unknown = session.nodes, float("nan")
        known = [self._loads.of.get(node.name) for node in nodes.facts]
        self._measured = np.array(
            [
                [load.cpu if load else unknown for load in known],
                [load.memory if load else unknown for load in known],
            ]
        )
        self._calm, self._risky = np.zeros((2, len(nodes))), np.zeros((2, len(nodes)))
        at = self._loads.at if self._loads is not NO_LOADS else session.now
        self._placed = {key: one for key, one in self._placed.items() if one[0] > at}
        for _, placement, names in self._placed.values():
            slots = [slot for name in names if (slot := nodes.slot(name)) is not None]
            self._add(placement.kind, np.array(slots, dtype=np.int64), 1)

    # What was placed since.

    def placed(self, placement: "Placement") -> None:
        session = self._session
        if session is None or placement.pipelined or self._loads is NO_LOADS:
            return
        names = tuple(session.nodes.facts[slot].name for slot in placement.slots.tolist())
        self._placed[id(placement)] = (session.now, placement, names)
        self._add(placement.kind, placement.slots, 1)

    def withdrawn(self, placement: "Placement") -> None:
        if self._placed.pop(id(placement), None) is not None:
            self._add(placement.kind, placement.slots, -1)

    def evicted(self, eviction: "Eviction") -> None:
        """What it uses is measured until it is gone."""

    def restored(self, eviction: "Eviction") -> None:
        """It never left."""

    def _add(self, kind: TaskClass, slots: IntVector, sign: int) -> None:
        if not len(slots):
            return
        estimate = self._estimates.of(kind)
        which, times = tallied(slots)
        self._calm[:, which] += estimate.calm[:, None] * (sign * times)
        self._risky[:, which] += estimate.risky[:, None] * (sign * times)

    # Nodes.

    def feasible(self, kind: TaskClass, nodes: NodeTable) -> list[Verdict]:
        return self._verdicts() if self._measured.shape[1] == len(nodes) else []

    def _verdicts(self) -> list[Verdict]:
        limits = (self._args.thresholds.cpu, self._args.thresholds.mem)
        return [
            Verdict(BUSY[resource], ~(measured * _FULL > limit))
            for resource, measured, limit in zip(_RESOURCES, self._measured, limits, strict=True)
        ]

    def score(self, state: NodeState) -> FloatPerNode:
        args, session, slots = self._args, self._session, state.slots
        weights = np.array([args.cpu_weight, args.memory_weight], dtype=np.float64)
        if session is None or self._loads is NO_LOADS or weights.sum() <= 0:
            return np.zeros(len(slots))
        offered = np.stack([state.allocatable(name) for name in _RESOURCES]).astype(np.float64)
        measured = self._measured[:, slots]
        # Those of its own kind that are imagined to stand there already.
        row = session.nodes.resources.row(PODS)
        there = session.allocatable[row, slots] - session.trial.idle[row, slots]
        imagined = state.used(PODS) - there
        own = self._estimates.of(state.kind)
        calm = _load(measured, self._calm[:, slots] + own.calm[:, None] * imagined, offered)
        risky = _load(measured, self._risky[:, slots] + own.risky[:, None] * imagined, offered)
        at_risk = weights @ calm / weights.sum() >= args.estimator.risk_threshold
        free = weights @ (1.0 - np.where(at_risk, risky, calm)) / weights.sum()
        return np.where(np.isnan(free), 0.0, _FULL * args.weight * free)


def _load(measured: FloatPerNode, estimated: FloatPerNode, offered: FloatPerNode) -> FloatPerNode:
    """As a part of the node, 0 to 1."""
    part = np.divide(estimated, offered, out=np.zeros(offered.shape), where=offered > 0)
    return np.clip(measured + part, 0.0, 1.0)


def _units(argument: str, resource: str, quantity: str) -> float:
    what, expected = f"the estimator's {argument} of {NAME}", "an amount such as 250m or 200Mi"
    try:
        units = to_base_units(resource, quantity)
    except QuantityError as fault:
        raise BadValue(what, quantity, expected) from fault
    if units < 0:
        raise BadValue(what, quantity, expected)
    return float(units)


def build(arguments: Mapping[str, Any]) -> Usage:
    return Usage(read_arguments(NAME, Args, arguments))
