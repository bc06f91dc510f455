"""Patches: what they change, what they leave alone, and when they are refused."""

import pytest

from stromboli.api.kinds import CONFIG_MAP, NODE, POD, QUEUE, VC_POD_GROUP
from stromboli.kube import KubeClient, PatchType
from stromboli.kube.errors import BadRequest, BodyRefused, Conflict, Invalid, NotFound
from stromboli.kube.paths import ResourceKind, object_path
from stromboli.testkit.manifests import (
    Manifest,
    config_map,
    decoded,
    node,
    pod,
    pod_group,
    queue,
    unique,
)

ME = "contract"


async def merge(
    kube: KubeClient,
    kind: ResourceKind,
    namespace: str | None,
    name: str,
    body: Manifest,
    *,
    subresource: str = "",
) -> Manifest:
    written = await kube.patch(
        kind,
        namespace,
        name,
        body,
        patch_type=PatchType.MERGE,
        subresource=subresource,
        field_manager=ME,
    )
    return decoded(written.raw)


async def json_patch(
    kube: KubeClient, kind: ResourceKind, namespace: str | None, name: str, *steps: Manifest
) -> Manifest:
    written = await kube.patch(
        kind, namespace, name, steps, patch_type=PatchType.JSON, field_manager=ME
    )
    return decoded(written.raw)


async def test_a_merge_patch_changes_what_it_names_and_nothing_else(
    kube: KubeClient, namespace: str
) -> None:
    body = config_map("a", {"keep": "1", "change": "1", "drop": "1"}, labels={"x": "y"})
    before = await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)
    after = await merge(
        kube, CONFIG_MAP, namespace, "a", {"data": {"change": "2", "drop": None, "new": "3"}}
    )

    assert after["data"] == {"keep": "1", "change": "2", "new": "3"}
    assert after["metadata"]["labels"] == {"x": "y"}
    assert after["metadata"]["uid"] == before.uid
    assert int(after["metadata"]["resourceVersion"]) > int(before.resource_version)
    assert (
        after["metadata"]["creationTimestamp"]
        == (decoded(before.raw)["metadata"]["creationTimestamp"])
    )


async def test_a_merge_patch_replaces_lists_whole(kube: KubeClient, namespace: str) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)
    after = await merge(
        kube, CONFIG_MAP, namespace, "a", {"metadata": {"finalizers": ["example.com/three"]}}
    )

    assert after["metadata"]["finalizers"] == ["example.com/three"]


async def test_labels_and_annotations_can_be_patched_on_custom_objects(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(VC_POD_GROUP, namespace, pod_group("a"), field_manager=ME)
    after = await merge(
        kube,
        VC_POD_GROUP,
        namespace,
        "a",
        {"metadata": {"labels": {"l": "1"}, "annotations": {"example.com/a": "2"}}},
    )

    assert after["metadata"]["labels"] == {"l": "1"}
    assert after["metadata"]["annotations"] == {"example.com/a": "2"}


async def test_a_json_patch_does_its_steps_in_order(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a", {"x": "1"}), field_manager=ME)
    after = await json_patch(
        kube,
        CONFIG_MAP,
        namespace,
        "a",
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "copy", "from": "/data/x", "path": "/data/w"},
        {"op": "move", "from": "/data/x", "path": "/data/v"},
        {"op": "add", "path": "/metadata/labels", "value": {"example.com/l": "1"}},
        {"op": "replace", "path": "/metadata/labels/example.com~1l", "value": "2"},
        {"op": "remove", "path": "/data/w"},
    )

    assert after["data"] == {"v": "2"}
    assert after["metadata"]["labels"] == {"example.com/l": "2"}


async def test_a_json_patch_whose_test_fails_changes_nothing(
    kube: KubeClient, namespace: str
) -> None:
    before = await kube.create(CONFIG_MAP, namespace, config_map("a", {"x": "1"}), field_manager=ME)
    with pytest.raises(Invalid) as caught:
        await json_patch(
            kube,
            CONFIG_MAP,
            namespace,
            "a",
            {"op": "replace", "path": "/data/x", "value": "2"},
            {"op": "test", "path": "/data/x", "value": "1"},
        )

    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert decoded(await kube.get(CONFIG_MAP, namespace, "a")) == decoded(before.raw)


@pytest.mark.parametrize(
    "step",
    [
        {"op": "remove", "path": "/data/missing"},
        {"op": "test", "path": "/data/missing", "value": "1"},
        {"op": "add", "path": "/nowhere/at/all", "value": 1},
    ],
)
async def test_a_json_patch_of_something_that_is_not_there_is_refused(
    kube: KubeClient, namespace: str, step: Manifest
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a", {"x": "1"}), field_manager=ME)
    with pytest.raises(Invalid):
        await json_patch(kube, CONFIG_MAP, namespace, "a", step)


async def test_a_json_patch_may_replace_a_key_that_is_not_there(
    kube: KubeClient, namespace: str
) -> None:
    """RFC 6902 forbids it, Kubernetes does it, and clients have come to rely on it."""
    await kube.create(CONFIG_MAP, namespace, config_map("a", {"x": "1"}), field_manager=ME)
    after = await json_patch(
        kube, CONFIG_MAP, namespace, "a", {"op": "replace", "path": "/data/new", "value": "2"}
    )

    assert after["data"] == {"x": "1", "new": "2"}


@pytest.mark.parametrize("patch_type", [PatchType.JSON, PatchType.MERGE])
async def test_a_patch_of_a_missing_object_is_not_found(
    kube: KubeClient, namespace: str, patch_type: PatchType
) -> None:
    body: Manifest | list[Manifest] = [] if patch_type is PatchType.JSON else {}
    for kind in (CONFIG_MAP, VC_POD_GROUP):
        with pytest.raises(NotFound) as caught:
            await kube.patch(kind, namespace, "nope", body, patch_type=patch_type, field_manager=ME)
        assert caught.value.details.name == "nope"


@pytest.mark.parametrize(
    ("patch_type", "body"),
    [
        (PatchType.MERGE, b"{"),
        (PatchType.MERGE, b"nonsense"),
        (PatchType.JSON, b"{"),
        (PatchType.JSON, b'{"data":{}}'),
    ],
)
async def test_a_patch_that_can_not_be_read_is_refused(
    kube: KubeClient, namespace: str, patch_type: PatchType, body: bytes
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    await kube.create(VC_POD_GROUP, namespace, pod_group("a"), field_manager=ME)
    for kind in (CONFIG_MAP, VC_POD_GROUP):
        with pytest.raises(BadRequest):
            await kube.patch(kind, namespace, "a", body, patch_type=patch_type, field_manager=ME)


async def test_a_patch_must_say_what_kind_of_patch_it_is(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    for content_type in ("application/json", "text/plain"):
        with pytest.raises(BodyRefused) as caught:
            await kube.transport.send(
                "PATCH",
                object_path(CONFIG_MAP, namespace, "a"),
                body=b"{}",
                content_type=content_type,
            )

        assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")


async def test_custom_objects_have_no_strategic_merge(kube: KubeClient, namespace: str) -> None:
    await kube.create(VC_POD_GROUP, namespace, pod_group("a"), field_manager=ME)
    with pytest.raises(BodyRefused) as caught:
        await kube.patch(
            VC_POD_GROUP, namespace, "a", {}, patch_type=PatchType.STRATEGIC, field_manager=ME
        )

    assert caught.value.code == 415


async def test_a_patch_that_changes_nothing_keeps_the_version(
    kube: KubeClient, namespace: str
) -> None:
    for kind, body, change in (
        (CONFIG_MAP, config_map("a", {"x": "1"}), {"data": {"x": "1"}}),
        (VC_POD_GROUP, pod_group("a"), {"spec": {"minMember": 1}}),
        (POD, pod("a"), {"metadata": {"labels": {}}}),
    ):
        before = await kube.create(kind, namespace, body, field_manager=ME)
        after = await merge(kube, kind, namespace, "a", change)

        assert after["metadata"]["resourceVersion"] == before.resource_version


@pytest.mark.parametrize("patch_type", [PatchType.JSON, PatchType.MERGE])
async def test_a_uid_in_the_patch_is_a_precondition(
    kube: KubeClient, namespace: str, patch_type: PatchType
) -> None:
    def patch(uid: str) -> Manifest | list[Manifest]:
        if patch_type is PatchType.MERGE:
            return {"metadata": {"uid": uid, "labels": {"x": "1"}}}
        return [
            {"op": "replace", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/metadata/labels", "value": {"x": "1"}},
        ]

    for kind, body in ((CONFIG_MAP, config_map("a")), (VC_POD_GROUP, pod_group("a"))):
        stored = await kube.create(kind, namespace, body, field_manager=ME)
        with pytest.raises(Invalid) as caught:
            await kube.patch(
                kind, namespace, "a", patch("another"), patch_type=patch_type, field_manager=ME
            )

        assert {cause.field for cause in caught.value.causes} == {"metadata.uid"}
        assert caught.value.causes[0].message.endswith("field is immutable")
        assert decoded(await kube.get(kind, namespace, "a")) == decoded(stored.raw)

        after = await kube.patch(
            kind, namespace, "a", patch(stored.uid), patch_type=patch_type, field_manager=ME
        )
        assert decoded(after.raw)["metadata"]["labels"] == {"x": "1"}


async def test_a_version_in_the_patch_is_a_precondition(kube: KubeClient, namespace: str) -> None:
    for kind, body in ((CONFIG_MAP, config_map("a")), (VC_POD_GROUP, pod_group("a"))):
        first = await kube.create(kind, namespace, body, field_manager=ME)
        await merge(kube, kind, namespace, "a", {"metadata": {"labels": {"x": "1"}}})
        stale: Manifest = {
            "metadata": {"resourceVersion": first.resource_version, "labels": {"x": "2"}}
        }
        with pytest.raises(Conflict) as caught:
            await merge(kube, kind, namespace, "a", stale)

        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        assert "the object has been modified" in caught.value.message
        assert decoded(await kube.get(kind, namespace, "a"))["metadata"]["labels"] == {"x": "1"}


async def test_what_identifies_an_object_can_not_be_patched(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    for change in ({"metadata": {"name": "b"}}, {"metadata": {"namespace": "default"}}):
        with pytest.raises((BadRequest, Invalid)):
            await merge(kube, CONFIG_MAP, namespace, "a", change)


async def test_the_result_of_a_patch_must_be_valid(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    with pytest.raises(Invalid) as caught:
        await merge(kube, CONFIG_MAP, namespace, "a", {"metadata": {"labels": {"a b": "x"}}})

    assert caught.value.causes[0].field == "metadata.labels"


async def test_a_dry_run_patch_shows_the_result_and_stores_nothing(
    kube: KubeClient, namespace: str
) -> None:
    before = await kube.create(CONFIG_MAP, namespace, config_map("a", {"x": "1"}), field_manager=ME)
    shown = await kube.patch(
        CONFIG_MAP,
        namespace,
        "a",
        {"data": {"x": "2"}},
        patch_type=PatchType.MERGE,
        field_manager=ME,
        dry_run=True,
    )

    assert decoded(shown.raw)["data"] == {"x": "2"}
    assert decoded(await kube.get(CONFIG_MAP, namespace, "a")) == decoded(before.raw)


async def test_the_status_of_a_pod_changes_only_through_its_subresource(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(POD, namespace, pod("a", node="n1"), field_manager=ME)
    plain = await merge(
        kube,
        POD,
        namespace,
        "a",
        {"metadata": {"labels": {"x": "1"}}, "status": {"phase": "Running"}},
    )
    assert (plain["metadata"]["labels"], plain["status"]["phase"]) == ({"x": "1"}, "Pending")

    status = await merge(
        kube,
        POD,
        namespace,
        "a",
        {"status": {"phase": "Running", "podIP": "10.1.2.3"}, "spec": {"nodeName": "n2"}},
        subresource="status",
    )
    assert (status["status"]["phase"], status["status"]["podIP"]) == ("Running", "10.1.2.3")
    assert status["spec"]["nodeName"] == "n1"


async def test_a_status_given_at_creation_is_ignored_where_it_is_a_subresource(
    kube: KubeClient, namespace: str
) -> None:
    written = await kube.create(
        POD, namespace, pod("a") | {"status": {"phase": "Running"}}, field_manager=ME
    )
    made = await kube.create(
        QUEUE, None, queue(unique("q")) | {"status": {"state": "Closed"}}, field_manager=ME
    )

    assert decoded(written.raw)["status"]["phase"] == "Pending"
    assert "status" not in decoded(made.raw)


async def test_a_nodes_status_has_its_own_path(kube: KubeClient) -> None:
    name = unique("node")
    await kube.create(NODE, None, node(name), field_manager=ME)
    after = await merge(
        kube,
        NODE,
        None,
        name,
        {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}},
        subresource="status",
    )
    assert after["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}

    spec = await merge(kube, NODE, None, name, {"spec": {"unschedulable": True}})
    assert spec["spec"]["unschedulable"] is True
    assert spec["status"]["allocatable"]["cpu"] == "4"


async def test_an_object_without_a_status_subresource_has_no_status_path(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(VC_POD_GROUP, namespace, pod_group("a"), field_manager=ME)
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    for kind in (VC_POD_GROUP, CONFIG_MAP):
        with pytest.raises(NotFound):
            await merge(kube, kind, namespace, "a", {"status": {}}, subresource="status")


async def test_a_pods_spec_is_mostly_fixed(kube: KubeClient, namespace: str) -> None:
    await kube.create(POD, namespace, pod("a"), field_manager=ME)
    with pytest.raises(Invalid) as caught:
        await merge(kube, POD, namespace, "a", {"spec": {"restartPolicy": "Never"}})

    assert caught.value.causes[0].field == "spec"
    assert caught.value.causes[0].reason == "FieldValueForbidden"


async def test_a_strategic_merge_joins_lists_by_their_key(kube: KubeClient, namespace: str) -> None:
    await kube.create(POD, namespace, pod("a"), field_manager=ME)
    after = await kube.patch(
        POD,
        namespace,
        "a",
        {"spec": {"containers": [{"name": "main", "image": "other"}]}},
        patch_type=PatchType.STRATEGIC,
        field_manager=ME,
    )

    containers = decoded(after.raw)["spec"]["containers"]
    assert [(each["name"], each["image"]) for each in containers] == [("main", "other")]
    assert containers[0]["imagePullPolicy"] == "Always"


async def test_apply_creates_and_then_owns_fields(kube: KubeClient, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    made = await kube.patch(
        CONFIG_MAP, namespace, "a", body, patch_type=PatchType.APPLY, field_manager="one"
    )
    other = body | {"data": {"x": "2"}}
    with pytest.raises(Conflict) as caught:
        await kube.patch(
            CONFIG_MAP, namespace, "a", other, patch_type=PatchType.APPLY, field_manager="two"
        )
    taken = await kube.patch(
        CONFIG_MAP,
        namespace,
        "a",
        other,
        patch_type=PatchType.APPLY,
        field_manager="two",
        force=True,
    )

    assert decoded(made.raw)["data"] == {"x": "1"}
    assert caught.value.causes[0].reason == "FieldManagerConflict"
    assert caught.value.causes[0].field == ".data.x"
    assert decoded(taken.raw)["data"] == {"x": "2"}
