"""How evenly the pods of a topology spread constraint stand over its domains."""

import numpy as np

from stromboli.scheduling.neighbours import Neighbours
from stromboli.scheduling.resources import BoolPerNode, IntVector
from stromboli.scheduling.social import Spread

__all__ = ["domain_counts", "eligible"]


def eligible(
    spread: Spread, labelled: BoolPerNode, chosen: BoolPerNode, bearable: BoolPerNode
) -> BoolPerNode:
    """The nodes whose domains count: those that the pod could go to, by the constraint's policy."""
    counted = labelled
    if spread.honors_affinity:
        counted = counted & chosen
    if spread.honors_taints:
        counted = counted & bearable
    return counted


def domain_counts(
    spread: Spread, neighbours: Neighbours, counted: BoolPerNode
) -> tuple[IntVector, BoolPerNode]:
    """Per domain: how many pods the constraint picks there, and whether the domain counts."""
    codes, number = neighbours.codes(spread.term.topology)
    size = max(number, 1)
    pods = neighbours.picked(spread.term, skip_ending=True)
    inside = codes[counted]
    sums = np.bincount(inside, weights=pods[counted], minlength=size).astype(np.int64)
    return sums, np.bincount(inside, minlength=size) > 0
