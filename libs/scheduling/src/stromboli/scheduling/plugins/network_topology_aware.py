"""Place jobs close together in the network, and keep whole parts of it free for others.

A job that limits how far it may be spread is tried in the lowest parts of the network first, the
fullest of them first. A pod whose job stands somewhere likes nodes near it. Pods that ask for
nothing fill up parts of the network that are in use, the lower the part the more it counts.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.network import DomainSums, Network
from stromboli.scheduling.plugins.api import Gathering
from stromboli.scheduling.plugins.arguments import WeightedResources, read_arguments, weight_of
from stromboli.scheduling.pods import Task
from stromboli.scheduling.resources import (
    CPU,
    MEMORY,
    Amounts,
    FloatPerNode,
    IntMatrix,
    IntVector,
    tallied,
)
from stromboli.scheduling.session import Session

NAME: Final = "network-topology-aware"

_FULL: Final = 100.0
_MOST_DOMAINS: Final = 8
_FADING: Final = 0.8
_RESOURCES: Final = WeightedResources(NAME, "hypernode.binpack.resources")


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names; a weight below 0 counts as 1."""

    weight: int = 1
    cpu: int = msgspec.field(default=1, name="hypernode.binpack.cpu")
    memory: int = msgspec.field(default=1, name="hypernode.binpack.memory")
    resources: str = msgspec.field(default="", name="hypernode.binpack.resources")
    """More resources, separated by commas; each may have a weight of its own."""
    normal_pods: bool = msgspec.field(default=True, name="hypernode.binpack.normal-pod.enable")
    fading: float = msgspec.field(default=_FADING, name="hypernode.binpack.normal-pod.fading")
    most_domains: int = msgspec.field(
        default=_MOST_DOMAINS, name="hypernode.gradient.evict.max-hypernodes"
    )


class NetworkTopologyAware:
    """Knows what a place in the network is worth."""

    name = NAME

    def __init__(self, args: Args, weights: Mapping[str, int]) -> None:
        self._weight = weight_of(NAME, args.weight)
        self._weights = weights
        self._normal_pods = args.normal_pods
        self._fading = args.fading if args.fading >= 0 else _FADING
        self.most_domains = args.most_domains if args.most_domains > 0 else _MOST_DOMAINS
        self._session: Session | None = None
        self._offered: IntMatrix | None = None
        self._free: DomainSums | None = None
        self._seen = 0

    def opened(self, session: Session) -> None:
        self._session = session
        self._offered, self._free = None, None

    # Domains.

    def gradients(
        self, network: Network, root: int, tier: int, *, evicting: bool
    ) -> list[IntVector]:
        """Lowest tier first; where others must make room, widest first."""
        below = network.below(root)
        below = below[network.tiers[below] <= tier]
        tiers = np.unique(network.tiers[below])
        groups = [below[network.tiers[below] == each] for each in tiers]
        return groups[::-1] if evicting else groups

    def domain_scores(self, gathering: Gathering, domains: IntVector) -> FloatPerNode:
        """How full each would be; of the fullest, where most of the pods stand already."""
        if self._session is None:
            return np.zeros(len(domains))
        network = self._session.network
        fullness = self._fullness(self._session, gathering.request)[domains]
        if len(gathering.standing) and len(domains) and gathering.pods:
            fullest = fullness == fullness.max()
            counts = np.bincount(gathering.standing, minlength=network.nodes)
            fullness = fullness + fullest * (network.sums(counts)[domains] / gathering.pods)
        return _FULL * self._weight * fullness

    # Nodes.

    def closeness(self, contender: Contender, task: Task) -> FloatPerNode | None:
        session = self._session
        if session is None or not len(session.hyper_nodes) or not self._weight:
            return None
        if contender.job.is_tied_to_network:
            score = self._nearness(session, contender)
        else:
            score = self._filling_up(session, task.kind.request)
        return None if score is None else _FULL * self._weight * score

    def _nearness(self, session: Session, contender: Contender) -> FloatPerNode | None:
        """1 beside the job's pods, less the higher one must go to get there."""
        standing = session.whereabouts.standing(contender)
        if not len(standing):
            return None
        network = session.network
        at = network.smallest(standing)
        lowest, highest = network.lowest_tier, network.top_tier
        if lowest == highest:
            return None
        tiers = network.tiers[network.meeting(at)]
        of_domains = (highest - tiers) / (highest - lowest)
        of_domains[at] = 1.0
        score = of_domains[network.leaf]
        counts = np.bincount(network.leaf[standing], minlength=len(network))
        share = counts / max(1, len(contender.job.tasks))
        return score + (score == score.max()) * share[network.leaf]

    def _filling_up(self, session: Session, request: Amounts) -> FloatPerNode | None:
        if not self._normal_pods:
            return None
        network = session.network
        fullness = np.append(self._fullness(session, request), 1.0)  # the last for "none"
        total = np.zeros(network.nodes)
        weights = 0.0
        for tier in range(network.lowest_tier, network.top_tier + 1):
            weight = self._fading ** (tier - 1)
            weights += weight
            total += weight * fullness[network.at_tier(tier)]
        return total / weights if weights else None

    def _fullness(self, session: Session, request: Amounts) -> FloatPerNode:
        """Of every domain with that much more in it: 1 is full; 0 where it does not fit."""
        offered, free = self._sums(session)
        total = np.zeros(offered.shape[1])
        fits = np.ones(offered.shape[1], dtype=np.bool_)
        weights = 0
        for name, units in request:
            weight = self._weights.get(name, 0)
            row = session.nodes.resources.row(name)
            if not weight or row >= len(offered):
                continue
            taken = offered[row] - free[row] + units
            there = offered[row] > 0
            fits &= there & (taken <= offered[row])
            total += weight * np.divide(taken, offered[row], out=np.zeros(len(taken)), where=there)
            weights += weight
        return np.where(fits, total / weights, 0.0) if weights else total

    def _sums(self, session: Session) -> tuple[IntMatrix, IntMatrix]:
        """What each domain offers and has free, as the trial stands."""
        trial = session.trial
        if self._offered is None or self._free is None:
            self._offered = session.network.sums(session.allocatable)
            self._free = DomainSums(session.network, trial.idle)
        elif self._seen < len(trial.touched):
            self._free.follow(trial.idle, tallied(np.concatenate(trial.touched[self._seen :]))[0])
        self._seen = len(trial.touched)
        return self._offered, self._free.sums


def build(arguments: Mapping[str, Any]) -> NetworkTopologyAware:
    own, extra = _RESOURCES.apart(arguments)
    args = read_arguments(NAME, Args, own)
    weights = {CPU: weight_of(NAME, args.cpu), MEMORY: weight_of(NAME, args.memory)}
    return NetworkTopologyAware(args, weights | _RESOURCES.read(args.resources, extra))
