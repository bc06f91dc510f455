"""Admission webhooks that refuse, fail, are slow, lie or are overtaken."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api.kinds import CONFIG_MAP
from stromboli.kube import KubeClient, PatchType
from stromboli.kube.errors import ApiError, Conflict
from stromboli.kube.paths import object_path, resource_path
from stromboli.testkit.manifests import (
    Manifest,
    config_map,
    decoded,
)
from stromboli.testkit.webhook_registry import ME, Registry, relabel, rule, setting
from stromboli.testkit.webhook_server import (
    MUTATING,
    VALIDATING,
    WebhookServer,
    allowed,
    denied,
    registered,
    webhook,
    webhook_server,
)

JSON = "application/json"


@pytest.mark.parametrize(
    ("answer", "code", "reason", "told"),
    [
        (denied("too big"), 400, None, "denied the request: too big"),
        (denied("no", code=403, reason="Forbidden"), 403, "Forbidden", "denied the request: no"),
        (denied(reason="Quota"), 400, "Quota", "denied the request: Quota"),
        (denied(), 400, None, "denied the request without explanation"),
        (denied("odd", code=200), 400, None, "denied the request: odd"),
    ],
    ids=["message", "code", "reason", "silent", "success-code"],
)
@pytest.mark.parametrize("kind", [MUTATING, VALIDATING], ids=["mutating", "validating"])
async def test_a_refusal_is_told_in_the_webhooks_words(
    kube: KubeClient,
    hook: WebhookServer,
    namespace: str,
    kind: Any,
    answer: Manifest,
    code: int,
    reason: str | None,
    told: str,
) -> None:
    hook.answers["/no"] = lambda _: answer
    entry = webhook(hook, "/no", namespace=namespace, rules=[rule("configmaps", "UPDATE")])
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    async with registered(kube, hook, namespace, kind, entry):
        refusal = await kube.transport.exchange(
            "PATCH",
            object_path(CONFIG_MAP, namespace, "a"),
            body=b'{"data":{"x":"1"}}',
            content_type=PatchType.MERGE.value,
        )

    status = decoded(refusal.body)
    assert refusal.code == code
    assert status["message"] == f'admission webhook "no.test.stromboli.sh" {told}'
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code)
    assert status.get("reason") == reason
    assert not decoded(await kube.get(CONFIG_MAP, namespace, "a")).get("data")


async def test_every_judge_is_heard_and_one_refusal_is_enough(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    """They are asked at the same time: none can wait for another's turn."""
    both = asyncio.Barrier(2)

    async def yes(_: Manifest) -> Manifest:
        async with asyncio.timeout(5):
            await both.wait()
        return allowed()

    async def no(_: Manifest) -> Manifest:
        async with asyncio.timeout(5):
            await both.wait()
        return denied("not this one")

    hook.answers["/yes"], hook.answers["/no"] = yes, no
    rules = [rule("configmaps", "CREATE")]
    await registry.validating(registry.entry("/yes", rules), registry.entry("/no", rules))
    with pytest.raises(ApiError, match="not this one"):
        await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)

    assert await kube.get_or_none(CONFIG_MAP, namespace, "a") is None


async def test_warnings_are_passed_on_with_the_answer(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    hook.answers["/warn"] = lambda _: allowed(warnings=['a "quoted" one', "another"])
    hook.answers["/refuse"] = lambda _: {**denied("no"), "warnings": ["beside a refusal"]}
    await registry.validating(
        registry.entry("/warn", [rule("configmaps", "CREATE")]),
        registry.entry("/refuse", [rule("configmaps", "DELETE")]),
    )
    path = resource_path(CONFIG_MAP, namespace)
    body = msgspec.json.encode(config_map("a"))
    made = await kube.transport.exchange("POST", path, body=body, content_type=JSON)
    refused = await kube.transport.exchange("DELETE", f"{path}/a")

    told = made.headers.getall("Warning")  # pyright: ignore[reportAttributeAccessIssue]
    assert told == [r'299 - "a \"quoted\" one"', '299 - "another"']
    assert refused.headers["Warning"] == '299 - "beside a refusal"'


async def test_who_does_not_answer_in_time_fails_the_request(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    late = asyncio.Event()

    async def never(_: Manifest) -> Manifest:
        await late.wait()
        return allowed()

    hook.answers["/slow"] = never
    await registry.mutating(
        registry.entry("/slow", [rule("configmaps", "UPDATE")], timeoutSeconds=1)
    )
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    with pytest.raises(ApiError) as caught:
        await relabel(kube, namespace, "a", x="1")
    late.set()

    assert (caught.value.code, caught.value.reason) == (500, "InternalError")
    start = 'Internal error occurred: failed calling webhook "slow.test.stromboli.sh": '
    url = hook.url("/slow")
    assert caught.value.message == (
        f'{start}failed to call webhook: Post "{url}?timeout=1s": context deadline exceeded'
    )
    assert hook.queries == ["timeout=1s"]


async def test_who_cannot_be_reached_fails_the_request(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    client = {"url": "https://127.0.0.1:1/x", "caBundle": hook.ca_bundle}
    rules = [rule("configmaps", "UPDATE")]
    await registry.validating(registry.entry("/gone", rules, clientConfig=client))
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    with pytest.raises(ApiError) as caught:
        await relabel(kube, namespace, "a", x="1")

    assert (caught.value.code, caught.value.reason) == (500, "InternalError")
    assert caught.value.message == (
        'Internal error occurred: failed calling webhook "gone.test.stromboli.sh": failed to call'
        ' webhook: Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect:'
        " connection refused"
    )


async def test_a_certificate_of_somebody_else_is_not_believed(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry, tmp_path: Path
) -> None:
    async with webhook_server(tmp_path / "other") as other:
        client = {"url": hook.url("/x"), "caBundle": other.ca_bundle}
        rules = [rule("configmaps", "UPDATE")]
        await registry.validating(registry.entry("/other", rules, clientConfig=client))
        await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
        with pytest.raises(ApiError) as caught:
            await relabel(kube, namespace, "a", x="1")

    assert caught.value.code == 500
    start = f'failed to call webhook: Post "{hook.url("/x")}?timeout=10s": tls: failed to verify'
    assert f"{start} certificate: x509: certificate signed by unknown authority" in (
        caught.value.message
    )
    assert hook.seen("/x") == []


async def test_a_failure_can_be_ignored(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    client = {"url": "https://127.0.0.1:1/x", "caBundle": hook.ca_bundle}
    hook.raw["/nonsense"] = b'{"not": "a review"}'
    rules = [rule("configmaps", "UPDATE")]
    entries = [
        registry.entry("/gone", rules, clientConfig=client, failurePolicy="Ignore"),
        registry.entry("/nonsense", rules, failurePolicy="Ignore"),
    ]
    await registry.mutating(*entries)
    await registry.validating(*entries)
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)

    assert (await relabel(kube, namespace, "a", x="1"))["data"] == {"x": "1"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({}, "webhook response was absent"),
        ({"response": {"uid": "other", "allowed": True}}, 'got "other"'),
    ],
    ids=["empty", "uid"],
)
async def test_an_answer_that_is_none_fails_the_request(
    kube: KubeClient,
    hook: WebhookServer,
    namespace: str,
    registry: Registry,
    answer: Manifest,
    told: str,
) -> None:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **answer}
    hook.raw["/odd"] = msgspec.json.encode(review)
    await registry.validating(registry.entry("/odd", [rule("configmaps", "UPDATE")]))
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    with pytest.raises(ApiError) as caught:
        await relabel(kube, namespace, "a", x="1")

    assert caught.value.code == 500
    start = 'Internal error occurred: failed calling webhook "odd.test.stromboli.sh": '
    assert caught.value.message.startswith(f"{start}received invalid webhook response: ")
    assert told in caught.value.message


async def test_an_answer_that_comes_in_many_pieces_is_read_to_its_end(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    """No connection carries so much at once; jobs of a thousand tasks have such answers."""
    hook.answers["/long"] = lambda _: {**setting("by", "long"), "padding": "x" * 2_000_000}
    await registry.mutating(registry.entry("/long", [rule("configmaps", "CREATE")]))
    made = await kube.create(
        CONFIG_MAP, namespace, config_map("a", {"other": "1"}), field_manager=ME
    )

    assert decoded(made.raw)["data"]["by"] == "long"


async def test_an_update_that_was_overtaken_during_the_review_is_a_conflict(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    made = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)

    async def meddle(review: Manifest) -> Manifest:
        if review["object"]["data"] == {"from": "put"}:
            await relabel(kube, namespace, "a", other="1")
        return allowed()

    hook.answers["/meddle"] = meddle
    await registry.validating(registry.entry("/meddle", [rule("configmaps", "UPDATE")]))
    body = decoded(made.raw)
    body["data"] = {"from": "put"}
    with pytest.raises(Conflict) as caught:
        await kube.transport.send(
            "PUT",
            object_path(CONFIG_MAP, namespace, "a"),
            body=msgspec.json.encode(body),
            content_type=JSON,
        )

    assert "the object has been modified" in caught.value.message
    assert decoded(await kube.get(CONFIG_MAP, namespace, "a"))["data"] == {"other": "1"}


async def test_a_patch_that_was_overtaken_is_made_on_what_is_there_now(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    meddled: list[int] = []

    async def meddle(review: Manifest) -> Manifest:
        if review["object"]["data"] == {"mine": "1"} and not meddled:
            meddled.append(1)
            await relabel(kube, namespace, "a", other="1")
        return allowed()

    hook.answers["/meddle"] = meddle
    await registry.validating(registry.entry("/meddle", [rule("configmaps", "UPDATE")]))
    after = await relabel(kube, namespace, "a", mine="1")

    assert after["data"] == {"mine": "1", "other": "1"}
    assert hook.seen("/meddle")[-1]["object"]["data"] == {"mine": "1", "other": "1"}


async def test_connections_are_kept(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    await registry.mutating(registry.entry("/ask", [rule("configmaps", "CREATE")]))
    before = hook.connections
    for number in range(20):
        await kube.create(CONFIG_MAP, namespace, config_map(f"c{number}"), field_manager=ME)

    assert len(hook.seen("/ask")) == 20
    assert hook.connections - before <= 1


async def test_a_service_that_is_not_there_is_named(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    service = {"name": "hooks", "namespace": namespace, "path": "/x"}
    client = {"service": service, "caBundle": hook.ca_bundle}
    rules = [rule("configmaps", "UPDATE")]
    await registry.validating(registry.entry("/service", rules, clientConfig=client))
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    with pytest.raises(ApiError) as caught:
        await relabel(kube, namespace, "a", x="1")

    assert caught.value.code == 500
    assert caught.value.message.endswith(
        f'Post "https://hooks.{namespace}.svc:443/x?timeout=10s": service "hooks" not found'
    )
