from typing import Any

import pytest
from tests.unit.sandbox.conftest import Client


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in document["resources"]}


async def test_the_core_group_lists_its_resources(client: Client) -> None:
    rows = by_name((await client.get("/api/v1")).body)

    assert rows["pods"]["shortNames"] == ["po"]
    assert rows["pods"]["categories"] == ["all"]
    assert rows["pods"]["namespaced"] is True
    assert "watch" in rows["pods"]["verbs"]
    assert rows["pods/binding"]["verbs"] == ["create"]
    assert rows["pods/eviction"]["group"] == "policy"
    assert rows["nodes/status"]["verbs"] == ["get", "patch", "update"]
    assert "deletecollection" not in rows["namespaces"]["verbs"]


async def test_groups_are_listed_with_their_preferred_version(widgets: Client) -> None:
    groups = {group["name"]: group for group in (await widgets.get("/apis")).body["groups"]}
    one = (await widgets.get("/apis/demo.io")).body

    assert groups["demo.io"]["preferredVersion"]["version"] == "v1"
    assert [version["version"] for version in one["versions"]] == ["v1", "v1beta1"]
    assert {"apps", "batch", "coordination.k8s.io", "policy"} <= set(groups)


async def test_custom_resources_appear_with_their_names(widgets: Client) -> None:
    rows = by_name((await widgets.get("/apis/demo.io/v1")).body)

    assert rows["widgets"]["shortNames"] == ["wd"]
    assert rows["widgets"]["singularName"] == "widget"
    assert set(rows) == {"widgets", "widgets/status"}
    assert set(by_name((await widgets.get("/apis/demo.io/v1beta1")).body)) == {"widgets"}


async def test_the_version_is_that_of_the_server_it_imitates(client: Client) -> None:
    version = (await client.get("/version")).body

    assert (version["major"], version["minor"]) == ("1", "35")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_it_is_healthy(client: Client, path: str) -> None:
    assert (await client.get(path)).text == "ok"


async def test_who_only_accepts_other_formats_is_told(client: Client) -> None:
    headers = {"Accept": "application/vnd.kubernetes.protobuf", **client._headers}
    async with client.session.get(f"{client.url}/api/v1/pods", headers=headers) as response:
        assert response.status == 406
        assert (await response.json())["reason"] == "NotAcceptable"


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "application/vnd.kubernetes.protobuf,application/json",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
        "*/*",
    ],
)
async def test_who_would_rather_have_something_else_gets_json(client: Client, accept: str) -> None:
    headers = {"Accept": accept, **client._headers}
    async with client.session.get(f"{client.url}/apis", headers=headers) as response:
        assert (response.status, response.content_type) == (200, "application/json")


async def test_everything_is_allowed_and_everyone_knows_who_they_are(client: Client) -> None:
    access = await client.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}},
    )
    myself = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})

    assert (access.code, access.body["status"]["allowed"]) == (201, True)
    assert myself.body["status"]["userInfo"]["username"] == "stromboli-admin"
