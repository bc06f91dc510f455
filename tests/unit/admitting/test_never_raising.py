"""Whatever comes, there is a verdict: reviews and objects that nobody would write by hand."""

import contextlib
import copy
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.admitting.conf import AdmissionConf, GroupObject, ResourceGroup
from stromboli.admitting.errors import MalformedReview
from stromboli.admitting.questions import MAX_MESSAGE, Review, UserInfo, Verdict
from stromboli.admitting.reviewing import PATHS, queues_named, review
from stromboli.admitting.snapshot import Snapshot
from stromboli.admitting.wire import read_review, write_answer
from stromboli.api.scheduling import Queue
from stromboli.testkit.admission_cases import load_cases
from stromboli.testkit.sample_jobs import mpi_job, tensorflow_job

CONF: Final = AdmissionConf(
    scheduling_gates=True,
    resource_groups=(
        ResourceGroup("a", GroupObject("namespace", ("a",)), labels={"a": "b"}, affinity="{}"),
        ResourceGroup("b", GroupObject("annotation", ("a: b", "odd"))),
        ResourceGroup("c", tolerations=({"key": "a"},), scheduler_name="other"),
    ),
)
SURROUNDINGS: Final = Snapshot(
    queues=[
        msgspec.convert({"metadata": {"name": name}, "spec": {"parent": parent}}, Queue)
        for name, parent in (("default", "root"), ("a", "b"), ("b", "a"), ("c", "gone"))
    ]
)
"""With a circle among the queues, and an orphan, which only old data can hold."""

MANIFESTS: Final = [case.object for case in load_cases()] + [mpi_job(), tensorflow_job()]

TEXTS: Final = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "\x00", "é", "e\u0301", "\u202e", "a/b/c", "%s%d", "-1", "9" * 400, "*"]),
)
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**30, max_value=10**40),
    st.floats(allow_nan=False),
    TEXTS,
)
JSON: Final = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=25,
)


def _judged(path: str, operation: str, item: Any, old: Any = None) -> Verdict:
    """The verdict, after the round over the wire that it must survive too."""
    request = Review(
        uid="u",
        operation=operation,
        namespace="a",
        object=item,
        old_object=old,
        user_info=UserInfo(username="x", groups=("y",)),
    )
    assert isinstance(queues_named(path, request), set)
    verdict = review(path, request, SURROUNDINGS, CONF)
    answer = msgspec.json.decode(write_answer(request.uid, verdict))
    assert answer["response"]["allowed"] == verdict.allowed
    assert verdict.allowed or (verdict.message and verdict.rule)
    return verdict


OPERATIONS: Final = st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", ""])


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=50, deadline=None)
@given(operation=OPERATIONS, item=JSON, old=JSON)
def test_any_json_gets_a_verdict(path: str, operation: str, item: Any, old: Any) -> None:
    _judged(path, operation, item, old)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_manifest_with_a_part_replaced_gets_a_verdict(data: st.DataObject) -> None:
    """Real objects with something odd in one place reach deeper than random JSON does."""
    item = copy.deepcopy(data.draw(st.sampled_from(MANIFESTS)))
    old = copy.deepcopy(item)
    for _ in range(data.draw(st.integers(1, 3))):
        _replace_something(item, data)
    for path, each in PATHS.items():
        if each.kind == item.get("kind"):
            for operation in each.operations:
                _judged(path, operation, item, old)


def _replace_something(item: Any, data: st.DataObject) -> None:
    holder: Any = item
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            holder = inner
            continue
        holder[key] = data.draw(JSON)
        return


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in members:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*path, key))


@pytest.mark.parametrize("number", [2**64, -(10**30)])
@pytest.mark.parametrize("path", PATHS)
def test_an_integer_of_more_than_64_bits_gets_a_verdict_wherever_it_stands(
    path: str, number: int
) -> None:
    each = PATHS[path]
    examples = [item for item in MANIFESTS if item.get("kind") == each.kind][:4]
    for example in examples:
        for *holders, key in _places(example):
            item = copy.deepcopy(example)
            holder: Any = item
            for name in holders:
                holder = holder[name]
            holder[key] = number
            for operation in each.operations:
                _judged(path, operation, item, example)


def test_a_job_with_an_integer_of_more_than_64_bits_is_refused_in_words() -> None:
    job = mpi_job()
    job["spec"]["tasks"][0]["template"]["spec"]["terminationGracePeriodSeconds"] = 10**30

    verdict = _judged("/jobs/validate", "CREATE", job)

    assert (verdict.allowed, verdict.rule) == (False, "readable")
    assert verdict.message == "an integer in the object has more than 64 bits"


@settings(max_examples=150, deadline=None)
@given(body=st.one_of(st.binary(max_size=200), JSON.map(msgspec.json.encode)))
def test_bytes_are_a_review_or_malformed(body: bytes) -> None:
    with contextlib.suppress(MalformedReview):
        read_review(body)


@settings(max_examples=100, deadline=None)
@given(request=st.fixed_dictionaries({"uid": TEXTS}, optional={"kind": JSON, "object": JSON}))
def test_a_review_of_anything_is_read_or_malformed(request: dict[str, Any]) -> None:
    review_ = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    with contextlib.suppress(MalformedReview):
        assert read_review(msgspec.json.encode(review_)).uid == request["uid"]


def _nested(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [100, 400, 900])
@pytest.mark.parametrize("path", PATHS)
def test_depth_is_no_danger(path: str, depth: int) -> None:
    deep = _nested(depth)
    for item in (
        deep,
        {"spec": deep, "metadata": None},
        {"spec": {"tasks": [{"template": deep, "name": None}], "jobTemplate": {"spec": deep}}},
    ):
        for operation in PATHS[path].operations:
            _judged(path, operation, item, item)


def test_a_job_of_ten_thousand_bad_tasks_is_refused_in_good_time() -> None:
    """3 MB of faults: no more work than reading them, and a short answer."""
    spec = {"replicas": -1, "minAvailable": 5, "template": {"spec": {}}}
    tasks = [{"name": f"{'A' * 90}{index}", **spec} for index in range(10_000)]
    job = {"metadata": {"name": "x"}, "spec": {"tasks": tasks}}
    started = time.process_time()

    verdict = _judged("/jobs/validate", "CREATE", job)

    assert not verdict.allowed
    assert len(verdict.message) <= MAX_MESSAGE
    assert time.process_time() - started < 5


MEGABYTE: Final = 2**20
HUGE: Final[list[tuple[str, Any]]] = [
    ("/jobs/validate", {"metadata": {"name": "x" * MEGABYTE}, "spec": {"tasks": [{}]}}),
    ("/jobs/validate", {"spec": {"tasks": [{"name": "a-" * MEGABYTE}]}}),
    ("/jobs/validate", {"spec": {"tasks": [{}], "plugins": {f"p{i}": [] for i in range(50_000)}}}),
    ("/cronjobs/validate", {"metadata": {"name": "a." * MEGABYTE}, "spec": {}}),
    ("/cronjobs/validate", {"spec": {"schedule": "1," * MEGABYTE, "timeZone": "a/" * MEGABYTE}}),
    ("/queues/validate", {"spec": {"capability": {f"r{i}": "-1" for i in range(50_000)}}}),
    (
        "/queues/validate",
        {"metadata": {"annotations": {"stromboli.sh/submit-service-accounts": "a," * MEGABYTE}}},
    ),
    (
        "/queues/validate",
        {
            "metadata": {
                "annotations": {
                    "volcano.sh/hierarchy": "a/" * MEGABYTE,
                    "volcano.sh/hierarchy-weights": "1/" * MEGABYTE,
                }
            }
        },
    ),
    (
        "/hypernodes/validate",
        {"spec": {"members": [{"selector": {"regexMatch": {"pattern": "(a{999}){999}" * 300}}}]}},
    ),
    (
        "/pods/validate",
        {
            "metadata": {"annotations": {"volcano.sh/jdb-min-available": "9" * MEGABYTE}},
            "spec": {"schedulerName": "volcano"},
        },
    ),
]


@pytest.mark.parametrize(("path", "item"), HUGE, ids=[f"{p} {i}" for i, (p, _) in enumerate(HUGE)])
def test_what_is_huge_costs_little_more_than_reading_it(path: str, item: Any) -> None:
    started = time.process_time()

    verdict = _judged(path, "CREATE", item)

    assert time.process_time() - started < 3
    assert len(verdict.message) <= MAX_MESSAGE


def test_a_long_chain_of_flows_is_walked_without_a_deep_stack() -> None:
    flows = [{"name": "f0"}] + [
        {"name": f"f{i}", "dependsOn": {"targets": [f"f{i - 1}"]}} for i in range(1, 20_000)
    ]

    assert _judged("/jobflows/validate", "CREATE", {"spec": {"flows": flows}}).allowed


def test_text_that_looks_like_a_format_is_only_text() -> None:
    job = mpi_job()
    job["spec"]["plugins"] = {"%s%d%(a)s": []}

    assert "%s%d%(a)s" in _judged("/jobs/validate", "CREATE", job).message
