"""AdmissionReview v1 on the wire."""

import base64

import msgspec
import pytest

from stromboli.admitting.errors import MalformedReview
from stromboli.admitting.questions import Verdict
from stromboli.admitting.wire import MAX_BODY_BYTES, read_review, write_answer


def _body(**request: object) -> bytes:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(review)


def test_a_review_is_read_with_what_rules_need() -> None:
    review = read_review(
        _body(
            uid="1",
            kind={"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"},
            resource={"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"},
            operation="CREATE",
            namespace="ns",
            name="a",
            userInfo={"username": "alice", "groups": ["g"], "extra": {"k": ["v"]}},
            object={"metadata": {"name": "a"}},
            oldObject=None,
            dryRun=True,
            options=None,
        )
    )

    assert (review.uid, review.kind, review.operation, review.namespace) == (
        "1",
        "Job",
        "CREATE",
        "ns",
    )
    assert review.user_info.username == "alice"
    assert review.user_info.groups == ("g",)
    assert review.object == {"metadata": {"name": "a"}}
    assert review.dry_run


def test_what_is_null_or_absent_is_empty() -> None:
    review = read_review(_body(uid="1", namespace=None, userInfo=None, kind=None))

    assert (review.namespace, review.user_info.username, review.object) == ("", "", None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}',
        b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{"uid":"1"}}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":1}}',
        b"[" * 100_000,
        b" " * (MAX_BODY_BYTES + 1),
    ],
    ids=lambda body: repr(body[:60]),
)
def test_what_is_no_review_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReview, match=r"AdmissionReview of admission\.k8s\.io/v1"):
        read_review(body)


def test_of_a_key_that_stands_twice_the_last_counts() -> None:
    """The API server's own decoder keeps the last, so what is judged is what is stored."""
    body = _body(uid="1").replace(b'"uid":"1"', b'"uid":"1","object":{"a":1},"object":{"a":2}')

    assert read_review(body).object == {"a": 2}


def test_a_refusal_carries_its_message_and_code() -> None:
    answer = msgspec.json.decode(
        write_answer("7", Verdict(allowed=False, message="no", code=400, rule="r"))
    )

    assert answer == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "7",
            "allowed": False,
            "status": {"message": "no", "code": 400},
        },
    }


def test_a_patch_travels_in_base64() -> None:
    patch = [{"op": "add", "path": "/spec/queue", "value": "default"}]
    answer = msgspec.json.decode(write_answer("7", Verdict(allowed=True, patch=patch)))

    assert answer["response"]["patchType"] == "JSONPatch"
    assert msgspec.json.decode(base64.b64decode(answer["response"]["patch"])) == patch


def test_nothing_to_patch_is_no_patch() -> None:
    answer = msgspec.json.decode(write_answer("7", Verdict(allowed=True)))

    assert answer["response"] == {"uid": "7", "allowed": True}


def test_a_message_of_a_megabyte_is_cut() -> None:
    answer = write_answer("7", Verdict(allowed=False, message="x" * 2**20, code=400))

    assert len(answer) < 10_000
