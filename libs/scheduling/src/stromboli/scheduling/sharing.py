"""What queues deserve, kept up to date queue by queue.

As long as there is enough of a resource for all, what a queue deserves of it depends on nobody
else, and a queue that changes costs only itself. Only a resource that is fought over is shared
out among all queues, and only when somebody asks.
"""

from collections.abc import Mapping

from stromboli.scheduling.shares import Demand, fill

__all__ = ["Sharing"]


class Sharing:
    """The demands of all queues that take part."""

    def __init__(self) -> None:
        self.total: Mapping[str, int] = {}
        self._demands: dict[str, Demand] = {}
        self._satisfied: dict[str, int] = {}
        """Per resource: the sum of what would satisfy everybody."""
        self._filled: dict[str, dict[str, int]] = {}
        self._deserved: dict[str, dict[str, int]] = {}

    def begin(self, total: Mapping[str, int]) -> None:
        """Nobody takes part yet, and this is what there is."""
        self.total = total
        self._demands.clear()
        self._satisfied.clear()
        self._forget()

    def put(self, queue: str, demand: Demand | None) -> None:
        """The queue takes part with this, or with None no more."""
        before = self._demands.get(queue)
        if before == demand:
            return
        if before is not None:
            del self._demands[queue]
            self._count(before, -1)
        if demand is not None:
            self._demands[queue] = demand
            self._count(demand, 1)
        self._forget()

    def deserved(self, queue: str) -> Mapping[str, int]:
        """Nothing, for a queue that does not take part."""
        known = self._deserved.get(queue)
        if known is None:
            known = self._deserved[queue] = self._work_out(queue)
        return known

    def _work_out(self, queue: str) -> dict[str, int]:
        demand = self._demands.get(queue)
        if demand is None:
            return {}
        found = {name: self._part(queue, demand, name) for name in _names(demand)}
        return {name: units for name, units in found.items() if units}

    def _part(self, queue: str, demand: Demand, resource: str) -> int:
        total = self.total.get(resource, 0)
        if self._satisfied.get(resource, 0) <= total:
            return demand.satisfied(resource)
        filled = self._filled.get(resource)
        if filled is None:
            queues = sorted(self._demands)
            parts = fill(resource, total, [self._demands[name] for name in queues])
            filled = self._filled[resource] = dict(zip(queues, parts, strict=True))
        return filled[queue]

    def _count(self, demand: Demand, sign: int) -> None:
        for name in _names(demand):
            self._satisfied[name] = self._satisfied.get(name, 0) + sign * demand.satisfied(name)

    def _forget(self) -> None:
        self._filled.clear()
        self._deserved.clear()


def _names(demand: Demand) -> list[str]:
    return list({**demand.request, **demand.guarantee})
