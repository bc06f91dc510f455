"""One trace per job, without any hand-over: the trace id *is* the Job's uid.

A Job's uid is a UUID, 128 bits, as a trace id is. The id of the job's root span is a hash
of the uid, so every service knows the parent of its spans from the uid alone. The root
span itself is recorded by whoever sees the job end, under that same id.
"""

import contextvars
import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    Tracer,
)
from opentelemetry.util.types import Attributes

__all__ = [
    "JobIdGenerator",
    "in_job_context",
    "job_context",
    "root_span_id",
    "start_job_root",
    "trace_id_of",
]

_next_ids: Final[contextvars.ContextVar[tuple[int, int] | None]] = contextvars.ContextVar(
    "stromboli_next_span_ids", default=None
)


def trace_id_of(uid: str) -> int:
    """The uid's 128 bits; a ValueError if it is no UUID or all zero."""
    try:
        number = UUID(uid).int
    except ValueError as error:
        raise ValueError(f"expected a Job uid such as {UUID(int=1)}, got {uid!r}") from error
    if number == 0:
        raise ValueError(f"the uid {uid!r} is all zero, which is no trace id")
    return number


def root_span_id(trace_id: int) -> int:
    """The id of the job's root span: 64 bits, never zero, the same in every process."""
    digest = hashlib.blake2b(
        trace_id.to_bytes(16, "big"), digest_size=8, person=b"stromboli.root"
    ).digest()
    # Zero is no span id; one hash in 2^64 is moved to its neighbour.
    return int.from_bytes(digest, "big") or 1


def job_context(uid: str) -> Context:
    """The context whose spans are children of the job's root span.

    It carries no decision about sampling: the sampler knows a root parent by its id and
    decides from the trace id, alike in every service.
    """
    return trace.set_span_in_context(NonRecordingSpan(_root_span_context(uid)), Context())


@contextmanager
def in_job_context(uid: str) -> Generator[None]:
    """Make the job's context the current one, for spans and log lines alike."""
    token = otel_context.attach(job_context(uid))
    try:
        yield
    finally:
        otel_context.detach(token)


def start_job_root(
    tracer: Tracer,
    uid: str,
    name: str,
    *,
    start_time_ns: int | None = None,
    attributes: Attributes = None,
) -> Span:
    """The job's root span itself; end it when the job has ended. One service may do so."""
    trace_id = trace_id_of(uid)
    token = _next_ids.set((trace_id, root_span_id(trace_id)))
    try:
        return tracer.start_span(
            name,
            context=Context(),
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            start_time=start_time_ns,
        )
    finally:
        _next_ids.reset(token)


def _root_span_context(uid: str) -> SpanContext:
    trace_id = trace_id_of(uid)
    return SpanContext(
        trace_id=trace_id,
        span_id=root_span_id(trace_id),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.DEFAULT),
    )


class JobIdGenerator(RandomIdGenerator):
    """Random ids, except for a span whose ids `start_job_root` has fixed."""

    def generate_trace_id(self) -> int:
        fixed = _next_ids.get()
        return super().generate_trace_id() if fixed is None else fixed[0]

    def generate_span_id(self) -> int:
        fixed = _next_ids.get()
        return super().generate_span_id() if fixed is None else fixed[1]
