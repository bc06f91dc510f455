"""Kubernetes' scores of nodes, each with its weight: what is left, what is liked, who is near.

Every scorer gives 0 to 100. Those that compare nodes with each other are normalised over the
nodes that the class of pods could go to at all; whether one of them is full at the moment does not
change what the others are worth. Where free room counts, a pod is taken to use a little cpu and
memory even if it asks for none, as in Kubernetes, so that such pods do not all meet on one node.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stromboli.api.errors import SelectorError
from stromboli.scheduling.masks import Masks
from stromboli.scheduling.neighbours import Neighbours
from stromboli.scheduling.nodes import NodeTable, assumed_of
from stromboli.scheduling.plugins.api import NodeState
from stromboli.scheduling.plugins.arguments import Weight, read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.resources import (
    CPU,
    MEMORY,
    PODS,
    BoolPerNode,
    FloatPerNode,
    IntMatrix,
    IntVector,
    tallied,
)
from stromboli.scheduling.social import Spread
from stromboli.scheduling.spreading import domain_counts, eligible

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session
    from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "nodeorder"

_FULL: Final = 100.0
_GPU: Final = "nvidia.com/gpu"
_PREFER_NOT: Final = "PreferNoSchedule"
_HOSTNAME: Final = "kubernetes.io/hostname"
_SMALL_IMAGE: Final = 23 * 2**20
_LARGE_IMAGE: Final = 1000 * 2**20


class Args(msgspec.Struct, frozen=True):
    """Weights, by Volcano's names; 0 switches a scorer off."""

    least_requested: Weight = msgspec.field(default=1, name="leastrequested.weight")
    most_requested: Weight = msgspec.field(default=0, name="mostrequested.weight")
    balanced: Weight = msgspec.field(default=1, name="balancedresource.weight")
    node_affinity: Weight = msgspec.field(default=2, name="nodeaffinity.weight")
    pod_affinity: Weight = msgspec.field(default=2, name="podaffinity.weight")
    taints: Weight = msgspec.field(default=3, name="tainttoleration.weight")
    images: Weight = msgspec.field(default=1, name="imagelocality.weight")
    spread: Weight = msgspec.field(default=2, name="podtopologyspread.weight")


class NodeOrder:
    """Scores nodes as Kubernetes does."""

    name = NAME
    is_even_handed = True

    def __init__(self, args: Args) -> None:
        self._args = args
        self._masks = Masks()
        self._session: Session | None = None
        self._assumed: IntMatrix | None = None
        """Cpu and memory that pods are taken to use beyond what they ask for; None for none."""

    def opened(self, session: "Session") -> None:
        self._session = session
        assumed = session.nodes.assumed
        self._assumed = assumed.copy() if assumed.any() else None

    def placed(self, placement: "Placement") -> None:
        self._count(placement, 1)

    def withdrawn(self, placement: "Placement") -> None:
        self._count(placement, -1)

    def evicted(self, eviction: "Eviction") -> None:
        """Who has to go takes room until it is gone."""

    def restored(self, eviction: "Eviction") -> None:
        """It never left."""

    def _count(self, placement: "Placement", sign: int) -> None:
        beyond = assumed_of(placement.kind.request)
        if placement.pipelined or not any(beyond) or self._session is None:
            return
        if self._assumed is None:
            self._assumed = np.zeros((2, len(self._session.nodes)), dtype=np.int64)
        which, times = tallied(placement.slots)
        self._assumed[:, which] += np.array(beyond)[:, None] * (sign * times)

    # What is left.

    def score(self, state: NodeState) -> FloatPerNode:
        args, asked = self._args, dict(state.request)
        cpu, memory = (asked.get(name, 0) for name in (CPU, MEMORY))
        total = np.zeros(len(state.slots))
        parts = [_Fullness(state, CPU, cpu), _Fullness(state, MEMORY, memory)]
        if args.least_requested or args.most_requested:
            beyond = self._beyond(state)
            full = parts
            if beyond is not None:
                full = [
                    _Fullness(state, CPU, cpu + beyond[0]),
                    _Fullness(state, MEMORY, memory + beyond[1]),
                ]
            mean, number = _mean(full)
            if args.least_requested:
                total += args.least_requested * _FULL * (number - mean)
            if args.most_requested:
                total += args.most_requested * _FULL * mean
        gpus = asked.get(_GPU, 0)
        if args.balanced and (cpu or memory or gpus):
            if gpus:
                parts = [*parts, _Fullness(state, _GPU, gpus)]
            total += args.balanced * _balance(parts)
        return total

    def _beyond(self, state: NodeState) -> tuple[IntVector, IntVector] | None:
        """What the pod, and those that stand there, are taken to use beyond what they ask for."""
        cpu, memory = assumed_of(state.request)
        session, slots = self._session, state.slots
        if session is None or (self._assumed is None and not cpu and not memory):
            return None
        # Of its own kind, those that are imagined to stand there before it, and itself.
        row = session.nodes.resources.row(PODS)
        there = session.allocatable[row, slots] - session.trial.idle[row, slots]
        number = state.used(PODS) - there + 1
        if self._assumed is None:
            return cpu * number, memory * number
        return self._assumed[0, slots] + cpu * number, self._assumed[1, slots] + memory * number

    # What is liked, whoever stands there.

    def preferences(
        self, kind: TaskClass, nodes: NodeTable, feasible: BoolPerNode
    ) -> FloatPerNode | None:
        args = self._args
        parts: list[FloatPerNode] = []
        if args.node_affinity and kind.preferred:
            parts.append(args.node_affinity * _normal(_affinity(kind, nodes), feasible))
        if args.taints and any(
            taint.effect == _PREFER_NOT for node in nodes.facts for taint in node.taints
        ):
            parts.append(args.taints * _reversed(_unbearable(kind, nodes), feasible))
        if args.images and kind.images and any(node.images for node in nodes.facts):
            parts.append(args.images * _images(kind, nodes))
        return sum(parts[1:], start=parts[0]) if parts else None

    # Who is near.

    def sociability(
        self, task: Task, neighbours: Neighbours, feasible: BoolPerNode
    ) -> FloatPerNode | None:
        args, social = self._args, task.kind.social
        parts: list[FloatPerNode] = []
        if args.pod_affinity:
            raw = neighbours.admiration(task)
            for weight, term in social.likes if social is not None else ():
                raw = raw + weight * neighbours.in_domain(term.topology, neighbours.picked(term))
            parts.append(args.pod_affinity * _stretched(raw, feasible))
        soft = [one for one in social.spreads if not one.is_hard] if social is not None else []
        if args.spread and soft:
            parts.append(args.spread * self._evenness(task.kind, soft, neighbours, feasible))
        return sum(parts[1:], start=parts[0]) if parts else None

    def _evenness(
        self,
        kind: TaskClass,
        spreads: Sequence[Spread],
        neighbours: Neighbours,
        feasible: BoolPerNode,
    ) -> FloatPerNode:
        """Higher where fewer pods of each constraint stand; coarse domains weigh less.

        All pods in a domain count, also those on nodes that are full, as long as the pod could
        go to some node there; nodes that lack one of the labels are worth nothing.
        """
        codes = [neighbours.codes(spread.term.topology)[0] for spread in spreads]
        labelled = np.logical_and.reduce([each >= 0 for each in codes])
        considered = feasible & labelled
        if not considered.any():
            return np.zeros(len(feasible))
        raw = np.zeros(len(feasible))
        for spread, domain in zip(spreads, codes, strict=True):
            if spread.term.topology == _HOSTNAME:
                counts = neighbours.picked(spread.term, skip_ending=True)
                size = int(considered.sum())
            else:
                counted = eligible(spread, labelled, *self._policies(kind, labelled))
                per_domain, _ = domain_counts(spread, neighbours, counted)
                counts = per_domain[np.maximum(domain, 0)]
                size = len(np.unique(domain[considered]))
            raw += counts * math.log(size + 2) + (spread.max_skew - 1)
        most, least = float(raw[considered].max()), float(raw[considered].min())
        if most == 0:
            return np.where(considered, _FULL, 0.0)
        return np.where(considered, _FULL * (most + least - raw) / most, 0.0)

    def _policies(self, kind: TaskClass, labelled: BoolPerNode) -> tuple[BoolPerNode, BoolPerNode]:
        if self._session is None:
            return labelled, labelled
        nodes = self._session.nodes
        return self._masks.chosen_by(kind, nodes), self._masks.bearable(kind.tolerations, nodes)


class _Fullness:
    """How full nodes would be of a resource, 0 to 1, and whether they have any of it at all."""

    __slots__ = ("everywhere", "share", "there")

    def __init__(self, state: NodeState, resource: str, asked: IntVector | int) -> None:
        offered = state.allocatable(resource)
        used = state.used(resource) + asked
        self.there = offered > 0
        self.everywhere = bool(self.there.all())
        share = np.divide(used, offered, out=np.zeros(len(offered)), where=self.there)
        self.share = np.clip(share, 0.0, 1.0)


def _mean(parts: Sequence[_Fullness]) -> tuple[FloatPerNode, FloatPerNode | float]:
    """Over the resources that a node has, how full it is of them; and 1, or 0 if it has none."""
    total = sum((part.share for part in parts[1:]), start=parts[0].share)
    if all(part.everywhere for part in parts):
        return total / len(parts), 1.0
    number = np.stack([part.there for part in parts]).sum(axis=0)
    return total / np.maximum(number, 1), np.minimum(number, 1).astype(np.float64)


def _balance(parts: Sequence[_Fullness]) -> FloatPerNode:
    """Highest where all resources that a node has would be used alike."""
    if len(parts) == 2 and all(part.everywhere for part in parts):
        return (1.0 - np.abs(parts[0].share - parts[1].share) / 2.0) * _FULL
    there = np.stack([part.there for part in parts])
    shares = np.stack([part.share for part in parts])
    number = np.maximum(there.sum(axis=0), 1)
    off = np.where(there, shares - shares.sum(axis=0) / number, 0.0)
    return (1.0 - np.sqrt((off * off).sum(axis=0) / number)) * _FULL


def _affinity(kind: TaskClass, nodes: NodeTable) -> FloatPerNode:
    score = np.zeros(len(nodes))
    for slot, node in enumerate(nodes.facts):
        labels = dict(node.labels)
        for term in kind.preferred:
            try:
                if term.preference.matches(node.name, labels):
                    score[slot] += term.weight
            except SelectorError:
                continue  # the API server lets no such operator in
    return score


def _unbearable(kind: TaskClass, nodes: NodeTable) -> FloatPerNode:
    """How many taints that say "rather not" the pod does not tolerate."""
    tolerations = [one for one in kind.tolerations if one.effect in {"", _PREFER_NOT}]
    return np.fromiter(
        (
            sum(
                not any(toleration.tolerates(taint) for toleration in tolerations)
                for taint in node.taints
                if taint.effect == _PREFER_NOT
            )
            for node in nodes.facts
        ),
        np.float64,
        len(nodes),
    )


def _images(kind: TaskClass, nodes: NodeTable) -> FloatPerNode:
    """Bytes of its images that a node has already; an image that many have counts for more."""
    total = np.zeros(len(nodes))
    for image in kind.images:
        wanted = _full_name(image)
        sizes = np.fromiter((dict(node.images).get(wanted, 0) for node in nodes.facts), np.float64)
        total += sizes * (np.count_nonzero(sizes) / max(1, len(nodes)))
    low, high = _SMALL_IMAGE, _LARGE_IMAGE * len(kind.images)
    return _FULL * (np.clip(total, low, high) - low) / (high - low)


def _full_name(image: str) -> str:
    """Images are known by their tag, and without one by `latest`."""
    return image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"


def _normal(raw: FloatPerNode, feasible: BoolPerNode) -> FloatPerNode:
    most = float(raw[feasible].max()) if feasible.any() else 0.0
    return raw * (_FULL / most) if most > 0 else np.zeros(len(raw))


def _reversed(raw: FloatPerNode, feasible: BoolPerNode) -> FloatPerNode:
    most = float(raw[feasible].max()) if feasible.any() else 0.0
    return _FULL - raw * (_FULL / most) if most > 0 else np.full(len(raw), _FULL)


def _stretched(raw: FloatPerNode, feasible: BoolPerNode) -> FloatPerNode:
    """The worst gets 0 and the best 100; if all are alike, all get 0."""
    if not feasible.any():
        return np.zeros(len(raw))
    most, least = float(raw[feasible].max()), float(raw[feasible].min())
    return _FULL * (raw - least) / (most - least) if most > least else np.zeros(len(raw))


def build(arguments: Mapping[str, Any]) -> NodeOrder:
    return NodeOrder(read_arguments(NAME, Args, arguments))
