"""Kubernetes' scores of nodes, each with its weight: what is left, what is liked, who is near.

Every scorer gives 0 to 100. Those that compare nodes with each other are normalised over the
nodes that the class of pods could go to at all; whether one of them is full at the moment does not
change what the others are worth.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from stromboli.api.errors import SelectorError
from stromboli.scheduling.neighbours import Neighbours
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.plugins.api import NodeState
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.resources import CPU, MEMORY, PODS, BoolPerNode, FloatPerNode
from stromboli.scheduling.social import Spread
from stromboli.scheduling.spreading import domain_counts

NAME: Final = "nodeorder"

_FULL: Final = 100.0
_GPU: Final = "nvidia.com/gpu"
_PREFER_NOT: Final = "PreferNoSchedule"
_HOSTNAME: Final = "kubernetes.io/hostname"
_SMALL_IMAGE: Final = 23 * 2**20
_LARGE_IMAGE: Final = 1000 * 2**20


class Args(msgspec.Struct, frozen=True):
    """Weights, by Volcano's names; 0 switches a scorer off."""

    least_requested: float = msgspec.field(default=1.0, name="leastrequested.weight")
    most_requested: float = msgspec.field(default=0.0, name="mostrequested.weight")
    balanced: float = msgspec.field(default=1.0, name="balancedresource.weight")
    node_affinity: float = msgspec.field(default=2.0, name="nodeaffinity.weight")
    pod_affinity: float = msgspec.field(default=2.0, name="podaffinity.weight")
    taints: float = msgspec.field(default=3.0, name="tainttoleration.weight")
    images: float = msgspec.field(default=1.0, name="imagelocality.weight")
    spread: float = msgspec.field(default=2.0, name="podtopologyspread.weight")


class NodeOrder:
    """Scores nodes as Kubernetes does."""

    name = NAME
    is_even_handed = True

    def __init__(self, args: Args) -> None:
        self._args = args

    # What is left.

    def score(self, state: NodeState) -> FloatPerNode:
        args, asked = self._args, dict(state.request)
        if CPU not in asked and MEMORY not in asked:
            # Asks for neither: spread by number, which those scorers can't see.
            return args.least_requested * _FULL * (1.0 - _fraction(state, PODS, asked.get(PODS, 0)))
        cpu, memory = (_fraction(state, name, asked.get(name, 0)) for name in (CPU, MEMORY))
        total = np.zeros(len(cpu))
        if args.least_requested:
            total += args.least_requested * _FULL * (1.0 - (cpu + memory) / 2.0)
        if args.most_requested:
            total += args.most_requested * _FULL * (cpu + memory) / 2.0
        if args.balanced:
            total += args.balanced * _balance(state, cpu, memory, asked.get(_GPU, 0))
        return total

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
            parts.append(args.spread * _evenness(soft, neighbours, feasible))
        return sum(parts[1:], start=parts[0]) if parts else None


def _fraction(state: NodeState, resource: str, asked: int) -> FloatPerNode:
    """How full the node would be of it, 0 to 1; a node that has none is full."""
    offered = state.allocatable(resource)
    used = state.used(resource) + asked
    share = np.divide(used, offered, out=np.ones(len(offered)), where=offered > 0)
    return np.clip(share, 0.0, 1.0)


def _balance(state: NodeState, cpu: FloatPerNode, memory: FloatPerNode, gpus: int) -> FloatPerNode:
    """Highest where cpu, memory and gpu would be used alike."""
    if not gpus:
        return (1.0 - np.abs(cpu - memory) / 2.0) * _FULL
    fractions = np.stack([cpu, memory, _fraction(state, _GPU, gpus)])
    return (1.0 - fractions.std(axis=0)) * _FULL


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


def _evenness(spreads: list[Spread], neighbours: Neighbours, feasible: BoolPerNode) -> FloatPerNode:
    """Higher where fewer pods of each constraint stand; coarse domains weigh less."""
    raw = np.zeros(len(feasible))
    ignored = ~feasible
    for spread in spreads:
        codes, _ = neighbours.codes(spread.term.topology)
        ignored = ignored | (codes < 0)
        if spread.term.topology == _HOSTNAME:
            counts = neighbours.picked(spread.term, skip_ending=True)
            size = int(feasible.sum())
        else:
            per_domain, exists = domain_counts(spread, neighbours, feasible & (codes >= 0))
            counts = per_domain[np.maximum(codes, 0)]
            size = int(exists.sum())
        raw += counts * math.log(size + 2) + (spread.max_skew - 1)
    considered = ~ignored
    if not considered.any():
        return np.zeros(len(feasible))
    most, least = float(raw[considered].max()), float(raw[considered].min())
    if most == 0:
        return np.where(considered, _FULL, 0.0)
    return np.where(considered, _FULL * (most + least - raw) / most, 0.0)


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
