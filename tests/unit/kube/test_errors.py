import msgspec
import pytest

from stromboli.kube import errors
from stromboli.kube.status import Cause, Status, StatusDetails


def answer(code: int, **fields: object) -> errors.ApiError:
    body = msgspec.json.encode({"kind": "Status", "status": "Failure", "code": code, **fields})
    return errors.error_from_answer("GET /x", code=code, body=body)


@pytest.mark.parametrize(
    ("code", "reason", "kind", "retryable"),
    [
        (400, "BadRequest", errors.BadRequest, False),
        (401, "Unauthorized", errors.Unauthorized, False),
        (403, "Forbidden", errors.Forbidden, False),
        (404, "NotFound", errors.NotFound, False),
        (405, "MethodNotAllowed", errors.ApiError, False),
        (409, "AlreadyExists", errors.AlreadyExists, False),
        (409, "Conflict", errors.Conflict, False),
        (410, "Expired", errors.Gone, False),
        (410, "Gone", errors.Gone, False),
        (413, "RequestEntityTooLarge", errors.BodyRefused, False),
        (415, "UnsupportedMediaType", errors.BodyRefused, False),
        (422, "Invalid", errors.Invalid, False),
        (429, "TooManyRequests", errors.TooManyRequests, True),
        (500, "InternalError", errors.ServerUnavailable, True),
        (503, "ServiceUnavailable", errors.ServerUnavailable, True),
        (504, "Timeout", errors.ServerUnavailable, True),
    ],
)
def test_a_status_becomes_the_error_that_it_means(
    code: int, reason: str, kind: type[errors.ApiError], *, retryable: bool
) -> None:
    error = answer(code, reason=reason, message="because")

    assert type(error) is kind
    assert error.retryable is retryable
    assert str(error) == f"GET /x: {code} {reason}: because"


def test_only_an_error_after_which_the_work_may_be_done_says_so() -> None:
    assert answer(500, reason="InternalError").maybe_applied
    assert not answer(409, reason="Conflict").maybe_applied
    assert not answer(429, reason="TooManyRequests").maybe_applied


def test_a_plain_text_answer_still_becomes_an_error_with_its_text() -> None:
    error = errors.error_from_answer(
        "GET /x", code=429, body=b"Too many requests, please try again later.\n", retry_after="3"
    )

    assert isinstance(error, errors.TooManyRequests)
    assert error.message == "Too many requests, please try again later."
    assert error.retry_after_s == 3


def test_a_long_page_of_a_proxy_is_cut() -> None:
    error = errors.error_from_answer("GET /x", code=502, body=b"<html>" * 10_000)

    assert isinstance(error, errors.ServerUnavailable)
    assert len(error.message) == errors.MAX_PLAIN_TEXT


def test_the_status_itself_may_say_how_long_to_wait() -> None:
    assert answer(429, details={"retryAfterSeconds": 10}).retry_after_s == 10
    assert answer(429).retry_after_s is None


def test_the_causes_of_an_invalid_object_are_kept() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "too small", "field": "spec.weight"}]
    error = answer(422, reason="Invalid", details={"causes": causes})

    assert error.causes == (
        Cause(reason="FieldValueInvalid", message="too small", field="spec.weight"),
    )


def test_an_exceeded_quota_is_told_from_other_refusals() -> None:
    error = answer(
        403,
        reason="Forbidden",
        message='pods "a" is forbidden: exceeded quota: small, '
        "requested: cpu=2,pods=1, used: cpu=3,pods=9, limited: cpu=4,pods=10",
    )
    assert isinstance(error, errors.Forbidden)

    assert error.quota == errors.QuotaExceeded(
        quota="small", requested="cpu=2,pods=1", used="cpu=3,pods=9", limited="cpu=4,pods=10"
    )


def test_a_missing_right_is_no_quota() -> None:
    error = answer(403, reason="Forbidden", message='pods is forbidden: User "u" cannot list')
    assert isinstance(error, errors.Forbidden)

    assert error.quota is None
    assert not error.is_namespace_terminating


def test_a_terminating_namespace_is_recognised() -> None:
    error = answer(403, details={"causes": [{"reason": "NamespaceTerminating"}]})
    assert isinstance(error, errors.Forbidden)

    assert error.is_namespace_terminating


def test_a_missing_object_a_missing_namespace_and_a_missing_kind_differ() -> None:
    pod = answer(404, details={"name": "a", "kind": "pods"})
    namespace = answer(404, details={"name": "team", "kind": "namespaces"})
    kind = errors.error_from_answer("GET /x", code=404, body=b"404 page not found\n")

    assert isinstance(pod, errors.NotFound)
    assert isinstance(namespace, errors.NotFound)
    assert isinstance(kind, errors.NotFound)
    assert (pod.missing_namespace, pod.is_unknown_kind) == (None, False)
    assert (namespace.missing_namespace, namespace.is_unknown_kind) == ("team", False)
    assert (kind.missing_namespace, kind.is_unknown_kind) == (None, True)


def test_a_disruption_budget_is_told_from_a_busy_server() -> None:
    budget = answer(429, details={"causes": [{"reason": "DisruptionBudget"}]})
    busy = answer(429)

    assert isinstance(budget, errors.TooManyRequests)
    assert isinstance(busy, errors.TooManyRequests)
    assert budget.is_disruption_budget
    assert not busy.is_disruption_budget


def test_the_code_of_the_answer_wins_over_the_one_in_its_body() -> None:
    body = msgspec.json.encode(Status(code=200, reason="Odd", details=StatusDetails()))

    assert isinstance(errors.error_from_answer("GET /x", code=410, body=body), errors.Gone)


def test_a_status_with_fields_of_the_wrong_type_is_read_as_text() -> None:
    error = errors.error_from_answer("GET /x", code=409, body=b'{"code": "many", "message": 7}')

    assert isinstance(error, errors.Conflict)
    assert error.message == '{"code": "many", "message": 7}'
