"""The trace context in message headers, as W3C `traceparent` and `tracestate`.

Plain dictionaries in and out, so that nothing here knows NATS and nothing in the bus
knows OpenTelemetry. A header that can't be read is as good as none: a message is never
refused because of its trace.
"""

from collections.abc import Mapping, MutableMapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["extract", "inject"]

_propagator: Final = TraceContextTextMapPropagator()


def inject(headers: MutableMapping[str, str], context: Context | None = None) -> None:
    """Write the current (or the given) context into the headers; nothing if there is none."""
    _propagator.inject(headers, context)


def extract(headers: Mapping[str, str] | None) -> Context:
    """The sender's context; empty if it sent none. Header names may be in any case."""
    if not headers:
        return Context()
    lowered = {name.lower(): value for name, value in headers.items()}
    return _propagator.extract(lowered, Context())
