"""The figures of queues, by Volcano's metric names, less the prefix.

Whoever runs the core shows them; figures of single jobs are not among them, since they would
be as many as there are jobs.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias, runtime_checkable

from stromboli.scheduling.accounts import Accounts
from stromboli.scheduling.entitlements import Entitlement
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import CPU, MEMORY
from stromboli.scheduling.shares import PLENTY

__all__ = ["Gauge", "Gauged", "Gauges", "gauges_of", "queue_gauges"]

Gauge: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""A metric's name, and its labels."""
Gauges: TypeAlias = dict[Gauge, float]


@runtime_checkable
class Gauged(Protocol):
    """A plugin that has figures to show."""

    def gauges(self) -> Gauges: ...


def gauges_of(plugins: Iterable[object]) -> Gauges:
    found: Gauges = {}
    for plugin in plugins:
        if isinstance(plugin, Gauged):
            found |= plugin.gauges()
    return found


_PLAIN: Final = {CPU: "milli_cpu", MEMORY: "memory_bytes"}


def queue_gauges(
    queues: Mapping[str, QueueInfo],
    accounts: Accounts,
    entitlements: Mapping[str, Entitlement],
    *,
    share: Callable[[str], float],
    overused: Callable[[str], bool],
) -> Gauges:
    """Of every queue, whether it has jobs or not."""
    found: Gauges = {}
    for name, queue in queues.items():
        account = accounts.of(name)
        entitlement = entitlements.get(name) or Entitlement()
        label = (("queue_name", name),)
        found["queue_share", label] = share(name)
        found["queue_weight", label] = queue.weight
        found["queue_overused", label] = float(overused(name))
        amounts: dict[str, Mapping[str, int]] = {
            "allocated": accounts.allocated(name),
            "request": account.requested,
            "deserved": entitlement.deserved,
            "capacity": dict(queue.capability),
            "real_capacity": entitlement.limit,
            "inqueue": account.promised,
        }
        for what, sums in amounts.items():
            found |= _amounts(f"queue_{what}", label, sums)
    return found


def _amounts(prefix: str, label: tuple[tuple[str, str], ...], sums: Mapping[str, int]) -> Gauges:
    """Cpu and memory have metrics of their own, everything else is a label."""
    found: Gauges = {
        (f"{prefix}_{suffix}", label): float(sums.get(name, 0)) for name, suffix in _PLAIN.items()
    }
    for name, units in sums.items():
        if name not in _PLAIN and units < PLENTY:
            found[f"{prefix}_scalar_resources", (*label, ("resource", name))] = float(units)
    return found
