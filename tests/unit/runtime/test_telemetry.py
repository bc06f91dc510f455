"""Trace identity, sampling, propagation and metrics, without any network."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_current_span

from stromboli.runtime.telemetry import (
    HashSampler,
    Telemetry,
    counter,
    extract,
    gauge,
    histogram,
    in_job_context,
    inject,
    job_context,
    root_span_id,
    start_job_root,
    trace_id_of,
)
from stromboli.runtime.telemetry.sampling import sampler_from

UID = "5f0c9b6e-3d5a-4c1e-9a57-0d8f1e2a3b4c"

CALLS = counter("test.calls", "Calls made by a test.", labels=("verb",))
TOOK = histogram("test.took", "How long a test took.", labels=("verb",))
DEPTH = gauge("test.depth", "How deep a test is.")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def telemetry(exporter: InMemorySpanExporter) -> AsyncIterator[Telemetry]:
    telemetry = Telemetry.start("test", environ={}, exporters=[exporter])
    yield telemetry
    await telemetry.shutdown()


async def finished(telemetry: Telemetry, exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    await telemetry.shutdown()
    return list(exporter.get_finished_spans())


# -- identity ------------------------------------------------------------------------------


def test_the_trace_id_is_the_uid():
    assert f"{trace_id_of(UID):032x}" == UID.replace("-", "")


def test_the_root_span_id_is_the_same_in_every_version_of_this_software():
    """Services of two releases run side by side during an upgrade."""
    assert f"{root_span_id(trace_id_of(UID)):016x}" == "4d1f27192b7946ae"


@given(st.uuids())
def test_a_root_span_id_is_a_valid_span_id(uid: uuid.UUID):
    assert 0 < root_span_id(uid.int) < 2**64


@pytest.mark.parametrize("uid", ["", "job-1", "5f0c9b6e", str(uuid.UUID(int=0))])
def test_what_is_no_uid_is_refused(uid: str):
    with pytest.raises(ValueError, match=r"uid"):
        trace_id_of(uid)


async def test_spans_of_two_services_meet_under_the_jobs_root(
    telemetry: Telemetry, exporter: InMemorySpanExporter
):
    others = InMemorySpanExporter()
    other = Telemetry.start("other", environ={}, exporters=[others])
    with telemetry.tracer().start_as_current_span("bind", context=job_context(UID)):
        pass
    with other.tracer().start_as_current_span("start", context=job_context(UID)):
        pass
    start_job_root(telemetry.tracer(), UID, "job").end()

    ended = await finished(telemetry, exporter) + await finished(other, others)
    spans = {span.name: span for span in ended}
    root = spans["job"].context
    assert root is not None
    assert (root.trace_id, root.span_id) == (trace_id_of(UID), root_span_id(trace_id_of(UID)))
    assert spans["job"].parent is None
    for name in ("bind", "start"):
        parent = spans[name].parent
        assert parent is not None
        assert (parent.trace_id, parent.span_id) == (root.trace_id, root.span_id)


async def test_only_the_root_itself_gets_the_fixed_ids(
    telemetry: Telemetry, exporter: InMemorySpanExporter
):
    start_job_root(telemetry.tracer(), UID, "job").end()
    telemetry.tracer().start_span("unrelated").end()

    _, unrelated = await finished(telemetry, exporter)
    assert unrelated.context is not None
    assert unrelated.context.trace_id != trace_id_of(UID)


async def test_without_an_exporter_nothing_is_recorded_but_contexts_pass_on():
    telemetry = Telemetry.start("test", environ={})
    with telemetry.tracer().start_as_current_span("bind", context=job_context(UID)) as span:
        headers: dict[str, str] = {}
        inject(headers)

    assert not telemetry.is_tracing
    assert not span.is_recording()
    assert UID.replace("-", "") in headers["traceparent"]
    assert await telemetry.shutdown()


# -- sampling ------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.25, 0.5, 0.6, 0.75, 1.0])
def test_the_ratio_holds_for_uuids(ratio: float):
    """The SDK's own sampler keeps 0 of them at 0.5, and all at 0.75."""
    rng_uids = (uuid.uuid5(uuid.NAMESPACE_OID, str(n)) for n in range(20_000))
    sampler = HashSampler(ratio)

    kept = sum(sampler.keeps(uid.int) for uid in rng_uids) / 20_000

    assert kept == pytest.approx(ratio, abs=0.015)


def test_a_trace_that_a_small_ratio_keeps_a_larger_one_keeps_too():
    """Raising the ratio in one service only adds traces; it does not exchange them."""
    small, large = HashSampler(0.2), HashSampler(0.6)

    for n in range(2000):
        assert not small.keeps(n + 1) or large.keeps(n + 1)


def kept_by(sampler: HashSampler, context: Any, trace_id: int) -> bool:
    return sampler.should_sample(context, trace_id, "span").decision.is_sampled()


def test_a_parent_that_has_decided_is_respected():
    trace_id = trace_id_of(UID)
    parent = f"00-{trace_id:032x}-00000000000000aa"

    assert kept_by(HashSampler(0), extract({"traceparent": f"{parent}-01"}), trace_id)
    assert not kept_by(HashSampler(1), extract({"traceparent": f"{parent}-00"}), trace_id)


def test_the_derived_root_has_decided_nothing():
    trace_id = trace_id_of(UID)

    assert kept_by(HashSampler(1), job_context(UID), trace_id)
    assert not kept_by(HashSampler(0), job_context(UID), trace_id)


@pytest.mark.parametrize(
    ("environ", "ratio", "respects_parent"),
    [
        ({}, 1.0, True),
        ({"OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25, True),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, 0.0, False),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"},
            0.5,
            False,
        ),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, 1.0, True),
        ({"OTEL_TRACES_SAMPLER": "xray"}, 1.0, True),
        ({"OTEL_TRACES_SAMPLER_ARG": "much"}, 1.0, True),
    ],
)
def test_the_standard_variables_choose_the_sampler(
    environ: dict[str, str], ratio: float, *, respects_parent: bool
):
    sampler = sampler_from(environ)

    assert (sampler.ratio, sampler.respects_parent) == (ratio, respects_parent)


def test_a_ratio_beyond_one_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        HashSampler(1.5)


# -- propagation ---------------------------------------------------------------------------


async def test_a_context_survives_the_headers(telemetry: Telemetry, exporter: InMemorySpanExporter):
    headers: dict[str, str] = {}
    with telemetry.tracer().start_as_current_span("publish", context=job_context(UID)):
        inject(headers)
    telemetry.tracer().start_span("process", context=extract(headers)).end()

    publish, process = await finished(telemetry, exporter)
    assert process.parent is not None
    assert publish.context is not None
    assert process.parent.span_id == publish.context.span_id


def test_without_a_span_no_header_is_written():
    headers: dict[str, str] = {}
    inject(headers)

    assert headers == {}


@pytest.mark.parametrize("headers", [None, {}, {"traceparent": "garbage"}, {"other": "x"}])
def test_headers_without_a_readable_trace_give_an_empty_context(headers: dict[str, str] | None):
    assert not get_current_span(extract(headers)).get_span_context().is_valid


def test_header_names_may_be_in_any_case():
    text = f"00-{trace_id_of(UID):032x}-00000000000000aa-01"

    context = get_current_span(extract({"Traceparent": text})).get_span_context()

    assert context.trace_id == trace_id_of(UID)


def test_the_job_context_ends_with_its_block():
    with in_job_context(UID):
        assert get_current_span().get_span_context().trace_id == trace_id_of(UID)

    assert not get_current_span().get_span_context().is_valid


# -- metrics -------------------------------------------------------------------------------


async def test_declared_instruments_are_rendered_for_prometheus(telemetry: Telemetry):
    CALLS.add(2, verb="bind")
    TOOK.record(0.003, verb="bind")
    DEPTH.set(7)

    rendered = telemetry.render()
    lines = rendered.body.decode().splitlines()
    assert rendered.content_type.startswith("text/plain")
    assert 'test_calls_total{verb="bind"} 2.0' in lines
    assert "# HELP test_calls_total Calls made by a test." in lines
    assert "test_depth 7.0" in lines
    assert 'test_took_seconds_bucket{le="0.002",verb="bind"} 0.0' in lines
    assert 'test_took_seconds_bucket{le="0.005",verb="bind"} 1.0' in lines


async def test_every_scrape_shows_the_metrics_again(telemetry: Telemetry):
    CALLS.add(1, verb="bind")

    first, second = telemetry.render().body, telemetry.render().body
    assert b"test_calls_total" in first
    assert first.count(b"\ntest_calls_total{") == second.count(b"\ntest_calls_total{") == 1


async def test_a_block_can_be_timed(telemetry: Telemetry):
    with pytest.raises(KeyError), TOOK.timed(verb="fail"):
        raise KeyError

    assert b'test_took_seconds_count{verb="fail"} 1.0' in telemetry.render().body


async def test_each_telemetry_has_a_registry_of_its_own(telemetry: Telemetry):
    CALLS.add(5, verb="old")
    second = Telemetry.start("second", environ={})
    CALLS.add(1, verb="new")

    assert b'verb="old"' not in second.render().body
    assert b'verb="new"' in second.render().body
    await second.shutdown()


async def test_an_instrument_declared_late_is_bound_at_once(telemetry: Telemetry):
    late = counter(f"test.late.{uuid.uuid4().hex}", "Declared after the start.")
    late.add()

    assert b"test_late_" in telemetry.render().body


async def test_openmetrics_is_given_to_those_who_ask(telemetry: Telemetry):
    rendered = telemetry.render("application/openmetrics-text; version=1.0.0")

    assert rendered.content_type.startswith("application/openmetrics-text")
    assert rendered.body.endswith(b"# EOF\n")


async def test_the_process_itself_is_measured(telemetry: Telemetry):
    assert b"process_resident_memory_bytes" in telemetry.render().body


def test_an_instrument_costs_nothing_before_the_start():
    CALLS.add(1, verb="unheard")


def test_other_labels_than_the_declared_ones_are_refused():
    with pytest.raises(TypeError, match=r"test\.calls has the labels \['verb'\], got \['job'\]"):
        CALLS.add(1, job="a")


def test_a_name_is_declared_once():
    with pytest.raises(TypeError, match="declared already"):
        counter("test.calls", "Again.")


def test_a_metric_needs_a_sentence():
    with pytest.raises(TypeError, match="needs a sentence"):
        counter("test.unexplained", "")


async def test_the_standard_variables_name_the_resource(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab")
    telemetry = Telemetry.start("test", environ={})
    CALLS.add(1, verb="x")

    info = next(
        line for line in telemetry.render().body.decode().splitlines() if "target_info{" in line
    )
    assert 'service_name="mine"' in info
    assert 'deployment_environment="lab"' in info
    assert 'service_namespace="stromboli"' in info
    await telemetry.shutdown()
