"""One review from its bytes to the answer: read, look up what is unknown, judge, tell.

The judging is `stromboli.admitting`; here is what surrounds it: a lookup of queues that nobody
has heard of, the warning that our knowledge is old, a span, the numbers, and a line in the
job's history. A dry run leaves no trace but the numbers.
"""

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from stromboli.admission.errors import QueueOutOfReach
from stromboli.admission.facts import ClusterFacts, Overlaid
from stromboli.admission.https import Answer
from stromboli.admission.lookup import QueueLookup
from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.errors import MalformedReview
from stromboli.admitting.reviewing import (
    Review,
    Surroundings,
    Verdict,
    queues_named,
    review,
)
from stromboli.admitting.wire import read_review, write_answer
from stromboli.contracts.permissions import ADMISSION
from stromboli.contracts.records import HistoryRecorded
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import (
    Span,
    Tracer,
    counter,
    histogram,
    job_context,
    trace_id_of,
)

__all__ = ["Reviewer"]

log = get_logger(__name__)

REVIEWED: Final = "job.reviewed"
"""The line in a job's history."""

_JOBS: Final = ("batch.volcano.sh", "jobs")
_WORDS: Final = 1000
"""Characters of a refusal that go into history."""

_reviews = counter(
    "stromboli.admission.reviews", "Reviews answered", labels=["path", "rule", "outcome"]
)
_took = histogram(
    "stromboli.admission.duration", "From the body's last byte to the answer", labels=["path"]
)


@dataclass(slots=True)
class Reviewer:
    """Answers reviews."""

    facts: ClusterFacts
    conf: Callable[[], AdmissionConf]
    lookup: QueueLookup | None
    """None where there is no API server to ask: then STATE alone counts."""
    clock: Clock
    record: Callable[[HistoryRecorded], None]
    tracer: Tracer | None = None

    async def answer(self, path: str, body: bytes) -> Answer:
        """The AdmissionReview that answers this one, or a 400 when it is none."""
        started = time.perf_counter()
        try:
            asked = read_review(body)
        except MalformedReview as malformed:
            _reviews.add(1, path=path, rule="", outcome="malformed")
            return Answer(400, f"{malformed}\n".encode(), "text/plain; charset=utf-8")
        with self._span(path, asked) as span:
            verdict = await self._judge(path, asked)
            if span is not None:
                span.set_attribute("stromboli.review.allowed", verdict.allowed)
                span.set_attribute("stromboli.review.rule", verdict.rule)
        outcome = "allowed" if verdict.allowed else "refused"
        _reviews.add(1, path=path, rule=verdict.rule, outcome=outcome)
        self._remember(path, asked, verdict)
        answer = Answer(200, write_answer(asked.uid, verdict))
        _took.record(time.perf_counter() - started, path=path)
        return answer

    async def _judge(self, path: str, asked: Review) -> Verdict:
        surroundings: Surroundings = self.facts
        unknown = [name for name in queues_named(path, asked) if self.facts.queue(name) is None]
        if unknown and self.lookup is not None:
            try:
                surroundings = Overlaid(self.facts, await self.lookup.find(unknown))
            except QueueOutOfReach as problem:
                return Verdict(allowed=False, message=str(problem), code=503, rule="queue-lookup")
        verdict = review(path, asked, surroundings, self.conf())
        if self.facts.is_synced and (doubt := self.facts.doubt):
            return msgspec.structs.replace(verdict, warnings=(*verdict.warnings, doubt))
        return verdict

    def _remember(self, path: str, asked: Review, verdict: Verdict) -> None:
        """The history of a job begins with its validation: before that, it has no uid."""
        if asked.dry_run or not path.endswith("/validate") or _resource(asked) != _JOBS:
            return
        name, uid = _name_and_uid(asked)
        if not (name and asked.namespace):
            return
        self.record(
            HistoryRecorded(
                namespace=asked.namespace,
                job=name,
                uid=uid,
                service=ADMISSION,
                at=self.clock.now().timestamp(),
                what=REVIEWED,
                why=verdict.message[:_WORDS],
                detail={
                    "operation": asked.operation,
                    "outcome": "allowed" if verdict.allowed else "refused",
                    "rule": verdict.rule,
                    "review": asked.uid,
                },
            )
        )

    @contextlib.contextmanager
    def _span(self, path: str, asked: Review) -> Generator[Span | None]:
        """In the job's own trace where its uid is known; else the request's uid links them."""
        if self.tracer is None:
            yield None
            return
        _, uid = _name_and_uid(asked)
        context = job_context(uid) if _resource(asked) == _JOBS and _is_trace(uid) else None
        with self.tracer.start_as_current_span(
            f"review {path}",
            context=context,
            attributes={
                "stromboli.review.uid": asked.uid,
                "stromboli.review.operation": asked.operation,
                "stromboli.review.dry_run": asked.dry_run,
                "k8s.namespace.name": asked.namespace,
            },
        ) as span:
            yield span


def _resource(asked: Review) -> tuple[str, str]:
    return asked.resource.group, asked.resource.resource


def _name_and_uid(asked: Review) -> tuple[str, str]:
    """Of the object itself: the request's own name is empty while a name is being generated."""
    found: Any = asked.object if isinstance(asked.object, dict) else {}
    metadata: Any = cast("dict[str, Any]", found).get("metadata")
    if not isinstance(metadata, dict):
        return asked.name, ""
    fields = cast("dict[str, Any]", metadata)
    name, uid = fields.get("name"), fields.get("uid")
    return (
        name if isinstance(name, str) and name else asked.name,
        uid if isinstance(uid, str) else "",
    )


def _is_trace(uid: str) -> bool:
    try:
        trace_id_of(uid)
    except ValueError:
        return False
    return True
