"""A process's telemetry: its tracers, its metrics, and how they end.

Nothing is global: a process starts one `Telemetry` and passes it to where spans are made,
so tests start as many as they like. Without an exporter, tracers are the API's no-ops:
they cost nothing, and still pass contexts on, so that logs tell the right trace. Ending
has a deadline that holds even against a collector that swallows connections.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Final, Self

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import NoOpTracerProvider, Tracer
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry.exporting import metric_exporters, span_exporters
from stromboli.runtime.telemetry.identity import JobIdGenerator
from stromboli.runtime.telemetry.instruments import bind_all, unbind_all
from stromboli.runtime.telemetry.sampling import sampler_from

__all__ = ["Rendered", "Telemetry"]

log = get_logger(__name__)

_SCOPE: Final = "stromboli"


@dataclass(frozen=True, slots=True)
class Rendered:
    """The metrics as a scraper wants them."""

    body: bytes
    content_type: str


class Telemetry:
    """What one process measures and traces."""

    def __init__(
        self,
        *,
        tracers: TracerProvider | NoOpTracerProvider,
        meters: MeterProvider,
        registry: CollectorRegistry,
        exporters: list[SpanExporter],
    ) -> None:
        self._tracers = tracers
        self._meters = meters
        self._registry = registry
        self._exporters = exporters
        self._ended = False

    @classmethod
    def start(
        cls,
        service: str,
        *,
        environ: Mapping[str, str] | None = None,
        exporters: list[SpanExporter] | None = None,
    ) -> Self:
        """By the OTEL_* variables; `exporters` given here replace those they would choose."""
        environ = os.environ if environ is None else environ
        resource = _resource(service)
        if exporters is None:
            exporters = span_exporters(environ)
        registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        readers: list[MetricReader] = [
            PrometheusMetricReader(registry=registry, scope_info_enabled=False)
        ]
        readers += [PeriodicExportingMetricReader(one) for one in metric_exporters(environ)]
        meters = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
        bind_all(meters.get_meter(_SCOPE))
        return cls(
            tracers=_tracers(exporters, resource, environ),
            meters=meters,
            registry=registry,
            exporters=exporters,
        )

    @property
    def is_tracing(self) -> bool:
        return bool(self._exporters)

    def tracer(self, name: str = _SCOPE) -> Tracer:
        """For spans; cheap to call, cheap to keep."""
        return self._tracers.get_tracer(name)

    def meter(self, name: str = _SCOPE) -> Meter:
        """For instruments that can't be declared at import; see `instruments` for the rest."""
        return self._meters.get_meter(name)

    def render(self, accept: str = "") -> Rendered:
        """All metrics, as text for Prometheus or OpenMetrics, whichever is asked for."""
        encode, content_type = choose_encoder(accept)
        return Rendered(encode(self._registry), content_type)

    async def shutdown(self, deadline_s: float = 3.0) -> bool:
        """Send what is left; False if the deadline came first and the rest is lost."""
        if self._ended:
            return True
        self._ended = True
        unbind_all()
        finished = await _in_daemon_thread(self._shutdown, deadline_s)
        if not finished:
            log.warning("telemetry.abandoned", deadline_s=deadline_s)
            # Wakes an exporter that is waiting between two tries.
            await _in_daemon_thread(self._close_exporters, 0.1)
        return finished

    def _shutdown(self) -> None:
        if isinstance(self._tracers, TracerProvider):
            self._tracers.shutdown()
        self._meters.shutdown()

    def _close_exporters(self) -> None:
        for exporter in self._exporters:
            exporter.shutdown()


def _tracers(
    exporters: list[SpanExporter], resource: Resource, environ: Mapping[str, str]
) -> TracerProvider | NoOpTracerProvider:
    if not exporters:
        return NoOpTracerProvider()
    provider = TracerProvider(
        sampler=sampler_from(environ),
        resource=resource,
        id_generator=JobIdGenerator(),
        # An exit handler of the SDK would wait for the collector without a deadline.
        shutdown_on_exit=False,
    )
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _resource(service: str) -> Resource:
    """Who we are; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before."""
    ours = Resource.create(
        {
            "service.name": f"stromboli-{service}",
            "service.namespace": "stromboli",
            "service.version": metadata.version("stromboli-runtime"),
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }
    )
    return ours.merge(OTELResourceDetector().detect())


async def _in_daemon_thread(work: Callable[[], None], deadline_s: float) -> bool:
    """Whether the work ended in time. `asyncio.to_thread` would be waited for at exit."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def run() -> None:
        try:
            work()
        finally:
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="telemetry-shutdown", daemon=True).start()
    try:
        async with asyncio.timeout(deadline_s):
            await done.wait()
    except TimeoutError:
        return False
    return True
