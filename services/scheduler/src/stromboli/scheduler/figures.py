"""Show what the scheduler knows about queues and namespaces, by Volcano's metric names.

The figures of queues are taken from the core between its decisions, and not more often than
every few seconds: they are for dashboards. A queue that is gone has no figures any more. There are
none by job: each job would be a time series for ever.
"""

from collections.abc import Mapping
from typing import Final

from stromboli.runtime.telemetry import counter, gauge, histogram
from stromboli.scheduling.queue_gauges import Gauges
from stromboli.scheduling.tally import ACTION, CYCLE, OPENING, Notes

__all__ = ["Figures", "buckets"]

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


def buckets(first: float, last: float, number: int) -> tuple[float, ...]:
    """Each a fixed factor above the one before it, as Volcano's are."""
    factor = (last / first) ** (1 / (number - 1))
    return tuple(first * factor**place for place in range(number))


_CYCLE_BUCKETS: Final = buckets(1, 5000, 20)
_SPANS: Final = {
    CYCLE: histogram(
        f"{_PREFIX}e2e_scheduling_latency_milliseconds",
        "How long a cycle took.",
        unit="",
        buckets=_CYCLE_BUCKETS,
    ),
    OPENING: histogram(
        f"{_PREFIX}open_session_duration_milliseconds",
        "How long it took to open a cycle.",
        unit="",
        buckets=_CYCLE_BUCKETS,
    ),
}
_ACTIONS: Final = histogram(
    f"{_PREFIX}action_scheduling_latency_milliseconds",
    "How long an action took in a cycle.",
    unit="",
    labels=("action",),
    buckets=buckets(1, 2000, 20),
)
_PLUGINS: Final = histogram(
    f"{_PREFIX}plugin_scheduling_latency_milliseconds",
    "How long a plugin took when a cycle opened or closed.",
    unit="",
    labels=("plugin", "OnSession"),
    buckets=buckets(0.1, 100, 15),
)
_JOBS: Final = histogram(
    f"{_PREFIX}e2e_job_scheduling_latency_milliseconds",
    "How old a job was when pods of it were bound.",
    unit="",
    buckets=buckets(100, 120_000, 30),
)
_ATTEMPTS: Final = counter(
    f"{_PREFIX}schedule_attempts",
    "Jobs that were looked at, by how it ended.",
    unit="",
    labels=("result",),
)
_EVICTIONS: Final = counter(
    f"{_PREFIX}eviction_transactions",
    "Rounds of evictions that were decided together.",
    unit="",
    labels=("action",),
)
# A counter's name would get the ending that Volcano's has not.
_PREEMPTIONS: Final = gauge(
    f"{_PREFIX}total_preemption_attempts",
    "How often pods were told to make room; it only grows.",
    unit="",
)
_VICTIMS: Final = gauge(
    f"{_PREFIX}pod_preemption_victims", "How many pods were told to go the last time.", unit=""
)
_WAITING: Final = gauge(f"{_PREFIX}unschedule_job_count", "Jobs that wait with a reason.", unit="")
_MS: Final = 1000.0


class Figures:
    """Remembers when they were shown last."""

    def __init__(self) -> None:
        self._due = 0.0
        self._preemptions = 0

    def is_due(self, now: float) -> bool:
        if now < self._due:
            return False
        self._due = now + _EVERY_S
        return True

    def count(self, notes: Notes) -> None:
        """What happened since the last time."""
        for what, label, seconds in notes.spans_s:
            if what == ACTION:
                _ACTIONS.record(seconds * _MS, action=label)
            else:
                _SPANS[what].record(seconds * _MS)
        for plugin, moment, seconds in notes.plugins_s:
            _PLUGINS.record(seconds * _MS, plugin=plugin, OnSession=moment)
        for seconds in notes.waits_s:
            _JOBS.record(seconds * _MS)
        for result, number in notes.attempts.items():
            _ATTEMPTS.add(number, result=result)
        for action, number in notes.evictions.items():
            _EVICTIONS.add(number, action=action)
            self._preemptions += number
            _PREEMPTIONS.set(self._preemptions)
            _VICTIMS.set(notes.victims)

    def show(self, gauges: Gauges, *, waiting: int = 0) -> None:
        _WAITING.set(waiting)
        by_name: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _GAUGES}
        for (name, labels), value in gauges.items():
            by_name[name][tuple(text for _, text in labels)] = value
        for name, values in by_name.items():
            _GAUGES[name].set_all(values)
