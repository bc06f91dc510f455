"""Admission webhooks: what they are told, in which order, and what their answers do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api.kinds import CONFIG_MAP, POD, SERVICE, VC_POD_GROUP
from stromboli.kube import KubeClient, PatchType, Resource
from stromboli.kube.errors import ApiError, Conflict, Invalid, NotFound
from stromboli.kube.paths import object_path, resource_path
from stromboli.testkit.manifests import (
    Manifest,
    config_map,
    decoded,
    named,
    pod,
    pod_group,
    unique,
)
from stromboli.testkit.waiting import eventually
from stromboli.testkit.webhook_server import (
    MUTATING,
    VALIDATING,
    WebhookServer,
    allowed,
    configuration,
    denied,
    json_patch,
    registered,
    webhook,
    webhook_server,
)

ME = "contract"
JSON = "application/json"
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[WebhookServer]:
    async with webhook_server(tmp_path) as server:
        yield server


def rule(resources: str, *operations: str, group: str = "", version: str = "v1") -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations) or ["*"],
        "resources": [resources],
    }


def setting(key: str, value: str) -> Manifest:
    """The answer that sets a key of a config map."""
    return json_patch({"op": "add", "path": f"/data/{key}", "value": value})


class Registry:
    """Configurations of one test."""

    def __init__(
        self, stack: AsyncExitStack, kube: KubeClient, hook: WebhookServer, namespace: str
    ) -> None:
        self._stack = stack
        self._kube = kube
        self._hook = hook
        self._namespace = namespace

    def entry(self, path: str, rules: list[Manifest], **fields: Any) -> Manifest:
        return webhook(self._hook, path, namespace=self._namespace, rules=rules, **fields)

    async def mutating(self, *entries: Manifest, name: str = "") -> None:
        await self._stack.enter_async_context(
            registered(self._kube, self._hook, self._namespace, MUTATING, *entries, name=name)
        )

    async def validating(self, *entries: Manifest) -> None:
        await self._stack.enter_async_context(
            registered(self._kube, self._hook, self._namespace, VALIDATING, *entries)
        )


@pytest.fixture
async def registry(
    kube: KubeClient, hook: WebhookServer, namespace: str
) -> AsyncIterator[Registry]:
    async with AsyncExitStack() as stack:
        yield Registry(stack, kube, hook, namespace)


async def relabel(kube: KubeClient, namespace: str, name: str, **data: str) -> Manifest:
    written = await kube.patch(
        CONFIG_MAP,
        namespace,
        name,
        {"data": data},
        patch_type=PatchType.MERGE,
        field_manager=ME,
    )
    return decoded(written.raw)


async def test_a_new_object_is_shown_before_and_after_the_server_filled_it_in(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    """Who may change it sees what was sent with its defaults; who may refuse sees all of it."""
    await registry.mutating(registry.entry("/change", [rule("pods", "CREATE")]))
    await registry.validating(registry.entry("/judge", [rule("pods", "CREATE")]))
    body = pod("unused")
    body["metadata"] = {"generateName": "gen-", "uid": "mine"}
    written = await kube.create(POD, namespace, body, field_manager=ME)

    [before], [after] = hook.seen("/change"), hook.seen("/judge")
    for review in (before, after):
        assert review["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
        assert review["resource"] == {"group": "", "version": "v1", "resource": "pods"}
        assert (review["requestKind"], review["requestResource"]) == (
            review["kind"],
            review["resource"],
        )
        assert (review["operation"], review["namespace"]) == ("CREATE", namespace)
        assert (review["dryRun"], review["oldObject"]) == (False, None)
        assert review["options"] == {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": ME,
        }
        assert "system:masters" in review["userInfo"]["groups"]
        assert "subResource" not in review
        assert review["object"]["spec"]["restartPolicy"] == "Always"
        assert review["object"]["spec"]["priority"] == 0
    first, last = before["object"]["metadata"], after["object"]["metadata"]
    assert "name" not in before
    assert not {"name", "uid", "creationTimestamp"} & first.keys()
    assert "phase" not in before["object"].get("status", {})
    assert (after["name"], last["name"], last["uid"]) == (written.name, written.name, written.uid)
    assert last["creationTimestamp"]
    assert "resourceVersion" not in last
    assert after["object"]["status"]["phase"] == "Pending"
    assert before["uid"] != after["uid"]


async def test_an_update_is_shown_with_what_it_replaces(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    created = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    await registry.validating(registry.entry("/judge", [rule("configmaps", "UPDATE")]))
    await relabel(kube, namespace, "a", x="1")

    [review] = hook.seen("/judge")
    assert (review["operation"], review["name"]) == ("UPDATE", "a")
    assert review["object"]["data"] == {"x": "1"}
    assert not review["oldObject"].get("data")
    assert review["oldObject"]["metadata"]["uid"] == created.uid
    assert review["object"]["metadata"]["uid"] == created.uid
    assert review["options"]["kind"] == "UpdateOptions"


async def test_a_deletion_is_shown_with_what_will_be_gone(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    for name in ("a", "b"):
        await kube.create(CONFIG_MAP, namespace, config_map(name), field_manager=ME)
    hook.answers["/judge"] = lambda review: (
        denied("it is needed") if review["oldObject"]["metadata"]["name"] == "a" else allowed()
    )
    await registry.validating(registry.entry("/judge", [rule("configmaps", "DELETE")]))
    with pytest.raises(ApiError) as caught:
        await kube.delete(CONFIG_MAP, namespace, "a", propagation="Orphan")
    await kube.delete(CONFIG_MAP, namespace, "b")

    assert caught.value.message == (
        'admission webhook "judge.test.stromboli.sh" denied the request: it is needed'
    )
    review = hook.seen("/judge")[0]
    assert (review["operation"], review["name"], review["object"]) == ("DELETE", "a", None)
    assert review["options"]["propagationPolicy"] == "Orphan"
    assert await kube.get_or_none(CONFIG_MAP, namespace, "a") is not None
    assert await kube.get_or_none(CONFIG_MAP, namespace, "b") is None


async def test_a_collections_deletion_is_asked_for_object_by_object(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    labels = {"gone": "soon"}
    for name in ("a", "b"):
        await kube.create(CONFIG_MAP, namespace, config_map(name, labels=labels), field_manager=ME)
    await registry.validating(registry.entry("/judge", [rule("configmaps", "DELETE")]))
    await kube.transport.send(
        "DELETE", resource_path(CONFIG_MAP, namespace), query={"labelSelector": "gone=soon"}
    )

    seen = hook.seen("/judge")
    assert sorted(one["oldObject"]["metadata"]["name"] for one in seen) == ["a", "b"]
    assert not any("name" in one for one in seen)


async def test_changes_are_made_in_the_order_of_the_configurations_names(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    hook.answers["/one"] = lambda _: setting("first", "one")
    hook.answers["/two"] = lambda review: setting("second", review["object"]["data"]["first"])
    rules = [rule("configmaps", "CREATE")]
    prefix = unique("order")
    await registry.mutating(registry.entry("/two", rules), name=f"{prefix}-b")
    await registry.mutating(registry.entry("/one", rules), name=f"{prefix}-a")
    written = await kube.create(
        CONFIG_MAP, namespace, config_map("a", {"x": "y"}), field_manager=ME
    )

    assert decoded(written.raw)["data"] == {"x": "y", "first": "one", "second": "one"}
    assert [review["path"] for review in hook.reviews] == ["/one", "/two"]


async def test_who_wants_to_be_is_asked_again_about_later_changes(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    hook.answers["/late"] = lambda _: setting("late", "1")
    rules = [rule("configmaps", "CREATE")]
    await registry.mutating(
        registry.entry("/again", rules, reinvocationPolicy="IfNeeded"),
        registry.entry("/once", rules),
        registry.entry("/late", rules, reinvocationPolicy="IfNeeded"),
    )
    await kube.create(CONFIG_MAP, namespace, config_map("a", {"x": "y"}), field_manager=ME)

    assert [review["path"] for review in hook.reviews] == ["/again", "/once", "/late", "/again"]
    assert hook.seen("/again")[1]["object"]["data"] == {"x": "y", "late": "1"}


async def test_what_a_webhook_made_is_validated(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    hook.answers["/pods"] = lambda _: json_patch(
        {"op": "replace", "path": "/spec/restartPolicy", "value": "Sometimes"}
    )
    hook.answers["/groups"] = lambda _: json_patch(
        {"op": "replace", "path": "/spec/minMember", "value": "three"}
    )
    groups = rule("podgroups", group="scheduling.volcano.sh", version="v1beta1")
    await registry.mutating(
        registry.entry("/pods", [rule("pods", "CREATE")]), registry.entry("/groups", [groups])
    )
    with pytest.raises(Invalid) as caught:
        await kube.create(POD, namespace, pod("a"), field_manager=ME)
    assert caught.value.causes[0].field == "spec.restartPolicy"
    with pytest.raises(Invalid) as caught:
        await kube.create(VC_POD_GROUP, namespace, pod_group("a"), field_manager=ME)
    assert caught.value.causes[0].field == "spec.minMember"


async def test_what_a_webhook_left_out_gets_its_default(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    container = {"name": "side", "image": "busybox"}
    hook.answers["/add"] = lambda _: json_patch(
        {"op": "add", "path": "/spec/containers/-", "value": container}
    )
    await registry.mutating(registry.entry("/add", [rule("pods", "CREATE")]))
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)

    side = decoded(written.raw)["spec"]["containers"][1]
    assert (side["name"], side["terminationMessagePolicy"]) == ("side", "File")


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


async def test_a_dry_run_says_that_it_is_one(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    hook.answers["/change"] = lambda _: setting("changed", "yes")
    await registry.mutating(registry.entry("/change", [rule("configmaps")]))
    written = await kube.create(
        CONFIG_MAP, namespace, config_map("a", {"x": "y"}), field_manager=ME, dry_run=True
    )

    [review] = hook.seen("/change")
    assert review["dryRun"] is True
    assert review["options"]["dryRun"] == ["All"]
    assert decoded(written.raw)["data"]["changed"] == "yes"
    assert await kube.get_or_none(CONFIG_MAP, namespace, "a") is None


async def test_selectors_say_which_objects_it_is_asked_about(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    labelled = {"matchLabels": {"watched": "yes"}}
    nowhere = {"matchLabels": {"no": "such-namespace"}}
    rules = [rule("configmaps")]
    await registry.validating(
        registry.entry("/labelled", rules, objectSelector=labelled),
        registry.entry("/nowhere", rules, namespaceSelector=nowhere),
    )
    await kube.create(CONFIG_MAP, namespace, config_map("plain"), field_manager=ME)
    watched = config_map("watched", labels={"watched": "yes"})
    await kube.create(CONFIG_MAP, namespace, watched, field_manager=ME)
    # A change that takes the label off is still about an object that had it.
    await kube.patch(
        CONFIG_MAP,
        namespace,
        "watched",
        {"metadata": {"labels": None}},
        patch_type=PatchType.MERGE,
        field_manager=ME,
    )
    await relabel(kube, namespace, "watched", x="1")

    assert [(one["operation"], one["name"]) for one in hook.seen("/labelled")] == [
        ("CREATE", "watched"),
        ("UPDATE", "watched"),
    ]
    assert hook.seen("/nowhere") == []


async def test_rules_name_resources_and_their_parts(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    await registry.validating(
        registry.entry("/pods", [rule("pods")]),
        registry.entry("/binding", [rule("pods/binding")]),
        registry.entry("/parts", [rule("pods/*")]),
        registry.entry("/all", [rule("*")]),
        registry.entry("/cluster", [{**rule("*/*"), "scope": "Cluster"}]),
    )
    made = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    await kube.patch(
        POD,
        namespace,
        "a",
        {"status": {"message": "x"}},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )
    await kube.bind(namespace, "a", uid=made.uid, node="n1")
    seen = [(one["path"], one["operation"], one.get("subResource", "")) for one in hook.reviews]

    assert sorted(seen) == [
        ("/all", "CREATE", ""),
        ("/binding", "CREATE", "binding"),
        ("/parts", "CREATE", ""),
        ("/parts", "CREATE", "binding"),
        ("/parts", "UPDATE", "status"),
        ("/pods", "CREATE", ""),
    ]
    [binding] = hook.seen("/binding")
    assert binding["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert binding["resource"]["resource"] == "pods"
    assert binding["object"]["target"]["name"] == "n1"
    assert binding["object"]["metadata"]["uid"] == made.uid


async def test_a_binding_can_be_refused(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    hook.answers["/no"] = lambda _: denied("not there")
    await registry.validating(registry.entry("/no", [rule("pods/binding")]))
    made = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    with pytest.raises(ApiError, match="denied the request: not there"):
        await kube.bind(namespace, "a", uid=made.uid, node="n1")

    assert "nodeName" not in decoded(await kube.get(POD, namespace, "a"))["spec"]


async def test_an_eviction_is_asked_about_as_an_eviction(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    made = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    await registry.validating(
        registry.entry("/pods", [rule("pods", "DELETE")]),
        registry.entry("/evictions", [rule("pods/eviction")]),
    )
    await kube.evict(namespace, "a", uid=made.uid)

    [review] = hook.reviews
    assert (review["path"], review["subResource"]) == ("/evictions", "eviction")
    assert review["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert await kube.get_or_none(POD, namespace, "a") is None


async def test_conditions_say_when_it_is_asked(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    wants = [
        {"name": "named", "expression": "object.metadata.name.startsWith('ask-')"},
        {"name": "not-me", "expression": "request.userInfo.username != 'nobody'"},
        {"name": "new", "expression": "oldObject == null"},
    ]
    broken = [{"name": "broken", "expression": "object.no.such.field == 'x'"}]
    rules = [rule("configmaps", "CREATE")]
    await registry.validating(
        registry.entry("/wants", rules, matchConditions=wants),
        registry.entry("/open", rules, matchConditions=broken, failurePolicy="Ignore"),
    )
    await kube.create(CONFIG_MAP, namespace, config_map("plain"), field_manager=ME)
    await kube.create(CONFIG_MAP, namespace, config_map("ask-me"), field_manager=ME)

    assert [(one["path"], one["name"]) for one in hook.reviews] == [("/wants", "ask-me")]


async def test_a_condition_that_cannot_be_evaluated_fails_the_request(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    broken = [{"name": "broken", "expression": "object.no.such.field == 'x'"}]
    rules = [rule("configmaps", "UPDATE")]
    await registry.validating(registry.entry("/broken", rules, matchConditions=broken))
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    with pytest.raises(ApiError) as caught:
        await relabel(kube, namespace, "a", x="1")

    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.message == (
        f"configmaps \"a\" is forbidden: expression '{broken[0]['expression']}' resulted in error:"
        " no such key: no"
    )
    assert hook.seen("/broken") == []


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


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"admissionReviewVersions": ["v9"]}, "webhooks[0].admissionReviewVersions"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {"url": "http://127.0.0.1/"}}, "webhooks[0].clientConfig.url"),
        ({"failurePolicy": "Maybe"}, "webhooks[0].failurePolicy"),
        (
            {"rules": [{**rule("pods"), "operations": ["LOOK"]}]},
            "webhooks[0].rules[0].operations[0]",
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "object.("}]},
            "webhooks[0].matchConditions[0].expression",
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "'text'"}]},
            "webhooks[0].matchConditions[0].expression",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_configuration_that_could_never_work_is_refused(
    kube: KubeClient, hook: WebhookServer, namespace: str, change: Manifest, field: str
) -> None:
    entry = {**webhook(hook, "/x", namespace=namespace, rules=[rule("pods")]), **change}
    with pytest.raises(Invalid) as caught:
        await kube.create(
            VALIDATING, None, configuration(VALIDATING, unique("bad"), entry), field_manager=ME
        )

    assert [cause.field for cause in caught.value.causes] == [field]


async def test_a_configuration_gets_its_defaults(
    kube: KubeClient, hook: WebhookServer, namespace: str
) -> None:
    entry = webhook(hook, "/x", namespace=namespace, rules=[rule("pods")])
    del entry["namespaceSelector"], entry["objectSelector"]
    entry["rules"][0]["resources"] = ["nothing-like-it"]
    for kind in (MUTATING, VALIDATING):
        name = unique("defaults")
        written = await kube.create(kind, None, configuration(kind, name, entry), field_manager=ME)
        await kube.delete(kind, None, name)

        [shown] = decoded(written.raw)["webhooks"]
        assert (shown["failurePolicy"], shown["matchPolicy"]) == ("Fail", "Equivalent")
        assert (shown["timeoutSeconds"], shown["rules"][0]["scope"]) == (10, "*")
        assert (shown["namespaceSelector"], shown["objectSelector"]) == ({}, {})
        assert shown.get("reinvocationPolicy") == ("Never" if kind == MUTATING else None)
        assert decoded(written.raw)["metadata"]["generation"] == 1


async def test_other_versions_of_a_resource_count_as_the_one_it_asked_for(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    """By default; with matchPolicy Exact it hears only of the version in its rules."""
    group = f"{unique('g')}.stromboli.sh"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema}
        for name in ("v1", "v2")
    ]
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "singular": "thing"},
            "versions": versions,
        },
    }
    await kube.create(DEFINITIONS, None, definition, field_manager=ME)
    things = Resource(group, "v2", "things", namespaced=True)
    await eventually(lambda: kube.serves(things), deadline_s=20)
    hook.answers["/change"] = lambda _: json_patch({"op": "add", "path": "/changed", "value": "y"})
    rules = [rule("things", group=group, version="v1")]
    await registry.mutating(
        registry.entry("/change", rules), registry.entry("/exact", rules, matchPolicy="Exact")
    )
    body = {"apiVersion": f"{group}/v2", "kind": "Thing", "metadata": {"name": "a"}}

    async def created() -> Manifest | None:
        # A definition that was just made may not be usable yet.
        try:
            return decoded((await kube.create(things, namespace, body, field_manager=ME)).raw)
        except NotFound:
            return None

    made = await eventually(created, deadline_s=20)
    await kube.delete(DEFINITIONS, None, f"things.{group}")

    [review] = [one for one in hook.reviews if one["operation"] == "CREATE"]
    assert review["path"] == "/change"
    assert review["kind"] == {"group": group, "version": "v1", "kind": "Thing"}
    assert review["requestKind"] == {"group": group, "version": "v2", "kind": "Thing"}
    assert review["resource"]["version"] == "v1"
    assert review["requestResource"]["version"] == "v2"
    assert review["object"]["apiVersion"] == f"{group}/v1"
    assert (made["apiVersion"], made["changed"]) == (f"{group}/v2", "y")


async def test_connections_through_the_proxy_can_be_refused(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    hook.answers["/no"] = lambda _: denied("stay out")
    rules = [rule("services/proxy", "CONNECT")]
    # What is connected to has no labels, so that a selector of labels would never match.
    await registry.validating(registry.entry("/no", rules, objectSelector={}))
    service = named("v1", "Service", "web", spec={"ports": [{"port": 80}]})
    await kube.create(SERVICE, namespace, service, field_manager=ME)
    with pytest.raises(ApiError, match="denied the request: stay out"):
        await kube.transport.send(
            "GET", f"/api/v1/namespaces/{namespace}/services/web/proxy/some/path"
        )

    [review] = hook.seen("/no")
    assert (review["operation"], review["subResource"]) == ("CONNECT", "proxy")
    assert review["kind"]["kind"] == "ServiceProxyOptions"
    assert review["object"]["path"] == "/some/path"


async def test_a_scale_is_asked_about_as_a_scale(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "b"}]},
    }
    body = named(
        "apps/v1",
        "Deployment",
        "web",
        spec={"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    )
    deployments = Resource("apps", "v1", "deployments", namespaced=True)
    await kube.create(deployments, namespace, body, field_manager=ME)
    hook.answers["/scale"] = lambda _: json_patch(
        {"op": "replace", "path": "/spec/replicas", "value": 7}
    )
    await registry.mutating(
        registry.entry("/scale", [rule("deployments/scale", "UPDATE", group="apps")]),
        registry.entry("/whole", [rule("deployments", "UPDATE", group="apps")]),
    )
    await kube.patch(
        deployments,
        namespace,
        "web",
        {"spec": {"replicas": 3}},
        patch_type=PatchType.MERGE,
        subresource="scale",
        field_manager=ME,
    )

    [review] = hook.reviews
    assert review["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert review["object"]["spec"]["replicas"] == 3
    assert review["oldObject"]["spec"]["replicas"] == 1
    assert decoded(await kube.get(deployments, namespace, "web"))["spec"]["replicas"] == 7


async def test_configurations_are_not_asked_about(
    kube: KubeClient, hook: WebhookServer, namespace: str, registry: Registry
) -> None:
    """A webhook that refused everything could otherwise never be taken away."""
    everything = {**rule("*", group="*", version="*"), "scope": "Cluster"}
    hook.answers["/no"] = lambda _: denied("never")
    entry = registry.entry("/no", [everything], failurePolicy="Fail")
    name = unique("other")
    await registry.validating(
        {**entry, "matchConditions": [{"name": "a", "expression": f"request.name == '{name}'"}]}
    )
    nothing = webhook(hook, "/x", namespace=namespace, rules=[rule("nothing-like-it")])
    await kube.create(VALIDATING, None, configuration(VALIDATING, name, nothing), field_manager=ME)
    await kube.delete(VALIDATING, None, name)

    assert hook.seen("/no") == []
