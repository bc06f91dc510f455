"""Around a verdict: the trace, the history and the numbers; a dry run leaves but the last."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stromboli.admission.facts import KINDS, ClusterFacts
from stromboli.admission.reviewing import Reviewer
from stromboli.admitting.conf import AdmissionConf
from stromboli.contracts.records import HistoryRecorded
from stromboli.runtime.telemetry import Telemetry, trace_id_of
from stromboli.testkit.clock import ManualClock
from stromboli.testkit.told_views import ToldView

UID = "6f0f64a8-5ab9-4f6f-a3c1-8b7f0a9c0c11"


def job(uid: str = UID, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    task = {"name": "main", "replicas": 1, "minAvailable": 1, "template": template}
    full = {"queue": "default", "minAvailable": 1, "tasks": [task], **spec}
    return {"metadata": {"name": "train", "namespace": "team", "uid": uid}, "spec": full}


def body(item: dict[str, Any], **request: Any) -> bytes:
    resource = {"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"}
    asked = {
        "uid": "review-1",
        "resource": resource,
        "operation": "CREATE",
        "namespace": "team",
        "name": "train",
        "object": item,
        **request,
    }
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    )


class Reviewing:
    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.telemetry = Telemetry.start("admission", environ={}, exporters=[self.spans])
        self.history: list[HistoryRecorded] = []
        facts = ClusterFacts(connected=lambda: True)
        told = ToldView(facts.view)
        told.seen("queue", {"metadata": {"name": "default"}})
        told.sync(KINDS)
        self.reviewer = Reviewer(
            facts,
            AdmissionConf,
            None,
            ManualClock(),
            self.history.append,
            self.telemetry.tracer(),
        )

    async def ask(self, path: str, sent: bytes) -> dict[str, Any]:
        answer = await self.reviewer.answer(path, sent)
        return msgspec.json.decode(answer.body)["response"]


@pytest.fixture
async def reviewing() -> AsyncIterator[Reviewing]:
    made = Reviewing()
    yield made
    await made.telemetry.shutdown()


async def test_a_validation_is_the_first_line_of_the_jobs_history(reviewing: Reviewing):
    assert (await reviewing.ask("/jobs/validate", body(job())))["allowed"]

    (line,) = reviewing.history
    assert (line.namespace, line.job, line.uid, line.what) == (
        "team",
        "train",
        UID,
        "job.reviewed",
    )
    assert line.at == ManualClock().now().timestamp()


async def test_a_refusal_is_remembered_with_its_reason_and_rule(reviewing: Reviewing):
    answer = await reviewing.ask("/jobs/validate", body(job(queue="nowhere")))

    (line,) = reviewing.history
    assert not answer["allowed"]
    assert "unable to find job queue" in line.why
    assert line.detail["outcome"] == "refused"
    assert line.detail["rule"]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/jobs/validate", body(job(), dryRun=True)),
        ("/jobs/mutate", body(job())),
    ],
    ids=["a dry run", "defaulting, which knows no uid yet"],
)
async def test_nothing_is_remembered_of(reviewing: Reviewing, path: str, sent: bytes):
    assert (await reviewing.ask(path, sent))["allowed"]

    assert reviewing.history == []


async def test_a_review_is_a_span_in_the_jobs_own_trace(reviewing: Reviewing):
    await reviewing.ask("/jobs/validate", body(job()))
    await reviewing.telemetry.shutdown()

    (span,) = reviewing.spans.get_finished_spans()
    assert span.name == "review /jobs/validate"
    assert span.context is not None
    assert span.context.trace_id == trace_id_of(UID)
    assert span.attributes is not None
    assert span.attributes["stromboli.review.allowed"] is True


@pytest.mark.parametrize("uid", ["", "no uuid", "00000000-0000-0000-0000-000000000000"])
async def test_a_review_without_a_usable_uid_is_a_span_that_names_the_request(
    reviewing: Reviewing, uid: str
):
    await reviewing.ask("/jobs/mutate", body(job(uid)))
    await reviewing.telemetry.shutdown()

    (span,) = reviewing.spans.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["stromboli.review.uid"] == "review-1"


async def test_reviews_are_counted_by_path_rule_and_outcome(reviewing: Reviewing):
    await reviewing.ask("/jobs/validate", body(job()))
    await reviewing.ask("/jobs/validate", body(job(queue="nowhere")))
    await reviewing.reviewer.answer("/jobs/validate", b"rubbish")

    lines = [
        line
        for line in reviewing.telemetry.render().body.decode().splitlines()
        if line.startswith("stromboli_admission_reviews")
    ]
    for outcome in ("allowed", "refused", "malformed"):
        assert any(f'outcome="{outcome}"' in line and line.endswith(" 1.0") for line in lines)
