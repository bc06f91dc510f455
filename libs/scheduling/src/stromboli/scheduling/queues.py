"""Queues as the scheduler sees them: a share of the cluster, its bounds, and its manners.

A queue whose amounts can't be read stays known, with its problem: then its jobs can be told what
is wrong, instead of that their queue does not exist. What a parent's bounds mean for a queue is
for the plugins that share out the cluster; here is only what the object itself says.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stromboli.api.scheduling import Affinity, DequeueStrategy, Queue, QueueState
from stromboli.api.wellknown import HIERARCHY, HIERARCHY_WEIGHTS
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.resources import CPU, MEMORY, NOTHING, Amounts, amounts_of, limits_of

__all__ = ["POLICY", "QueueInfo", "read_queue"]

POLICY: Final = "stromboli.sh/policy"
"""On a Queue: in which order its jobs have their turns (plugin `queuepolicy`)."""


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A share of the cluster that jobs draw from."""

    name: str
    uid: str = ""
    created: str = ""
    is_open: bool = True
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    """Whether other queues may take back what it has borrowed."""
    parent: str = ""
    capability: Amounts = NOTHING
    """What it may use at most; a resource that is not named has no limit, a zero is one."""
    deserved: Amounts = NOTHING
    """What it is entitled to, and what others take back first when it uses more."""
    guarantee: Amounts = NOTHING
    """What is kept for it, used or not."""
    hierarchy: tuple[str, ...] = ()
    """Its path from the root, for hierarchical fair sharing."""
    hierarchy_weights: tuple[float, ...] = ()
    """One per step of that path."""
    strict_order: bool = False
    """`dequeueStrategy: fifo`: a job that has to wait holds up those behind it."""
    policy: str = ""
    affinity: Affinity | None = None
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str = ""
    """Why the queue can't be reckoned with; empty when it can."""


def read_queue(queue: Queue) -> QueueInfo:
    """Never fails: what can't be read becomes the queue's problem."""
    spec, metadata = queue.spec, queue.metadata
    what = f"queue {metadata.name}"
    capability = deserved = guarantee = NOTHING
    path: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    problem = ""
    try:
        capability = _capability(limits_of(f"{what}: capability", spec.capability))
        deserved = amounts_of(f"{what}: deserved", spec.deserved)
        guarantee = amounts_of(f"{what}: guarantee", spec.guarantee.resource)
        path, weights = _hierarchy(what, metadata.annotations)
    except BadFact as bad:
        problem = str(bad)
    return QueueInfo(
        name=metadata.name,
        uid=metadata.uid,
        created=metadata.creation_timestamp or "",
        # Nobody has said anything about a fresh queue yet; that counts as open.
        is_open=queue.status.state in {"", QueueState.OPEN},
        weight=max(1, spec.weight),
        priority=spec.priority,
        reclaimable=spec.reclaimable is not False,
        parent=spec.parent,
        capability=capability,
        deserved=deserved,
        guarantee=guarantee,
        hierarchy=path,
        hierarchy_weights=weights,
        strict_order=spec.dequeue_strategy == DequeueStrategy.FIFO,
        policy=metadata.annotations.get(POLICY, ""),
        affinity=spec.affinity,
        annotations=metadata.annotations,
        problem=problem,
    )


def _capability(limits: Amounts) -> Amounts:
    """As in Volcano a zero of cpu or memory says nothing; of any other resource it forbids it."""
    return tuple((name, units) for name, units in limits if units or name not in {CPU, MEMORY})


def _hierarchy(
    what: str, annotations: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    path = annotations.get(HIERARCHY, "").strip("/")
    if not path:
        return (), ()
    steps = tuple(path.split("/"))
    if not all(steps):
        raise BadFact(what, f"{HIERARCHY} is {path!r}, expected names with single slashes between")
    given = annotations.get(HIERARCHY_WEIGHTS, "").strip("/")
    weights = [_weight(what, text) for text in given.split("/")] if given else []
    # A step without a weight has the least one.
    return steps, tuple([*weights, *([1.0] * len(steps))][: len(steps)])


def _weight(what: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise BadFact(what, f"{HIERARCHY_WEIGHTS} has {text!r}, expected a number such as 50")
    return max(1.0, weight)
