"""Queues in an order in which parents come first; those that go round in circles are told.

Admission asks for a queue's parent, so it has to be there before. In a circle nobody can be
first: what admission says of one ("not found") would be true and no help.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from stromboli.api.scheduling import Queue

__all__ = ["Order", "parents_first"]

_ROOT: Final = "root"


class Order(NamedTuple):
    """Names, parents first; each circle by itself, in its own order."""

    names: list[str]
    circles: list[list[str]]


def parents_first(queues: Iterable[Queue]) -> Order:
    waiting = {queue.metadata.name: _parent(queue) for queue in queues}
    order = Order([], [])
    while waiting:
        free = [name for name, parent in waiting.items() if parent not in waiting]
        if not free:
            free = _circle(waiting)
            order.circles.append(free)
        for name in free:
            del waiting[name]
        order.names.extend(free)
    return order


def _circle(parents: Mapping[str, str]) -> list[str]:
    """One that is surely there, since everybody has a parent among them."""
    here, way = next(iter(parents)), list[str]()
    while here not in way:
        way.append(here)
        here = parents[here]
    return way[way.index(here) :]


def _parent(queue: Queue) -> str:
    return "" if queue.metadata.name == _ROOT else queue.spec.parent or _ROOT
