"""What a queue is sure of, is entitled to, and may have at most, given all the others.

Flat, the limit is what guarantees of others leave of the cluster, and never more than the
queue's own capability. In a tree the limit comes from the parent instead of from the cluster: a
root without capability has no limit, whatever the nodes offer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stromboli.scheduling.hierarchy import QueueTree
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.shares import PLENTY

__all__ = ["Entitlement", "flat", "in_tree"]


@dataclass(frozen=True, slots=True)
class Entitlement:
    """Of one queue; amounts of a resource that is not named are zero, but see `otherwise`."""

    guarantee: Mapping[str, int] = field(default_factory=dict[str, int])
    deserved: Mapping[str, int] = field(default_factory=dict[str, int])
    limit: Mapping[str, int] = field(default_factory=dict[str, int])
    otherwise: int = 0
    """The limit of a resource that `limit` does not name."""

    def at_most(self, resource: str) -> int:
        return self.limit.get(resource, self.otherwise)


def flat(queues: Mapping[str, QueueInfo], total: Mapping[str, int]) -> dict[str, Entitlement]:
    """Of every queue, side by side. What no node has, nobody may have."""
    kept = _summed(dict(queue.guarantee) for queue in queues.values())
    free = {name: max(0, units - kept.get(name, 0)) for name, units in total.items()}
    found: dict[str, Entitlement] = {}
    for name, queue in queues.items():
        guarantee = dict(queue.guarantee)
        limit = _summed((free, guarantee))
        for resource, most in queue.capability:
            limit[resource] = min(limit.get(resource, 0), most)
        deserved = {
            resource: min(units, limit.get(resource, 0)) for resource, units in queue.deserved
        }
        found[name] = Entitlement(guarantee, _larger(deserved, guarantee), limit)
    return found


def in_tree(tree: QueueTree, queues: Mapping[str, QueueInfo]) -> dict[str, Entitlement]:
    """Of every queue that has a place in the tree, parents first."""
    capabilities: dict[str, dict[str, int]] = {}
    kept_below: dict[str, dict[str, int]] = {}
    found: dict[str, Entitlement] = {}
    for position in tree.positions:
        queue = queues.get(position.name, tree.root)
        below = [queues[child] for child in position.children]
        kept_below[position.name] = _summed(dict(child.guarantee) for child in below)
        if not position.ancestors:
            capabilities[position.name] = dict(queue.capability)
            found[position.name] = Entitlement(
                guarantee=kept_below[position.name],
                deserved=_summed(_larger(dict(c.deserved), dict(c.guarantee)) for c in below),
                limit=dict(queue.capability),
                otherwise=PLENTY,
            )
            continue
        # What the queue itself does not limit, its parent's capability does.
        capability = capabilities[position.parent] | dict(queue.capability)
        capabilities[position.name] = capability
        kept = kept_below[position.parent]
        guarantee = dict(queue.guarantee)
        limit = dict(capability)
        for resource, most in found[position.parent].limit.items():
            left = max(0, most - kept.get(resource, 0)) + guarantee.get(resource, 0)
            limit[resource] = min(left, capability.get(resource, PLENTY))
        deserved = _larger(dict(queue.deserved), guarantee)
        found[position.name] = Entitlement(guarantee, deserved, limit, PLENTY)
    return found


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, units in part.items():
            total[name] = total.get(name, 0) + units
    return total


def _larger(one: dict[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return one | {name: max(units, one.get(name, 0)) for name, units in other.items()}
