"""Which traces are kept: a hash of the trace id against a ratio.

The SDK's own ratio sampler reads bits of the trace id as if they were random. Ours are
UUIDs, whose version and variant bits are not: measured, 0.5 kept nothing and 0.75 kept
everything. So the id is hashed first. Every service hashes alike, so a job's trace is kept
whole or not at all, without anyone telling the others.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceState, get_current_span
from opentelemetry.util.types import Attributes
from typing_extensions import override

from stromboli.runtime.telemetry.identity import root_span_id

__all__ = ["HashSampler", "sampler_from"]

_log: Final = logging.getLogger(__name__)

_SPACE: Final = 1 << 64
# Name in OTEL_TRACES_SAMPLER: (fixed ratio or None for the argument's, respects the parent).
_BY_NAME: Final[Mapping[str, tuple[float | None, bool]]] = {
    "always_on": (1.0, False),
    "always_off": (0.0, False),
    "traceidratio": (None, False),
    "parentbased_always_on": (1.0, True),
    "parentbased_always_off": (0.0, True),
    "parentbased_traceidratio": (None, True),
}


class HashSampler(Sampler):
    """Keeps a ratio of traces; a parent that has decided is respected."""

    def __init__(self, ratio: float, *, respects_parent: bool = True) -> None:
        if not 0.0 <= ratio <= 1.0:
            raise ValueError(f"expected a sampling ratio between 0 and 1, got {ratio!r}")
        self.ratio = ratio
        self.respects_parent = respects_parent
        self._bound = round(ratio * _SPACE)

    def keeps(self, trace_id: int) -> bool:
        """The decision that every service takes for this trace."""
        digest = hashlib.blake2b(
            trace_id.to_bytes(16, "big"), digest_size=8, person=b"stromboli.keep"
        ).digest()
        return int.from_bytes(digest, "big") < self._bound

    @override
    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        parent = get_current_span(parent_context).get_span_context()
        if self.respects_parent and _has_decided(parent):
            kept = parent.trace_flags.sampled
        else:
            kept = self.keeps(trace_id)
        return SamplingResult(
            Decision.RECORD_AND_SAMPLE if kept else Decision.DROP,
            attributes if kept else None,
            parent.trace_state if parent.is_valid else None,
        )

    def get_description(self) -> str:
        parent = "parent, else " if self.respects_parent else ""
        return f"HashSampler({parent}{self.ratio})"


def _has_decided(parent: SpanContext) -> bool:
    # A root parent is made from a uid by whoever needs it: its flags mean nothing.
    return parent.is_valid and parent.span_id != root_span_id(parent.trace_id)


def sampler_from(environ: Mapping[str, str]) -> HashSampler:
    """By OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG; the ratio alone is enough.

    A value that makes no sense is reported and ignored, as the OpenTelemetry
    specification asks: telemetry never keeps a service from starting.
    """
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    argument = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if not name:
        name = "parentbased_traceidratio" if argument else "parentbased_always_on"
    if name not in _BY_NAME:
        _log.warning("OTEL_TRACES_SAMPLER=%r is not known; all traces are kept", name)
        name = "parentbased_always_on"
    ratio, respects_parent = _BY_NAME[name]
    if ratio is None:
        ratio = _ratio(argument)
    return HashSampler(ratio, respects_parent=respects_parent)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        _log.warning("OTEL_TRACES_SAMPLER_ARG=%r is no ratio from 0 to 1; using 1", text)
        return 1.0
    return ratio
