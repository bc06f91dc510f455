"""Admission webhooks: what they are shown, in which order, and what their changes do."""

import pytest

from stromboli.api.kinds import CONFIG_MAP, POD, VC_POD_GROUP
from stromboli.kube import KubeClient
from stromboli.kube.errors import ApiError, Invalid
from stromboli.kube.paths import resource_path
from stromboli.testkit.manifests import (
    config_map,
    decoded,
    pod,
    pod_group,
    unique,
)
from stromboli.testkit.webhook_registry import ME, Registry, relabel, rule, setting
from stromboli.testkit.webhook_server import (
    WebhookServer,
    allowed,
    denied,
    json_patch,
)


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
