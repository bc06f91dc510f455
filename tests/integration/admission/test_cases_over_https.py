"""Volcano's admission cases as an API server sends them: AdmissionReviews over TLS."""

import base64
import io
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import jsonpatch
import msgspec
import pytest

from stromboli.admission.certificates import ServingCertificate
from stromboli.admission.config import HttpsSettings
from stromboli.admission.facts import KINDS, ClusterFacts
from stromboli.admission.https import Answer, Front, listening
from stromboli.admission.reviewing import Reviewer
from stromboli.admitting.reviewing import PATHS, Review
from stromboli.runtime.clock import SystemClock
from stromboli.testkit.admission_cases import (
    CONF,
    AdmissionCase,
    Outcome,
    check,
    load_cases,
    review_of,
)
from stromboli.testkit.certificates import Authority
from stromboli.testkit.told_views import ToldView

CASES = [each for each in load_cases() if not each.needs_schema]
JSON = {"Content-Type": "application/json"}


class Webhook:
    """An admission whose facts are told by the test, and a client as an API server is one."""

    def __init__(self) -> None:
        self.session: aiohttp.ClientSession
        self.reviewer = Reviewer(
            ClusterFacts(), lambda: CONF, None, SystemClock(), record=lambda _: None
        )

    def set_scene(self, case: AdmissionCase) -> None:
        facts = ClusterFacts(connected=lambda: True)
        told = ToldView(facts.view)
        scene = case.surroundings
        for name in ("default", "root"):
            told.seen("queue", {"metadata": {"name": name}, "status": {"state": "Open"}})
        for manifest in scene.queues:
            told.seen("queue", manifest)
        for queue, count in scene.allocated_pods.items():
            group = {"metadata": {"name": queue, "namespace": "x"}, "spec": {"queue": queue}}
            told.seen("vcpodgroup", group)
            for number in range(count):
                told.seen("pod", _bound_pod(f"{queue}-{number}", queue))
        metadata = {"name": case.namespace, "annotations": scene.namespace_annotations}
        told.seen("namespace", {"metadata": metadata})
        told.sync(KINDS)
        self.reviewer.facts = facts

    async def answer(self, path: str, body: bytes) -> Answer:
        return await self.reviewer.answer(path, body)

    async def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        url, data = f"{path}?timeout=5s", io.BytesIO(body)
        async with self.session.post(url, data=data, headers=JSON) as answer:
            return answer.status, await answer.read()

    async def submit(self, case: AdmissionCase) -> Outcome:
        self.set_scene(case)
        stored, message = case.object, ""
        for path in PATHS.values():
            if path.kind != case.kind or case.verb not in path.operations:
                continue
            status, body = await self.ask(path.path, review_body(review_of(case, stored)))
            assert status == 200, body
            response = msgspec.json.decode(body)["response"]
            if not response["allowed"]:
                message = response["status"]["message"]
                return Outcome(allowed=False, message=message)
            if "patch" in response:
                assert response["patchType"] == "JSONPatch"
                patch = msgspec.json.decode(base64.b64decode(response["patch"]))
                stored = jsonpatch.apply_patch(stored, patch)
        return Outcome(allowed=True, stored=stored)


def _bound_pod(name: str, group: str) -> dict[str, Any]:
    annotations = {"scheduling.k8s.io/group-name": group}
    return {
        "metadata": {"name": name, "namespace": "x", "annotations": annotations},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running"},
    }


def review_body(review: Review) -> bytes:
    request = {
        "uid": review.uid,
        "kind": {"kind": review.kind},
        "resource": msgspec.to_builtins(review.resource),
        "operation": review.operation,
        "namespace": review.namespace,
        "name": review.name,
        "object": review.object,
        "oldObject": review.old_object,
        "userInfo": msgspec.to_builtins(review.user_info),
        "dryRun": review.dry_run,
    }
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    authority = Authority(tmp_path)
    pair = authority.server()
    certificate = ServingCertificate(pair.certificate, pair.key)
    certificate.look()
    settings = HttpsSettings(port=0, certificate=pair.certificate, key=pair.key)
    made = Webhook()
    front = Front(settings, tuple(PATHS), made.answer, {})
    context = ssl.create_default_context(cafile=authority.certificate)
    async with (
        listening(front, settings, certificate.listening_context()) as listener,
        aiohttp.ClientSession(
            f"https://127.0.0.1:{listener.port}", connector=aiohttp.TCPConnector(ssl=context)
        ) as session,
    ):
        made.session = session
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
async def test_a_case_of_volcano_comes_out_as_it_does_there(webhook: Webhook, case: AdmissionCase):
    check(case, await webhook.submit(case))


async def test_before_the_cluster_was_read_the_answer_is_to_try_again(webhook: Webhook):
    case = next(each for each in CASES if each.kind == "Job" and not each.expect.refused)
    status, body = await webhook.ask("/jobs/validate", review_body(review_of(case)))

    response = msgspec.json.decode(body)["response"]
    assert (status, response["allowed"], response["status"]["code"]) == (200, False, 503)
    assert "try again" in response["status"]["message"]


async def test_old_knowledge_comes_with_a_warning(webhook: Webhook):
    case = next(each for each in CASES if each.kind == "Job" and not each.expect.refused)
    webhook.set_scene(case)
    webhook.reviewer.facts.connected = lambda: False
    _, body = await webhook.ask("/jobs/mutate", review_body(review_of(case)))

    response = msgspec.json.decode(body)["response"]
    assert response["allowed"]
    assert any("NATS" in warning for warning in response["warnings"])


DEEP = 100_000
BODIES = {
    "nothing": b"",
    "no JSON": b"\x00\xff\xfe",
    "another kind": b'{"apiVersion":"v1","kind":"Pod"}',
    "no request": b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
    "an old version": b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview",'
    b'"request":{"uid":"x"}}',
    "deep nesting": b"[" * DEEP + b"]" * DEEP,
    "a list": b"[]",
    "a broken surrogate": b'{"kind":"\\ud800"}',
}


@pytest.mark.parametrize("path", list(PATHS))
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_what_is_no_review_is_a_400_with_a_sentence(webhook: Webhook, path: str, body: bytes):
    status, answer = await webhook.ask(path, body)

    assert status == 400
    assert b"AdmissionReview" in answer


def _request(inner: bytes) -> bytes:
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",'
        b'"operation":"CREATE","namespace":"default","object":' + inner + b"}}"
    )


OBJECTS = {
    "null": b"null",
    "a number": b"1e308",
    "a huge number": b'{"spec":{"minAvailable":' + b"9" * 400 + b"}}",
    "deep nesting": b'{"spec":' + b"[" * 900 + b"]" * 900 + b"}",
    "NUL and Unicode": b'{"metadata":{"name":"\\u0000\\u202e\\ud83d\\ude00"},"spec":{"tasks":[]}}',
    "duplicate keys": b'{"spec":{"queue":"a","queue":"b"},"spec":{"tasks":[{}],"tasks":[]}}',
    "wrong types": b'{"metadata":[],"spec":{"tasks":{"a":[1]},"plugins":"x","policies":7}}',
    "three megabytes": b'{"spec":{"tasks":[],"queue":"' + b"q" * 2_900_000 + b'"}}',
}


@pytest.mark.parametrize("path", list(PATHS))
@pytest.mark.parametrize("inner", OBJECTS.values(), ids=OBJECTS)
async def test_any_object_gets_a_well_formed_answer(webhook: Webhook, path: str, inner: bytes):
    status, body = await webhook.ask(path, _request(inner))

    if status == 200:
        answer = msgspec.json.decode(body)
        assert answer["response"]["uid"] == "u"
        assert isinstance(answer["response"]["allowed"], bool)
    else:
        assert 400 <= status < 500, body
