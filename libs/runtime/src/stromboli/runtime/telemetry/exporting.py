"""Where finished spans go: what the standard OTEL_* variables say, and nowhere otherwise.

A collector that is away must cost nothing but its spans: exports happen in a thread of
the SDK with a bounded queue, the exporter's own complaints are silenced, and ours is one
line when it goes away, one when it is back.
"""

import importlib
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Final, cast

from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult

from stromboli.runtime.logs import get_logger
from stromboli.runtime.quiet import once_per
from stromboli.runtime.telemetry.instruments import counter

__all__ = ["QuietSpanExporter", "metric_exporters", "span_exporters"]

log = get_logger(__name__)

LOST: Final = counter(
    "stromboli.telemetry.spans.lost", "Spans that no collector has taken.", unit="{span}"
)

_REMINDER_S: Final = 300.0
# They log every retry; what matters is said here.
_CHATTY: Final = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")
_PROTOCOLS: Final = {"http/protobuf": "http", "grpc": "grpc"}


class QuietSpanExporter(SpanExporter):
    """An exporter whose failures are counted and told once, not for each batch."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._quiet = once_per(_REMINDER_S, log)
        self._failing = False
        self._closed = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._closed.is_set():
            LOST.add(len(spans))
            return SpanExportResult.FAILURE
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            if self._failing:
                log.info("telemetry.recovered")
            self._failing = False
            return result
        LOST.add(len(spans))
        if not self._closed.is_set():
            self._failing = True
            self._quiet.warning("telemetry.unreachable", exporter=type(self._inner).__module__)
        return result

    def shutdown(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._inner.force_flush(timeout_millis)


def span_exporters(environ: Mapping[str, str]) -> list[SpanExporter]:
    """By OTEL_TRACES_EXPORTER; if that is not set, OTLP where an endpoint is given."""
    if _is_true(environ.get("OTEL_SDK_DISABLED")):
        return []
    names = _names(environ.get("OTEL_TRACES_EXPORTER"))
    if names is None:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        names = ["otlp"] if any(environ.get(name) for name in endpoints) else []
    exporters: list[SpanExporter] = []
    for name in names:
        match name:
            case "otlp":
                made = _otlp("trace_exporter", "OTLPSpanExporter", environ, signal="TRACES")
                exporters.append(QuietSpanExporter(cast("SpanExporter", made)))
            case "console":
                exporters.append(ConsoleSpanExporter())
            case _:
                log.warning("telemetry.misconfigured", variable="OTEL_TRACES_EXPORTER", value=name)
    return exporters


def metric_exporters(environ: Mapping[str, str]) -> list[MetricExporter]:
    """Only by OTEL_METRICS_EXPORTER=otlp: /metrics is there anyway."""
    if _is_true(environ.get("OTEL_SDK_DISABLED")):
        return []
    exporters: list[MetricExporter] = []
    for name in _names(environ.get("OTEL_METRICS_EXPORTER")) or []:
        if name == "otlp":
            made = _otlp("metric_exporter", "OTLPMetricExporter", environ, signal="METRICS")
            exporters.append(cast("MetricExporter", made))
        elif name != "prometheus":
            log.warning("telemetry.misconfigured", variable="OTEL_METRICS_EXPORTER", value=name)
    return exporters


def _names(text: str | None) -> list[str] | None:
    """None if not set; `none` is an empty list."""
    if not text or not text.strip():
        return None
    names = [name.strip().lower() for name in text.split(",")]
    return [name for name in names if name not in {"", "none"}]


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"


def _otlp(module: str, name: str, environ: Mapping[str, str], *, signal: str) -> object:
    protocol = (
        environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL")
        or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )
    if protocol not in _PROTOCOLS:
        log.warning(
            "telemetry.misconfigured", variable="OTEL_EXPORTER_OTLP_PROTOCOL", value=protocol
        )
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    # Imported only where asked for: a quarter of a second and many megabytes.
    package = f"opentelemetry.exporter.otlp.proto.{_PROTOCOLS.get(protocol, 'http')}"
    return getattr(importlib.import_module(f"{package}.{module}"), name)()
