import pytest
from tests.unit.sandbox.conftest import (
    CONFIG_MAPS,
    PODS,
    WIDGETS,
    Client,
    config_map,
    pod,
    widget,
)

CONFLICT = (
    'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply'
    " your changes to the latest version and try again"
)
A = f"{CONFIG_MAPS}/a"


async def test_an_update_with_the_current_version_goes_through(client: Client) -> None:
    made = await client.made(CONFIG_MAPS, config_map("a"))

    reply = await client.put(A, {**made.body, "data": {"key": "other"}})

    assert (reply.code, reply.body["data"]) == (200, {"key": "other"})
    assert int(reply.meta["resourceVersion"]) > int(made.meta["resourceVersion"])
    assert reply.meta["uid"] == made.meta["uid"]


async def test_an_update_with_an_old_version_is_a_conflict(client: Client) -> None:
    made = await client.made(CONFIG_MAPS, config_map("a"))
    await client.merge(A, {"data": {"key": "newer"}})

    reply = await client.put(A, {**made.body, "data": {"key": "mine"}})

    assert (reply.code, reply.reason, reply.message) == (409, "Conflict", CONFLICT)
    assert (await client.get(A)).body["data"] == {"key": "newer"}


async def test_an_update_without_a_version_overwrites_where_that_is_allowed(
    widgets: Client,
) -> None:
    await widgets.made(CONFIG_MAPS, config_map("a"))
    await widgets.made(WIDGETS, widget("w"))

    overwritten = await widgets.put(A, {"metadata": {"name": "a"}, "data": {"x": "y"}})
    refused = await widgets.put(f"{WIDGETS}/w", widget("w", size=2))

    assert (overwritten.code, overwritten.body["data"]) == (200, {"x": "y"})
    assert refused.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified" in refused.message


async def test_an_update_of_another_uid_is_a_conflict(client: Client) -> None:
    made = await client.made(CONFIG_MAPS, config_map("a"))

    reply = await client.put(A, config_map("a", uid="other"))

    uid = made.meta["uid"]
    assert reply.code == 409
    assert f"UID in precondition: other, UID in object meta: {uid}" in reply.message


async def test_a_patch_cannot_change_the_uid(client: Client) -> None:
    await client.made(CONFIG_MAPS, config_map("a"))

    reply = await client.merge(A, {"metadata": {"uid": "other"}})

    assert (reply.code, reply.fields) == (422, ["metadata.uid"])


async def test_a_version_in_a_patch_is_a_lock(client: Client) -> None:
    made = await client.made(CONFIG_MAPS, config_map("a"))
    current = {"resourceVersion": made.meta["resourceVersion"]}

    first = await client.merge(A, {"metadata": current, "data": {"n": "1"}})
    second = await client.merge(A, {"metadata": current, "data": {"n": "2"}})

    assert (first.code, second.code, second.message) == (200, 409, CONFLICT)


async def test_a_change_that_changes_nothing_makes_no_revision_and_no_event(
    client: Client,
) -> None:
    made = await client.made(CONFIG_MAPS, config_map("a", labels={"x": "1"}))
    events = await client.watch(CONFIG_MAPS, f"resourceVersion={made.meta['resourceVersion']}")

    patched = await client.merge(A, {"metadata": {"labels": {"x": "1", "y": None}}})
    updated = await client.put(A, made.body)
    await client.merge(A, {"data": {"n": "1"}})

    assert patched.meta == updated.meta == made.meta
    event = await events.next()
    assert event["object"]["data"] == {"key": "value", "n": "1"}


async def test_one_and_true_are_not_the_same(widgets: Client) -> None:
    await widgets.made(WIDGETS, widget("w", free={"x": 1}))

    reply = await widgets.merge(f"{WIDGETS}/w", {"spec": {"free": {"x": True}}})

    assert reply.body["spec"]["free"]["x"] is True
    assert reply.meta["generation"] == 2


async def test_a_json_patch_with_a_failing_test_changes_nothing(client: Client) -> None:
    await client.made(CONFIG_MAPS, config_map("a"))
    guard = {"op": "test", "path": "/data/key", "value": "other"}
    change = {"op": "replace", "path": "/data/key", "value": "new"}

    reply = await client.json_patch(A, [guard, change])

    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.message == "the server rejected our request due to an error in our request"
    assert (await client.get(A)).body["data"] == {"key": "value"}


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"metadata": {"name": "b"}}, 400, "the name of the object (b) does not match"),
        ({"metadata": {"namespace": "b"}}, 400, "the namespace of the provided object"),
        ({"metadata": {"labels": 5}}, 422, "patch: Invalid value"),
        ({"data": []}, 422, "patch: Invalid value"),
        ({"kind": "Pod"}, 422, "must be ConfigMap"),
        ({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}, 422, "field is immutable"),
        (b"{", 400, "error decoding patch"),
        ([], 400, "cannot unmarshal array"),
    ],
)
async def test_a_bad_patch_is_refused_with_a_reason(
    client: Client, patch: object, code: int, message: str
) -> None:
    made = await client.made(CONFIG_MAPS, config_map("a"))

    reply = await client.merge(A, patch)

    assert reply.code == code
    assert message in reply.message
    assert (await client.get(A)).meta == made.meta


async def test_patch_types_that_are_not_known_are_named(client: Client) -> None:
    await client.made(CONFIG_MAPS, config_map("a"))

    kind = "application/unheard-of-patch+json"
    reply = await client.call("PATCH", A, {}, content_type=kind)

    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")
    assert "application/merge-patch+json" in reply.message


async def test_what_does_not_exist_cannot_be_changed(client: Client) -> None:
    for reply in (
        await client.merge(A, {"data": {}}),
        await client.put(A, config_map("a")),
        await client.delete(A),
        await client.get(A),
    ):
        assert (reply.code, reply.message) == (404, 'configmaps "a" not found')


async def test_a_lease_may_be_created_by_an_update(client: Client) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"

    reply = await client.put(path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}})

    assert reply.code == 201


class TestStatus:
    async def test_the_status_endpoint_changes_only_the_status(self, widgets: Client) -> None:
        await widgets.made(WIDGETS, widget("w"))
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 9}, "status": {"phase": "On"}}

        reply = await widgets.merge(f"{WIDGETS}/w/status", patch)

        assert reply.body["status"] == {"phase": "On"}
        assert reply.body["spec"]["size"] == 1
        assert "labels" not in reply.meta
        assert reply.meta["generation"] == 1

    async def test_the_main_endpoint_does_not_change_the_status(self, widgets: Client) -> None:
        created = await widgets.made(WIDGETS, {**widget("w"), "status": {"phase": "On"}})
        await widgets.merge(f"{WIDGETS}/w/status", {"status": {"phase": "On"}})

        patch = {"spec": {"size": 2}, "status": {"phase": "Off"}}
        reply = await widgets.merge(f"{WIDGETS}/w", patch)

        assert "status" not in created.body
        assert reply.body["status"] == {"phase": "On"}
        assert reply.meta["generation"] == 2

    async def test_a_status_is_validated_too(self, widgets: Client) -> None:
        await widgets.made(WIDGETS, widget("w"))

        reply = await widgets.merge(f"{WIDGETS}/w/status", {"status": {"phase": "Odd"}})

        assert (reply.code, reply.fields) == (422, ["status.phase"])

    async def test_a_custom_status_ignores_the_uid_like_the_real_server(
        self, widgets: Client
    ) -> None:
        """A JSON patch with a test on the uid is the way to be sure; it is refused."""
        await widgets.made(WIDGETS, widget("w"))
        path = f"{WIDGETS}/w/status"
        guard = {"op": "test", "path": "/metadata/uid", "value": "other"}
        change = {"op": "add", "path": "/status", "value": {"phase": "Off"}}

        merged = await widgets.merge(path, {"metadata": {"uid": "x"}, "status": {"phase": "On"}})
        guarded = await widgets.json_patch(path, [guard, change])

        assert (merged.code, guarded.code) == (200, 422)

    async def test_a_pods_status_takes_labels_but_not_the_spec(self, client: Client) -> None:
        await client.made(PODS, pod("a"))
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}}

        reply = await client.merge(
            f"{PODS}/a/status", {**patch, "status": {"phase": "Running", "podIP": "10.0.0.1"}}
        )

        assert reply.meta["labels"] == {"a": "b"}
        assert "nodeName" not in reply.body["spec"]
        assert reply.body["status"] == {
            "phase": "Running",
            "qosClass": "BestEffort",
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
        }
