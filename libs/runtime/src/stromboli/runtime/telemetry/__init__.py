"""Traces and metrics by OpenTelemetry, so that nobody else needs to import it.

Shells use it; a core never does. `Telemetry.start` reads the standard OTEL_* variables:
without an exporter there is no cost and no complaint, and /metrics is there in any case.
"""

from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from stromboli.runtime.telemetry.identity import (
    in_job_context,
    job_context,
    root_span_id,
    start_job_root,
    trace_id_of,
)
from stromboli.runtime.telemetry.instruments import (
    LATENCY_BUCKETS_S,
    Counter,
    Gauge,
    Histogram,
    counter,
    gauge,
    histogram,
)
from stromboli.runtime.telemetry.propagation import extract, inject
from stromboli.runtime.telemetry.providers import Rendered, Telemetry
from stromboli.runtime.telemetry.sampling import HashSampler

__all__ = [
    "LATENCY_BUCKETS_S",
    "Counter",
    "Gauge",
    "HashSampler",
    "Histogram",
    "Link",
    "Rendered",
    "Span",
    "SpanKind",
    "Status",
    "StatusCode",
    "Telemetry",
    "Tracer",
    "counter",
    "extract",
    "gauge",
    "histogram",
    "in_job_context",
    "inject",
    "job_context",
    "root_span_id",
    "start_job_root",
    "trace_id_of",
]
