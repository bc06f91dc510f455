"""Deletion: preconditions, finalizers, grace, and what comes back."""

import pytest

from stromboli.api.kinds import CONFIG_MAP, NODE, POD, VC_POD_GROUP
from stromboli.kube import KubeClient, PatchType
from stromboli.kube.errors import Conflict, Invalid, NotFound
from stromboli.kube.paths import object_path
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.manifests import config_map, decoded, node, pod, pod_group, unique
from stromboli.testkit.waiting import eventually

ME = "contract"


async def test_a_deleted_object_is_gone(kube: KubeClient, namespace: str) -> None:
    for kind, body in ((CONFIG_MAP, config_map("a")), (VC_POD_GROUP, pod_group("a"))):
        written = await kube.create(kind, namespace, body, field_manager=ME)
        deleted = await kube.delete(kind, namespace, "a")

        assert (deleted.uid, deleted.is_gone) == (written.uid, True)
        assert await kube.get_or_none(kind, namespace, "a") is None


async def test_the_answer_to_a_deletion_says_what_was_deleted(
    kube: KubeClient, namespace: str
) -> None:
    written = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    answer = await kube.transport.exchange("DELETE", object_path(CONFIG_MAP, namespace, "a"))
    status = decoded(answer.body)

    assert answer.code == 200
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": written.uid}


async def test_deleting_what_is_not_there_is_not_found(kube: KubeClient, namespace: str) -> None:
    for kind in (CONFIG_MAP, POD, VC_POD_GROUP):
        with pytest.raises(NotFound) as caught:
            await kube.delete(kind, namespace, "nope", uid="any")
        assert caught.value.details.name == "nope"


async def test_a_deletion_of_another_uid_is_refused(kube: KubeClient, namespace: str) -> None:
    for kind, body in (
        (CONFIG_MAP, config_map("a")),
        (VC_POD_GROUP, pod_group("a")),
        (POD, pod("a")),
    ):
        written = await kube.create(kind, namespace, body, field_manager=ME)
        with pytest.raises(Conflict) as caught:
            await kube.delete(kind, namespace, "a", uid="another")

        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        assert "the UID in the precondition (another) does not match the UID in record" in (
            caught.value.message
        )
        assert written.uid in caught.value.message
        assert (await kube.delete(kind, namespace, "a", uid=written.uid)).uid == written.uid


async def test_a_deletion_of_another_version_is_refused(kube: KubeClient, namespace: str) -> None:
    first = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    second = await kube.patch(
        CONFIG_MAP,
        namespace,
        "a",
        {"data": {"x": "1"}},
        patch_type=PatchType.MERGE,
        field_manager=ME,
    )
    with pytest.raises(Conflict) as caught:
        await kube.delete(CONFIG_MAP, namespace, "a", resource_version=first.resource_version)

    assert "the ResourceVersion in the precondition" in caught.value.message
    await kube.delete(CONFIG_MAP, namespace, "a", resource_version=second.resource_version)
    assert await kube.get_or_none(CONFIG_MAP, namespace, "a") is None


async def test_a_name_can_be_used_again_and_means_another_object(
    kube: KubeClient, namespace: str
) -> None:
    first = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    await kube.delete(CONFIG_MAP, namespace, "a")
    second = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)

    assert second.uid != first.uid
    assert int(second.resource_version) > int(first.resource_version)


async def test_a_dry_run_deletes_nothing(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    await kube.delete(CONFIG_MAP, namespace, "a", dry_run=True)

    assert await kube.get_or_none(CONFIG_MAP, namespace, "a") is not None


async def test_the_options_in_a_deletions_body_replace_those_in_its_query(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    path = object_path(CONFIG_MAP, namespace, "a")
    await kube.transport.send("DELETE", path, query={"dryRun": "All"})
    assert await kube.get_or_none(CONFIG_MAP, namespace, "a") is not None

    body = b'{"apiVersion":"v1","kind":"DeleteOptions"}'
    await kube.transport.send("DELETE", path, query={"dryRun": "All"}, body=body)
    assert await kube.get_or_none(CONFIG_MAP, namespace, "a") is None


async def test_a_finalizer_holds_the_object_until_it_is_taken_off(
    kube: KubeClient, namespace: str
) -> None:
    for kind, body in ((CONFIG_MAP, config_map("a")), (VC_POD_GROUP, pod_group("a"))):
        body["metadata"]["finalizers"] = ["example.com/hold"]
        written = await kube.create(kind, namespace, body, field_manager=ME)
        deleted = await kube.delete(kind, namespace, "a")
        marked = decoded(await kube.get(kind, namespace, "a"))

        assert (deleted.uid, deleted.is_gone) == (written.uid, False)
        assert marked["metadata"]["deletionTimestamp"]
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
        assert int(marked["metadata"]["resourceVersion"]) > int(written.resource_version)

        await kube.patch(
            kind,
            namespace,
            "a",
            {"metadata": {"finalizers": None}},
            patch_type=PatchType.MERGE,
            field_manager=ME,
        )
        assert await kube.get_or_none(kind, namespace, "a") is None


async def test_deleting_twice_changes_nothing_while_a_finalizer_holds(
    kube: KubeClient, namespace: str
) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)
    await kube.delete(CONFIG_MAP, namespace, "a")
    first = decoded(await kube.get(CONFIG_MAP, namespace, "a"))
    await kube.delete(CONFIG_MAP, namespace, "a")

    assert decoded(await kube.get(CONFIG_MAP, namespace, "a")) == first


async def test_nothing_can_be_added_to_hold_an_object_that_is_going(
    kube: KubeClient, namespace: str
) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)
    await kube.delete(CONFIG_MAP, namespace, "a")
    with pytest.raises(Invalid) as caught:
        await kube.patch(
            CONFIG_MAP,
            namespace,
            "a",
            {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}},
            patch_type=PatchType.MERGE,
            field_manager=ME,
        )

    assert caught.value.causes[0].field == "metadata.finalizers"
    assert caught.value.causes[0].reason == "FieldValueForbidden"


async def test_an_unbound_pod_is_deleted_at_once(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    deleted = await kube.delete(POD, namespace, "a", uid=written.uid)

    assert (deleted.uid, deleted.is_gone) == (written.uid, True)
    assert await kube.get_or_none(POD, namespace, "a") is None


async def test_a_bound_pod_gets_the_time_it_asked_for(kube: KubeClient, namespace: str) -> None:
    """The kubelet deletes it with grace period 0 when its containers have ended."""
    written = await kube.create(
        POD, namespace, pod("a", node="n1", terminationGracePeriodSeconds=17), field_manager=ME
    )
    deleted = await kube.delete(POD, namespace, "a", uid=written.uid)
    marked = decoded(await kube.get(POD, namespace, "a"))

    assert (deleted.uid, deleted.is_gone) == (written.uid, False)
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 17
    assert marked["metadata"]["resourceVersion"] == deleted.resource_version

    final = await kube.delete(POD, namespace, "a", uid=written.uid, grace_period_s=0)
    assert final.is_gone
    assert await kube.get_or_none(POD, namespace, "a") is None


async def test_a_deletion_may_set_another_grace_period(kube: KubeClient, namespace: str) -> None:
    await kube.create(POD, namespace, pod("a", node="n1"), field_manager=ME)
    await kube.delete(POD, namespace, "a", grace_period_s=5)
    marked = decoded(await kube.get(POD, namespace, "a"))

    assert marked["metadata"]["deletionGracePeriodSeconds"] == 5
    assert marked["spec"]["terminationGracePeriodSeconds"] == 30


async def test_a_later_deletion_can_shorten_the_grace_period_but_not_lengthen_it(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(POD, namespace, pod("a", node="n1"), field_manager=ME)
    await kube.delete(POD, namespace, "a", grace_period_s=20)
    await kube.delete(POD, namespace, "a", grace_period_s=60)
    longer = decoded(await kube.get(POD, namespace, "a"))
    await kube.delete(POD, namespace, "a", grace_period_s=3)
    shorter = decoded(await kube.get(POD, namespace, "a"))

    assert longer["metadata"]["deletionGracePeriodSeconds"] == 20
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_a_pod_that_has_ended_is_deleted_at_once(kube: KubeClient, namespace: str) -> None:
    await kube.create(POD, namespace, pod("a", node="n1"), field_manager=ME)
    await kube.patch(
        POD,
        namespace,
        "a",
        {"status": {"phase": "Succeeded"}},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )
    deleted = await kube.delete(POD, namespace, "a")

    assert deleted.is_gone
    assert await kube.get_or_none(POD, namespace, "a") is None


async def test_a_pods_status_can_still_be_written_while_it_goes(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(POD, namespace, pod("a", node="n1"), field_manager=ME)
    await kube.delete(POD, namespace, "a")
    after = await kube.patch(
        POD,
        namespace,
        "a",
        {"status": {"phase": "Failed", "reason": "Evicted"}},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )

    stored = decoded(after.raw)
    assert (stored["status"]["phase"], stored["status"]["reason"]) == ("Failed", "Evicted")
    assert stored["metadata"]["deletionTimestamp"]


async def test_an_object_without_a_namespace_is_deleted(kube: KubeClient) -> None:
    written = await kube.create(NODE, None, node(unique("node")), field_manager=ME)
    deleted = await kube.delete(NODE, None, written.name, uid=written.uid)

    assert deleted.is_gone


async def test_what_an_owner_leaves_behind_is_collected(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    if api_server.kind == "kube-apiserver":
        pytest.skip("a real cluster's controller-manager does this, and there is none here")
    owner = await kube.create(CONFIG_MAP, namespace, config_map("owner"), field_manager=ME)
    keeper = await kube.create(CONFIG_MAP, namespace, config_map("keeper"), field_manager=ME)

    def reference(name: str, uid: str) -> dict[str, str]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}

    for name, owners in (
        ("child", [reference("owner", owner.uid)]),
        ("shared", [reference("owner", owner.uid), reference("keeper", keeper.uid)]),
    ):
        body = pod_group(name)
        body["metadata"]["ownerReferences"] = owners
        await kube.create(VC_POD_GROUP, namespace, body, field_manager=ME)
    await kube.delete(CONFIG_MAP, namespace, "owner", propagation="Background")

    async def child_is_gone() -> bool:
        return await kube.get_or_none(VC_POD_GROUP, namespace, "child") is None

    await eventually(child_is_gone)
    assert await kube.get_or_none(VC_POD_GROUP, namespace, "shared") is not None


async def test_orphans_stay(api_server: ApiServer, kube: KubeClient, namespace: str) -> None:
    if api_server.kind == "kube-apiserver":
        pytest.skip("a real cluster's controller-manager does this, and there is none here")
    owner = await kube.create(CONFIG_MAP, namespace, config_map("owner"), field_manager=ME)
    body = pod_group("child")
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    ]
    await kube.create(VC_POD_GROUP, namespace, body, field_manager=ME)
    await kube.delete(CONFIG_MAP, namespace, "owner", propagation="Orphan")

    async def owner_is_forgotten() -> bool:
        child = decoded(await kube.get(VC_POD_GROUP, namespace, "child"))
        return not child["metadata"].get("ownerReferences")

    await eventually(owner_is_forgotten)
    assert await kube.get_or_none(CONFIG_MAP, namespace, "owner") is None


async def test_a_foreground_deletion_holds_the_owner_with_a_finalizer(
    kube: KubeClient, namespace: str
) -> None:
    """The server only marks it; taking the finalizer off is the collector's business."""
    body = config_map("owner")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    owner = await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)
    child = pod_group("child")
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner.uid,
            "blockOwnerDeletion": True,
        }
    ]
    child["metadata"]["finalizers"] = ["example.com/hold"]
    await kube.create(VC_POD_GROUP, namespace, child, field_manager=ME)
    deleted = await kube.delete(CONFIG_MAP, namespace, "owner", propagation="Foreground")
    marked = decoded(await kube.get(CONFIG_MAP, namespace, "owner"))["metadata"]

    assert not deleted.is_gone
    assert marked["finalizers"] == ["example.com/hold", "foregroundDeletion"]
    assert marked["deletionTimestamp"]
    assert marked["deletionGracePeriodSeconds"] == 0


async def test_the_last_deletion_decides_which_finalizer_there_is(
    kube: KubeClient, namespace: str
) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold", "foregroundDeletion"]
    owner = await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)
    child = pod_group("child")
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "a",
            "uid": owner.uid,
            "blockOwnerDeletion": True,
        }
    ]
    child["metadata"]["finalizers"] = ["example.com/hold"]
    await kube.create(VC_POD_GROUP, namespace, child, field_manager=ME)
    path = object_path(CONFIG_MAP, namespace, "a")

    async def finalizers() -> list[str]:
        return decoded(await kube.get(CONFIG_MAP, namespace, "a"))["metadata"]["finalizers"]

    await kube.transport.send("DELETE", path)
    assert await finalizers() == ["example.com/hold", "foregroundDeletion"]
    await kube.delete(CONFIG_MAP, namespace, "a", propagation="Background")
    assert await finalizers() == ["example.com/hold"]
    await kube.delete(CONFIG_MAP, namespace, "a", propagation="Foreground")
    assert await finalizers() == ["example.com/hold", "foregroundDeletion"]


async def test_an_orphaning_deletion_answers_with_the_held_object(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    answer = await kube.transport.exchange(
        "DELETE", object_path(CONFIG_MAP, namespace, "a"), query={"propagationPolicy": "Orphan"}
    )
    shown = decoded(answer.body)

    assert answer.code == 200
    assert (shown["kind"], shown["metadata"]["finalizers"]) == ("ConfigMap", ["orphan"])
    assert shown["metadata"]["deletionTimestamp"]
