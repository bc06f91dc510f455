"""A queue's place among the others: its parent, the depth, and sums that must add up.

The first fault is the only one told, as in Volcano. Queues right below the root are limited by
nothing; a parent that says nothing of guarantee or deserved leaves its children nothing of it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from stromboli.admitting.jobs.queueing import not_found
from stromboli.admitting.queues.cases import QueueCase
from stromboli.admitting.resources import amounts_of, printed, shown, total_of
from stromboli.admitting.rules import OURS, Cel, Faults, Rule, rule
from stromboli.api.quantity import ZERO, Quantity
from stromboli.api.scheduling import Queue
from stromboli.api.wellknown import ROOT_QUEUE

__all__ = ["TREE_RULES"]

Share = Callable[[Queue], dict[str, Quantity]]


def _guarantee(queue: Queue) -> dict[str, Quantity]:
    return amounts_of(queue.spec.guarantee.resource)


def _deserved(queue: Queue) -> dict[str, Quantity]:
    return amounts_of(queue.spec.deserved)


def _capability(queue: Queue) -> dict[str, Quantity]:
    return amounts_of(queue.spec.capability)


@rule(
    "queue-own-parent",
    says="queue %s cannot use itself as parent",
    about="a queue is not its own parent",
    is_final=True,
    cel=Cel(
        "!has(object.spec.parent) || object.spec.parent == 'root' || "
        "object.spec.parent != object.metadata.name",
        "a queue cannot use itself as parent",
    ),
)
def own_parent(case: QueueCase) -> Faults:
    if case.is_moved and case.parent and case.parent == case.name:
        yield (case.name,)


@rule(
    "queue-circle",
    says="queue %s cannot be moved below queue %s, which is below it",
    about="no queue is below itself, however far up (Volcano lets such a circle close)",
    origin=OURS,
    needs_cluster=True,
    is_final=True,
)
def circle(case: QueueCase) -> Faults:
    if case.old is not None and case.is_moved:
        above = (queue.metadata.name for queue in _ancestors(case, limit=_MAX_WALK))
        if case.parent != case.name and case.name in above:
            yield case.name, case.parent


@rule(
    "queue-depth",
    says="queue %s exceeds the maximum allowed depth of %d",
    about="below the root there are at most `--max-queue-depth` (5) levels",
    needs_cluster=True,
    is_final=True,
)
def depth(case: QueueCase) -> Faults:
    if case.is_moved and case.parent:
        levels = 1 + sum(1 for _ in _ancestors(case, limit=case.conf.max_queue_depth))
        if levels > case.conf.max_queue_depth:
            yield case.name, case.conf.max_queue_depth


@rule(
    "queue-depth-below",
    says="queue %s exceeds the maximum allowed depth of %d with the queues below it",
    about="the queues below one that is moved stay within `--max-queue-depth`, too",
    origin=OURS,
    needs_cluster=True,
    is_final=True,
)
def depth_below(case: QueueCase) -> Faults:
    if case.old is None or not case.is_moved:
        return
    limit = case.conf.max_queue_depth
    levels = 1 + sum(1 for _ in _ancestors(case, limit=limit))
    if levels + _height(case) > limit:
        yield case.name, limit


@rule(
    "queue-parent-exists",
    says="failed to get parent queue %s of queue %s: %s",
    about="the parent of a queue exists, and so do those above it",
    needs_cluster=True,
    is_final=True,
)
def parent_exists(case: QueueCase) -> Faults:
    if not case.is_moved:
        return
    parent, seen = case.parent, {case.name}
    while parent and parent != ROOT_QUEUE and parent not in seen:
        seen.add(parent)
        queue = case.surroundings.queue(parent)
        if queue is None:
            yield parent, case.name, not_found(parent)
            return
        parent = queue.spec.parent


@rule(
    "queue-parent-has-pods",
    says="queue %s cannot be the parent queue of queue %s because it has allocated Pods: %d",
    about="a queue whose pods hold resources can't become a parent",
    needs_cluster=True,
    is_final=True,
)
def parent_has_pods(case: QueueCase) -> Faults:
    if not case.is_moved or not case.parent or case.surroundings.children_of(case.parent):
        return
    pods = case.surroundings.allocated_pods(case.parent)
    if pods:
        yield case.parent, case.name, pods


@rule(
    "queue-root-fixed",
    says="root queue's resource attributes (capability, deserved, guarantee) cannot be modified",
    about="the shares of the root are the cluster's (`--enable-root-queue-protection`)",
    is_final=True,
)
def root_fixed(case: QueueCase) -> Faults:
    if case.conf.root_queue_protection and case.old is not None and case.name == ROOT_QUEUE:
        shares: tuple[Share, ...] = (_guarantee, _deserved, _capability)
        if any(share(case.queue) != share(case.old) for share in shares):
            yield ()


@rule(
    "queue-capability-above-ancestor",
    says="queue %s capability[%s]=%s exceeds its ancestor's capability=%s",
    about="a queue can't use more than the nearest queue above it that has a limit",
    needs_cluster=True,
    is_final=True,
)
def capability_above_ancestor(case: QueueCase) -> Faults:
    if not _adds_up_anew(case):
        return
    above = [_capability(queue) for queue in _ancestors(case, limit=_MAX_WALK)]
    for resource, amount in _capability(case.queue).items():
        limit = next((one[resource] for one in above if one.get(resource, ZERO) > ZERO), None)
        if limit is not None and amount > limit:
            yield case.name, resource, shown(resource, amount), shown(resource, limit)


@rule(
    "queue-siblings-guarantee",
    says="parent queue %s validation failed: sum of children's guarantee (%s) exceeds parent's "
    "guarantee limit (%s)",
    about="what is guaranteed to the children of a queue is guaranteed to it",
    needs_cluster=True,
    is_final=True,
)
def siblings_guarantee(case: QueueCase) -> Faults:
    yield from _siblings_sum(case, _guarantee)


@rule(
    "queue-siblings-deserved",
    says="parent queue %s validation failed: sum of children's deserved (%s) exceeds parent's "
    "deserved limit (%s)",
    about="what the children of a queue deserve it deserves itself",
    needs_cluster=True,
    is_final=True,
)
def siblings_deserved(case: QueueCase) -> Faults:
    yield from _siblings_sum(case, _deserved)


@rule(
    "queue-capability-below-descendants",
    says="queue %s capability[%s]=%s is smaller than its descendants' max capability=%s",
    about="a queue can use as much as each of those below it",
    needs_cluster=True,
    is_final=True,
)
def capability_below_descendants(case: QueueCase) -> Faults:
    if not _adds_up_anew(case):
        return
    for resource, amount in _capability(case.queue).items():
        largest = _largest_below(case, resource)
        if amount < largest:
            yield case.name, resource, shown(resource, amount), shown(resource, largest)


@rule(
    "queue-children-guarantee",
    says="queue %s validation failed: sum of children's guarantee (%s) exceeds parent's guarantee "
    "limit (%s)",
    about="a queue is guaranteed what its children are",
    needs_cluster=True,
    is_final=True,
)
def children_guarantee(case: QueueCase) -> Faults:
    yield from _children_sum(case, _guarantee)


@rule(
    "queue-children-deserved",
    says="queue %s validation failed: sum of children's deserved (%s) exceeds parent's deserved "
    "limit (%s)",
    about="a queue deserves what its children do",
    needs_cluster=True,
    is_final=True,
)
def children_deserved(case: QueueCase) -> Faults:
    yield from _children_sum(case, _deserved)


TREE_RULES: Final[tuple[Rule[QueueCase], ...]] = (
    own_parent,
    circle,
    depth,
    depth_below,
    parent_exists,
    parent_has_pods,
    root_fixed,
    capability_above_ancestor,
    siblings_guarantee,
    siblings_deserved,
    capability_below_descendants,
    children_guarantee,
    children_deserved,
)

_MAX_WALK: Final = 64
"""No tree that these rules let grow is as deep; a circle in old data ends here."""


def _adds_up_anew(case: QueueCase) -> bool:
    return case.name != ROOT_QUEUE and (case.is_moved or case.shares_changed)


def _ancestors(case: QueueCase, *, limit: int) -> Iterable[Queue]:
    """The queues above, nearest first, without the root, and no more than can matter."""
    parent = case.parent
    for _ in range(limit + 1):
        queue = case.surroundings.queue(parent) if parent and parent != ROOT_QUEUE else None
        if queue is None:
            return
        yield queue
        parent = queue.spec.parent


def _height(case: QueueCase) -> int:
    """How many levels there are below the queue, counted no further than can matter."""
    level, levels, seen = [case.name], 0, {case.name}
    while level and levels <= case.conf.max_queue_depth:
        children = [one for name in level for one in case.surroundings.children_of(name)]
        level = [one.metadata.name for one in children if one.metadata.name not in seen]
        seen.update(level)
        levels += bool(level)
    return levels


def _largest_below(case: QueueCase, resource: str) -> Quantity:
    """The largest capability below; a queue that has one speaks for those below it."""
    largest, waiting, seen = ZERO, [case.name], {case.name}
    while waiting:
        for child in case.surroundings.children_of(waiting.pop()):
            own = _capability(child).get(resource, ZERO)
            largest = max(largest, own)
            if own <= ZERO and child.metadata.name not in seen:
                seen.add(child.metadata.name)
                waiting.append(child.metadata.name)
    return largest


def _siblings_sum(case: QueueCase, share: Share) -> Faults:
    parent = case.surroundings.queue(case.parent) if case.parent else None
    if parent is None or not _adds_up_anew(case):
        return
    others = [
        share(sibling)
        for sibling in case.surroundings.children_of(case.parent)
        if sibling.metadata.name != case.name
    ]
    total, limit = total_of([*others, share(case.queue)]), share(parent)
    if _exceeds(total, limit):
        yield case.parent, printed(total), printed(limit)


def _children_sum(case: QueueCase, share: Share) -> Faults:
    children = case.surroundings.children_of(case.name) if _adds_up_anew(case) else ()
    total, limit = total_of(map(share, children)), share(case.queue)
    if _exceeds(total, limit):
        yield case.name, printed(total), printed(limit)


def _exceeds(total: Mapping[str, Quantity], limit: Mapping[str, Quantity]) -> bool:
    return any(amount > limit.get(resource, ZERO) for resource, amount in total.items())
