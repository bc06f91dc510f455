"""Show what the scheduler knows about queues and namespaces, by Volcano's metric names.

The figures are taken from the core between its decisions, and not more often than every few
seconds: they are for dashboards. A queue that is gone has no figures any more.
"""

from collections.abc import Mapping
from typing import Final

from stromboli.runtime.telemetry import gauge
from stromboli.scheduling.queue_gauges import Gauges

__all__ = ["Figures"]

_EVERY_S: Final = 5.0
_PREFIX: Final = "volcano_"
_QUEUE: Final = ("queue_name",)
_RESOURCE: Final = ("queue_name", "resource")
_NAMESPACE: Final = ("namespace_name",)
_AMOUNTS: Final = {
    "allocated": "what pods of the queue hold",
    "request": "what pods of the queue hold and wait for",
    "deserved": "what the queue is entitled to",
    "capacity": "what the queue may use at most, as its object says",
    "real_capacity": "what the queue may use at most, given all others",
    "inqueue": "what was promised to jobs of the queue that do not have it yet",
}


def _declared() -> Mapping[str, tuple[tuple[str, ...], str, str]]:
    """Labels, unit and sentence, by name."""
    found: dict[str, tuple[tuple[str, ...], str, str]] = {
        "queue_share": (_QUEUE, "", "The largest part of what it deserves that the queue has."),
        "queue_weight": (_QUEUE, "", "The weight of the queue."),
        "queue_overused": (_QUEUE, "", "1 if the queue has more than it deserves."),
        "namespace_share": (_NAMESPACE, "", "The largest part of the cluster it has."),
        "namespace_weight": (_NAMESPACE, "", "The weight of the namespace."),
        "namespace_weighted_share": (_NAMESPACE, "", "Its share, by its weight."),
    }
    for name, sentence in _AMOUNTS.items():
        said = f"{sentence[0].upper()}{sentence[1:]}."
        found[f"queue_{name}_milli_cpu"] = (_QUEUE, "", said)
        found[f"queue_{name}_memory_bytes"] = (_QUEUE, "", said)
        found[f"queue_{name}_scalar_resources"] = (_RESOURCE, "", said)
    return found


_GAUGES: Final = {
    name: gauge(f"{_PREFIX}{name}", sentence, unit=unit, labels=labels)
    for name, (labels, unit, sentence) in _declared().items()
}


class Figures:
    """Remembers when they were shown last."""

    def __init__(self) -> None:
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        if now < self._due:
            return False
        self._due = now + _EVERY_S
        return True

    def show(self, gauges: Gauges) -> None:
        by_name: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _GAUGES}
        for (name, labels), value in gauges.items():
            by_name[name][tuple(text for _, text in labels)] = value
        for name, values in by_name.items():
            _GAUGES[name].set_all(values)
