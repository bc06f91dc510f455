"""Admission webhooks: which requests they are asked about, and what may be configured."""

import pytest

from stromboli.api.kinds import CONFIG_MAP, POD, SERVICE
from stromboli.kube import KubeClient, PatchType, Resource
from stromboli.kube.errors import ApiError, Invalid, NotFound
from stromboli.testkit.manifests import (
    Manifest,
    config_map,
    decoded,
    named,
    pod,
    unique,
)
from stromboli.testkit.waiting import eventually
from stromboli.testkit.webhook_registry import ME, Registry, relabel, rule
from stromboli.testkit.webhook_server import (
    MUTATING,
    VALIDATING,
    WebhookServer,
    configuration,
    denied,
    json_patch,
    webhook,
)

DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)


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
