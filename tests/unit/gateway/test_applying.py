"""What is said of a request that nobody answered: done, not done, or that nobody can know it."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.contracts.intents import (
    CreateObject,
    DeleteObject,
    EvictPod,
    GenerateSecret,
    PatchObject,
    PatchType,
)
from stromboli.contracts.outcomes import Reason
from stromboli.gateway import applying
from stromboli.gateway.applying import Applier, Done, Result, SingleIntent
from stromboli.gateway.deadlines import Permit
from stromboli.gateway.refusals import Refusal, Unclear
from stromboli.runtime.clock import SystemClock
from stromboli.testkit.scripted_objects import Answer, Scripted, an_object, scripted, status

OWNER = {"uid": "uid-job", "controller": True}
ENDING = "2026-01-01T00:00:00Z"


def common(kind: str = "pod", name: str = "a") -> dict[str, Any]:
    return {
        "id": "i",
        "key": "vcjob/ns/job",
        "service": "controllers",
        "kind": kind,
        "namespace": "ns",
        "name": name,
    }


def creation() -> CreateObject:
    manifest = {"metadata": {"name": "a", "namespace": "ns", "ownerReferences": [OWNER]}}
    return CreateObject(**common(), owner_uid="uid-job", manifest=msgspec.json.encode(manifest))


def patch(patch_type: PatchType = PatchType.MERGE, body: object = None) -> PatchObject:
    raw = msgspec.json.encode(body or {"metadata": {"labels": {"x": "y"}}})
    return PatchObject(**common(), uid="uid-a", patch=raw, patch_type=patch_type)


def deletion() -> DeleteObject:
    return DeleteObject(**common(), uid="uid-a")


def eviction() -> EvictPod:
    fields = common()
    del fields["kind"]
    return EvictPod(**fields, uid="uid-a")


def secret() -> GenerateSecret:
    fields = common(name="job-ssh")
    del fields["kind"]
    return GenerateSecret(
        **fields,
        recipe="ssh-key-pair",
        owner_kind="vcjob",
        owner_name="job",
        owner_uid="uid-job",
    )


REQUESTS = {
    "create": (creation(), "POST pods"),
    "patch": (patch(), "PATCH pods/a"),
    "delete": (deletion(), "DELETE pods/a"),
    "evict": (eviction(), "POST pods/a/eviction"),
}


def cut() -> Answer:
    return None


@dataclass
class Applying:
    api: Scripted
    applier: Applier = field(init=False)

    def __post_init__(self) -> None:
        self.applier = Applier(
            self.api.kube, random.Random(1), SystemClock(), lambda _kind, _key, _uid: ""
        )

    async def apply(
        self, intent: SingleIntent, seconds: float = 0.4, *, may_have_begun: bool = False
    ) -> Result:
        clock = SystemClock()
        until = clock.monotonic() + seconds
        return await self.applier.apply(intent, Permit(clock, until, lambda: True, may_have_begun))

    def executes(self, request: str, then: dict[str, Any] | None, *answers: Answer) -> None:
        """The request is executed (the object is like this then, or gone), and answered so."""
        name = "a" if request == "POST pods" else request.split()[1].split("/")[1]

        def react(answer: Answer) -> Answer:
            self.api.there.pop(f"pods/{name}", None)
            if then is not None:
                self.api.put("pods", then)
            return answer

        self.api.on(request, *[lambda answer=answer: react(answer) for answer in answers])


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Applying]:
    monkeypatch.setattr(applying, "_LOOK_S", 0.3)
    async with scripted(tmp_path) as server:
        yield Applying(server)


def already(version: str) -> Done:
    return Done(uid="uid-a", resource_version=version, already=True)


# Nobody answered.


@pytest.mark.parametrize("verb", sorted(REQUESTS))
async def test_what_was_not_answered_and_does_not_show_is_uncertain(api: Applying, verb: str):
    intent, request = REQUESTS[verb]
    if verb != "create":
        api.api.put("pods", an_object("a"))
    api.api.on(request, cut)
    result = await api.apply(intent)

    assert isinstance(result, Unclear)
    assert "no answer from the API server" in result.message


@pytest.mark.parametrize("verb", sorted(REQUESTS))
async def test_what_can_not_even_be_looked_up_is_uncertain(api: Applying, verb: str):
    intent, request = REQUESTS[verb]
    api.api.on(request, cut)
    api.api.on("GET pods/a", cut)

    assert isinstance(await api.apply(intent), Unclear)


async def test_a_creation_without_an_answer_is_found_out(api: Applying):
    api.executes("POST pods", an_object("a", version=7, ownerReferences=[OWNER]), None)

    assert await api.apply(creation()) == already("7")


async def test_an_object_of_somebody_else_is_not_what_was_created(api: Applying):
    owner = {"uid": "uid-another", "controller": True}
    api.executes("POST pods", an_object("a", ownerReferences=[owner]), None)

    assert isinstance(await api.apply(creation()), Unclear)


@pytest.mark.parametrize("request_of", ["DELETE pods/a", "POST pods/a/eviction"])
@pytest.mark.parametrize(
    ("then", "version"),
    [
        (None, ""),
        (an_object("a", "uid-successor", version=8), ""),
        (an_object("a", version=9, deletionTimestamp=ENDING), "9"),
    ],
    ids=["gone", "replaced", "ending"],
)
async def test_a_deletion_or_an_eviction_without_an_answer_is_found_out(
    api: Applying, request_of: str, then: dict[str, Any] | None, version: str
):
    api.api.put("pods", an_object("a"))
    api.executes(request_of, then, None)
    intent = deletion() if request_of.startswith("DELETE") else eviction()

    assert await api.apply(intent) == already(version)


async def test_a_json_patch_that_holds_already_is_found_out(api: Applying):
    api.api.put("pods", an_object("a"))
    done = an_object("a", version=7, labels={"x": "y"})
    api.executes("PATCH pods/a", done, None)
    wish = patch(PatchType.JSON, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}])

    assert await api.apply(wish) == already("7")


async def test_a_json_patch_that_does_not_hold_is_uncertain(api: Applying):
    api.api.put("pods", an_object("a"))
    api.api.on("PATCH pods/a", cut)
    wish = patch(PatchType.JSON, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}])

    assert isinstance(await api.apply(wish), Unclear)


# An answer came, but not to the first try.


async def test_a_second_try_that_finds_the_first_ones_object_is_a_success(api: Applying):
    ours = an_object("a", version=7, ownerReferences=[OWNER])
    api.executes("POST pods", ours, None, status(409, "AlreadyExists"))

    assert await api.apply(creation()) == already("7")


async def test_a_second_try_that_finds_nothing_more_to_delete_is_a_success(api: Applying):
    api.api.put("pods", an_object("a"))
    gone = {"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "a"}}
    api.executes("DELETE pods/a", None, None, (404, gone))

    assert await api.apply(deletion()) == already("")


@pytest.mark.parametrize("verb", sorted(REQUESTS))
async def test_a_refusal_does_not_settle_what_an_earlier_try_may_still_do(api: Applying, verb: str):
    intent, request = REQUESTS[verb]
    api.api.put("pods", an_object("a"))
    # The HTTP library repeats a DELETE once by itself, and says nothing of it.
    api.api.on(request, cut, cut, lambda: status(403, "Forbidden"))

    assert isinstance(await api.apply(intent), Unclear)


@pytest.mark.parametrize("verb", sorted(REQUESTS))
async def test_a_refusal_of_the_only_try_is_certain(api: Applying, verb: str):
    intent, request = REQUESTS[verb]
    api.api.put("pods", an_object("a"))
    api.api.on(request, lambda: status(403, "Forbidden"))
    result = await api.apply(intent)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.FORBIDDEN


@pytest.mark.parametrize("verb", sorted(REQUESTS))
async def test_a_refusal_of_what_a_dead_gateway_may_have_begun_is_not_certain(
    api: Applying, verb: str
):
    intent, request = REQUESTS[verb]
    api.api.put("pods", an_object("a"))
    api.api.on(request, lambda: status(403, "Forbidden"))

    assert isinstance(await api.apply(intent, may_have_begun=True), Unclear)


# Nothing was sent.


@pytest.mark.parametrize("verb", sorted(REQUESTS))
async def test_what_was_never_tried_is_refused(api: Applying, verb: str):
    result = await api.apply(REQUESTS[verb][0], seconds=-1)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.EXPIRED
    assert api.api.asked == []


@pytest.mark.parametrize("verb", sorted(REQUESTS))
async def test_what_a_dead_gateway_may_have_begun_is_not_refused_for_want_of_time(
    api: Applying, verb: str
):
    intent, _ = REQUESTS[verb]
    if verb != "create":
        api.api.put("pods", an_object("a"))
    result = await api.apply(intent, seconds=-1, may_have_begun=True)

    assert isinstance(result, Unclear)
    assert [one.split()[0] for one in api.api.asked] == ["GET"]


@pytest.mark.parametrize("answer", [None, status(503, "ServiceUnavailable")], ids=["cut", "503"])
async def test_a_question_without_an_answer_has_done_nothing(api: Applying, answer: Answer):
    """Before a key pair is made, the API server is only asked whether there is one."""
    api.api.on("GET secrets/job-ssh", lambda: answer)
    result = await api.apply(secret())

    assert isinstance(result, Refusal)
    assert result.reason is Reason.EXPIRED
