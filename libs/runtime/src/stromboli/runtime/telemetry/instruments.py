"""Counters, gauges and histograms, declared once beside the code that uses them.

    APPLIED = counter("stromboli.intents.applied", "Intents applied.", labels=("verb", "kind"))
    …
    APPLIED.add(1, verb="bind", kind="pod")

A declaration is made at import and does nothing until the process starts its telemetry,
which binds it to a meter; a library or a test that never does pays a method call. The
labels are part of the declaration, so that no job id slips in as one: each distinct label
is a time series for ever.
"""

import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from opentelemetry.metrics import CallbackOptions, CallbackT, Meter, Observation
from opentelemetry.metrics import Histogram as OtelHistogram

__all__ = [
    "LATENCY_BUCKETS_S",
    "Counter",
    "Gauge",
    "Histogram",
    "bind_all",
    "counter",
    "gauge",
    "histogram",
    "unbind_all",
]

LATENCY_BUCKETS_S: Final = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Half a millisecond (one hop on the bus) to half a minute (something is stuck)."""


class _Instrument:
    """What all kinds share: a name, its sentence, and its labels."""

    def __init__(self, name: str, doc: str, *, unit: str, labels: Sequence[str]) -> None:
        self.name = name
        self.doc = doc
        self.unit = unit
        self.labels = tuple(labels)
        self._label_set = frozenset(labels)

    def bind(self, meter: Meter) -> None:
        raise NotImplementedError

    def unbind(self) -> None:
        raise NotImplementedError

    def _check(self, given: Mapping[str, str]) -> None:
        if frozenset(given) != self._label_set:
            raise TypeError(
                f"{self.name} has the labels {sorted(self.labels)}, got {sorted(given)}"
            )


class _Series(_Instrument):
    """A number per set of labels, kept here and read by the SDK when it is scraped.

    The SDK's own counter takes 7 µs for each addition, which is too much for something
    that happens for every message; a dictionary takes a twentieth of that.
    """

    def __init__(self, name: str, doc: str, *, unit: str, labels: Sequence[str]) -> None:
        super().__init__(name, doc, unit=unit, labels=labels)
        self._values: dict[tuple[str, ...], float] | None = None
        self._lock = threading.Lock()

    def unbind(self) -> None:
        self._values = None

    def _begin(self) -> list[CallbackT]:
        """Start from nothing; an earlier meter keeps the numbers it had."""
        values: dict[tuple[str, ...], float] = {}
        self._values = values

        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            for key, value in list(values.items()):
                yield Observation(value, dict(zip(self.labels, key, strict=True)))

        return [observe]

    def _key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        self._check(labels)
        return tuple([labels[name] for name in self.labels])


class Counter(_Series):
    """Only ever grows; Prometheus shows it as `…_total`."""

    def bind(self, meter: Meter) -> None:
        meter.create_observable_counter(
            self.name, callbacks=self._begin(), unit=self.unit, description=self.doc
        )

    def add(self, amount: float = 1, **labels: str) -> None:
        key = self._key(labels)
        with self._lock:
            if self._values is not None:
                self._values[key] = self._values.get(key, 0) + amount


class Gauge(_Series):
    """The latest value of something that goes up and down."""

    def bind(self, meter: Meter) -> None:
        meter.create_observable_gauge(
            self.name, callbacks=self._begin(), unit=self.unit, description=self.doc
        )

    def set(self, value: float, **labels: str) -> None:
        key = self._key(labels)
        with self._lock:
            if self._values is not None:
                self._values[key] = value

    def set_all(self, values: Mapping[tuple[str, ...], float]) -> None:
        """The values of all sets of labels there are now; those of others are forgotten.

        A key has the labels' values, in the order in which the labels were declared.
        """
        with self._lock:
            if self._values is not None:
                self._values.clear()
                self._values.update(values)


class Histogram(_Instrument):
    """How a quantity, usually a time in seconds, is distributed."""

    _bound: OtelHistogram | None = None

    def __init__(
        self, name: str, doc: str, *, unit: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> None:
        super().__init__(name, doc, unit=unit, labels=labels)
        self.buckets = tuple(buckets)

    def bind(self, meter: Meter) -> None:
        self._bound = meter.create_histogram(
            self.name,
            unit=self.unit,
            description=self.doc,
            explicit_bucket_boundaries_advisory=self.buckets,
        )

    def unbind(self) -> None:
        self._bound = None

    def record(self, value: float, **labels: str) -> None:
        self._check(labels)
        if self._bound is not None:
            self._bound.record(value, labels)

    @contextmanager
    def timed(self, **labels: str) -> Generator[None]:
        """Record how many seconds the block took, also when it raised."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.record(time.perf_counter() - start, **labels)


I = TypeVar("I", bound=_Instrument)  # noqa: E741 - an instrument


class _Declared:
    """Every instrument of this process, and the meter they are bound to, if any."""

    def __init__(self) -> None:
        self._by_name: dict[str, _Instrument] = {}
        self._meter: Meter | None = None

    def add(self, instrument: I) -> I:
        if not instrument.doc:
            raise TypeError(f"the metric {instrument.name!r} needs a sentence that explains it")
        if instrument.name in self._by_name:
            raise TypeError(f"the metric {instrument.name!r} is declared already; import that one")
        self._by_name[instrument.name] = instrument
        # A module may be imported after the telemetry was started.
        if self._meter is not None:
            instrument.bind(self._meter)
        return instrument

    def bind(self, meter: Meter | None) -> None:
        self._meter = meter
        for instrument in self._by_name.values():
            if meter is None:
                instrument.unbind()
            else:
                instrument.bind(meter)


_declared: Final = _Declared()


def counter(name: str, doc: str, *, unit: str = "1", labels: Sequence[str] = ()) -> Counter:
    return _declared.add(Counter(name, doc, unit=unit, labels=labels))


def gauge(name: str, doc: str, *, unit: str = "1", labels: Sequence[str] = ()) -> Gauge:
    return _declared.add(Gauge(name, doc, unit=unit, labels=labels))


def histogram(
    name: str,
    doc: str,
    *,
    unit: str = "s",
    labels: Sequence[str] = (),
    buckets: Sequence[float] = LATENCY_BUCKETS_S,
) -> Histogram:
    return _declared.add(Histogram(name, doc, unit=unit, labels=labels, buckets=buckets))


def bind_all(meter: Meter) -> None:
    """Connect every instrument, declared or to be declared, to this process's meter."""
    _declared.bind(meter)


def unbind_all() -> None:
    _declared.bind(None)
