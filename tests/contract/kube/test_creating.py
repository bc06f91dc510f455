"""Creating and reading objects, as clients rely on it."""

import re

import pytest

from stromboli.api.kinds import CONFIG_MAP, NODE, POD, QUEUE, VC_POD_GROUP
from stromboli.kube import KubeClient, Resource
from stromboli.kube.errors import AlreadyExists, BadRequest, Invalid, NotFound
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
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def test_a_created_object_gets_its_identity_from_the_server(
    kube: KubeClient, namespace: str
) -> None:
    written = await kube.create(
        CONFIG_MAP, namespace, config_map("a", {"k": "v"}), field_manager=ME
    )
    stored = decoded(written.raw)

    assert (written.name, written.namespace) == ("a", namespace)
    assert UID.fullmatch(written.uid)
    assert int(written.resource_version) > 0
    assert TIMESTAMP.fullmatch(stored["metadata"]["creationTimestamp"])
    assert (stored["apiVersion"], stored["kind"]) == ("v1", "ConfigMap")
    assert stored["data"] == {"k": "v"}


async def test_a_uid_and_creation_time_that_a_client_made_up_are_replaced(
    kube: KubeClient, namespace: str
) -> None:
    body = config_map("a")
    body["metadata"] |= {"uid": "made-up", "creationTimestamp": "2001-01-01T00:00:00Z"}
    written = await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)

    assert UID.fullmatch(written.uid)
    assert not decoded(written.raw)["metadata"]["creationTimestamp"].startswith("2001")


async def test_what_was_created_can_be_read(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(
        CONFIG_MAP, namespace, config_map("a", {"k": "v"}), field_manager=ME
    )

    assert decoded(await kube.get(CONFIG_MAP, namespace, "a")) == decoded(written.raw)


async def test_the_field_manager_is_recorded(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    managers = {
        entry["manager"] for entry in decoded(written.raw)["metadata"].get("managedFields", [])
    }

    # The sandbox keeps no managed fields, and nothing of ours decides by them.
    assert managers in ({ME}, set())


async def test_a_body_may_leave_out_the_kind_that_the_path_implies(
    kube: KubeClient, namespace: str
) -> None:
    written = await kube.create(
        CONFIG_MAP, namespace, {"metadata": {"name": "a"}}, field_manager=ME
    )

    assert decoded(written.raw)["kind"] == "ConfigMap"


async def test_a_taken_name_is_refused(kube: KubeClient, namespace: str) -> None:
    first = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    with pytest.raises(AlreadyExists) as caught:
        await kube.create(CONFIG_MAP, namespace, config_map("a", {"x": "y"}), field_manager=ME)

    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")
    assert caught.value.message == 'configmaps "a" already exists'
    assert (caught.value.details.name, caught.value.details.kind) == ("a", "configmaps")
    assert decoded(await kube.get(CONFIG_MAP, namespace, "a")) == decoded(first.raw)


async def test_the_same_name_is_free_in_another_namespace(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    written = await kube.create(CONFIG_MAP, "default", config_map(unique("a")), field_manager=ME)

    assert written.namespace == "default"


async def test_a_missing_object_is_not_found(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound) as caught:
        await kube.get(CONFIG_MAP, namespace, "nope")

    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
    assert caught.value.message == 'configmaps "nope" not found'
    assert (caught.value.details.name, caught.value.details.kind) == ("nope", "configmaps")
    assert await kube.get_or_none(CONFIG_MAP, namespace, "nope") is None


async def test_a_missing_custom_object_names_its_group(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound) as caught:
        await kube.get(VC_POD_GROUP, namespace, "nope")

    assert caught.value.message == 'podgroups.scheduling.volcano.sh "nope" not found'
    details = caught.value.details
    assert (details.name, details.group, details.kind) == (
        "nope",
        "scheduling.volcano.sh",
        "podgroups",
    )


@pytest.mark.parametrize("body", [config_map("a"), pod("a"), pod_group("a")])
async def test_nothing_can_be_created_in_a_missing_namespace(
    kube: KubeClient, body: Manifest
) -> None:
    kind = {"ConfigMap": CONFIG_MAP, "Pod": POD, "PodGroup": VC_POD_GROUP}[body["kind"]]
    with pytest.raises(NotFound) as caught:
        await kube.create(kind, "no-such-namespace", body, field_manager=ME)

    assert caught.value.message == 'namespaces "no-such-namespace" not found'
    assert caught.value.missing_namespace == "no-such-namespace"


async def test_reading_in_a_missing_namespace_finds_nothing(kube: KubeClient) -> None:
    pages = [page async for page in kube.list_pages(CONFIG_MAP, namespace="no-such-namespace")]

    assert [page.items for page in pages] == [[]]
    assert await kube.get_or_none(CONFIG_MAP, "no-such-namespace", "a") is None


@pytest.mark.parametrize(
    "kind",
    [
        Resource("nowhere.example.com", "v1", "things", namespaced=True),
        Resource("scheduling.volcano.sh", "v9", "queues", namespaced=False),
        Resource("scheduling.volcano.sh", "v1beta1", "things", namespaced=False),
        Resource("", "v1", "things", namespaced=True),
    ],
    ids=lambda kind: f"{kind.group}/{kind.version}/{kind.plural}",
)
async def test_a_kind_that_is_not_served_is_told_from_a_missing_object(
    kube: KubeClient, kind: Resource
) -> None:
    namespace = "default" if kind.namespaced else None
    with pytest.raises(NotFound) as caught:
        await kube.get(kind, namespace, "a")
    with pytest.raises(NotFound):
        await kube.get_or_none(kind, namespace, "a")
    with pytest.raises(NotFound):
        await kube.create(kind, namespace, {"metadata": {"name": "a"}}, field_manager=ME)

    assert caught.value.is_unknown_kind
    assert not await kube.serves(kind)


@pytest.mark.parametrize("name", ["UPPER", "under_score", "-a", "a-", "a" * 254, "a b", "ä"])
async def test_a_name_that_is_no_dns_name_is_invalid(
    kube: KubeClient, namespace: str, name: str
) -> None:
    for kind, body in ((CONFIG_MAP, config_map(name)), (VC_POD_GROUP, pod_group(name))):
        with pytest.raises(Invalid) as caught:
            await kube.create(kind, namespace, body, field_manager=ME)

        assert (caught.value.code, caught.value.reason) == (422, "Invalid")
        assert [cause.field for cause in caught.value.causes] == ["metadata.name"]
        assert caught.value.causes[0].reason == "FieldValueInvalid"


async def test_a_namespace_must_be_a_single_dns_label(kube: KubeClient) -> None:
    namespaces = Resource("", "v1", "namespaces", namespaced=False)
    with pytest.raises(Invalid) as caught:
        await kube.create(namespaces, None, {"metadata": {"name": "a.b"}}, field_manager=ME)

    assert caught.value.causes[0].field == "metadata.name"


async def test_generate_name_makes_a_new_name_each_time(kube: KubeClient, namespace: str) -> None:
    body: Manifest = {"metadata": {"generateName": "run-"}}
    names = [
        (await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)).name for _ in range(3)
    ]

    assert len(set(names)) == 3
    assert all(re.fullmatch(r"run-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_a_name_wins_over_generate_name(kube: KubeClient, namespace: str) -> None:
    body: Manifest = {"metadata": {"generateName": "run-", "name": "mine"}}

    assert (await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)).name == "mine"


async def test_a_long_generate_name_is_cut_so_that_the_name_fits(
    kube: KubeClient, namespace: str
) -> None:
    body: Manifest = {"metadata": {"generateName": "x" * 70 + "-"}}
    written = await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)

    assert len(written.name) == 63
    assert written.name.startswith("x" * 58)


async def test_an_object_without_any_name_is_invalid(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await kube.create(CONFIG_MAP, namespace, {"metadata": {}}, field_manager=ME)

    assert caught.value.causes[0].field == "metadata.name"
    assert caught.value.causes[0].reason == "FieldValueRequired"
    assert "name or generateName is required" in caught.value.message


async def test_the_namespace_in_the_body_must_be_that_of_the_path(
    kube: KubeClient, namespace: str
) -> None:
    body = config_map("a")
    body["metadata"]["namespace"] = "default"
    with pytest.raises(BadRequest) as caught:
        await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)

    assert "does not match the namespace" in caught.value.message


async def test_a_body_of_another_kind_is_refused(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(BadRequest):
        await kube.create(POD, namespace, config_map("a"), field_manager=ME)
    with pytest.raises(BadRequest):
        await kube.create(VC_POD_GROUP, namespace, config_map("a"), field_manager=ME)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"nonsense", b'"text"'])
async def test_a_body_that_is_no_object_is_refused(
    kube: KubeClient, namespace: str, body: bytes
) -> None:
    for kind in (CONFIG_MAP, VC_POD_GROUP):
        with pytest.raises(BadRequest):
            await kube.create(kind, namespace, body, field_manager=ME)


async def test_a_field_of_the_wrong_type_is_refused(kube: KubeClient, namespace: str) -> None:
    body = config_map("a") | {"data": "text"}
    with pytest.raises(BadRequest):
        await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)


async def test_a_field_that_kubernetes_does_not_know_is_dropped(
    kube: KubeClient, namespace: str
) -> None:
    body = config_map("a") | {"colour": "red"}
    written = await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)

    assert "colour" not in decoded(written.raw)


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({"a b": "x"}, "metadata.labels"),
        ({"a": "not/allowed"}, "metadata.labels"),
        ({"a": "x" * 64}, "metadata.labels"),
        ({"-bad.example.com/a": "x"}, "metadata.labels"),
    ],
)
async def test_labels_must_be_well_formed(
    kube: KubeClient, namespace: str, labels: dict[str, str], field: str
) -> None:
    for kind, body in ((CONFIG_MAP, config_map("a")), (VC_POD_GROUP, pod_group("a"))):
        body["metadata"]["labels"] = labels
        with pytest.raises(Invalid) as caught:
            await kube.create(kind, namespace, body, field_manager=ME)

        assert [cause.field for cause in caught.value.causes] == [field]


async def test_owner_references_are_kept(kube: KubeClient, namespace: str) -> None:
    owner = await kube.create(CONFIG_MAP, namespace, config_map("owner"), field_manager=ME)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for kind, body in ((POD, pod("owned")), (VC_POD_GROUP, pod_group("owned"))):
        body["metadata"]["ownerReferences"] = [reference]
        await kube.create(kind, namespace, body, field_manager=ME)
        stored = decoded(await kube.get(kind, namespace, "owned"))

        assert stored["metadata"]["ownerReferences"] == [reference]


async def test_an_owner_reference_without_a_uid_is_invalid(
    kube: KubeClient, namespace: str
) -> None:
    body = config_map("a")
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": ""}
    ]
    with pytest.raises(Invalid) as caught:
        await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)

    assert [cause.field for cause in caught.value.causes] == ["metadata.ownerReferences.uid"]


async def test_only_one_owner_may_be_the_controller(kube: KubeClient, namespace: str) -> None:
    body = config_map("a")
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": True}
        for name in ("one", "two")
    ]
    with pytest.raises(Invalid):
        await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)


async def test_a_dry_run_answers_as_if_and_stores_nothing(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(
        CONFIG_MAP, namespace, config_map("a"), field_manager=ME, dry_run=True
    )

    assert UID.fullmatch(written.uid)
    assert await kube.get_or_none(CONFIG_MAP, namespace, "a") is None


async def test_a_dry_run_of_something_invalid_is_refused(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid):
        await kube.create(CONFIG_MAP, namespace, config_map("A"), field_manager=ME, dry_run=True)


async def test_objects_without_a_namespace_can_be_created_and_read(kube: KubeClient) -> None:
    for kind, body in ((NODE, node(unique("node"))), (QUEUE, queue(unique("queue")))):
        written = await kube.create(kind, None, body, field_manager=ME)

        assert written.namespace == ""
        assert decoded(await kube.get(kind, None, written.name))["metadata"]["uid"] == written.uid
