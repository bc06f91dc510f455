"""What clients read before they write: OpenAPI, aggregated discovery, strict decoding."""

from typing import Any

import pytest
from tests.unit.sandbox.conftest import CONFIG_MAPS, PODS, WIDGETS, Client, pod, widget

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set[str]()
        return own.union(*(references(child) for child in value.values()))
    if isinstance(value, list):
        return set[str]().union(*(references(child) for child in value))
    return set()


async def test_every_group_version_is_described_and_refers_to_nothing_missing(
    widgets: Client,
) -> None:
    index = (await widgets.get("/openapi/v3")).body["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/demo.io/v1", "apis/demo.io/v1beta1"} <= set(index)

    for entry in index.values():
        document = (await widgets.get(entry["serverRelativeURL"])).body
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert references(document) <= known


async def test_the_older_document_refers_to_nothing_missing(widgets: Client) -> None:
    document = (await widgets.get("/openapi/v2")).body
    known = {f"#/definitions/{name}" for name in document["definitions"]}

    assert references(document) <= known


async def test_a_patch_offers_what_its_kind_can(widgets: Client) -> None:
    core = (await widgets.get("/openapi/v3/api/v1")).body["paths"]
    custom = (await widgets.get("/openapi/v3/apis/demo.io/v1")).body["paths"]
    of_pods = core["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    of_widgets = custom["/apis/demo.io/v1/namespaces/{namespace}/widgets/{name}"]["patch"]

    strategic = "application/strategic-merge-patch+json"
    assert strategic in of_pods["requestBody"]["content"]
    assert strategic not in of_widgets["requestBody"]["content"]
    assert "fieldValidation" in {option["name"] for option in of_widgets["parameters"]}
    kind = {"group": "demo.io", "version": "v1", "kind": "Widget"}
    assert of_widgets["x-kubernetes-group-version-kind"] == kind


async def test_a_definitions_schema_is_published_and_withdrawn(widgets: Client) -> None:
    schemas = (await widgets.get("/openapi/v3/apis/demo.io/v1")).body["components"]["schemas"]
    size = schemas["io.demo.v1.Widget"]["properties"]["spec"]["properties"]["size"]
    assert size["maximum"] == 10

    await widgets.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.io")
    await widgets.until("/openapi/v3/apis/demo.io/v1", lambda reply: reply.code == 404)


async def test_all_groups_are_discovered_at_once(widgets: Client) -> None:
    core = (await widgets.call("GET", "/api", accept=AGGREGATED)).body["items"]
    groups = (await widgets.call("GET", "/apis", accept=AGGREGATED)).body["items"]

    pods = next(one for one in core[0]["versions"][0]["resources"] if one["resource"] == "pods")
    assert pods["shortNames"] == ["po"]
    assert {one["subresource"] for one in pods["subresources"]} >= {"binding", "status"}
    demo = next(one for one in groups if one["metadata"]["name"] == "demo.io")
    assert [version["version"] for version in demo["versions"]] == ["v1", "v1beta1"]
    assert demo["versions"][0]["resources"][0]["responseKind"]["kind"] == "Widget"


async def test_a_client_that_knows_no_aggregation_gets_the_plain_list(client: Client) -> None:
    assert (await client.get("/apis")).body["kind"] == "APIGroupList"


async def test_strict_decoding_names_every_unknown_field(client: Client) -> None:
    body = pod("a", tolerationz=[])
    body["spec"]["containers"][0]["comand"] = ["x"]
    reply = await client.post(f"{PODS}?fieldValidation=Strict", body)

    assert reply.code == 400
    assert reply.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field'
        ' "spec.containers[0].comand", unknown field "spec.tolerationz"'
    )


async def test_strict_decoding_knows_custom_resources(widgets: Client) -> None:
    reply = await widgets.post(f"{WIDGETS}?fieldValidation=Strict", widget("w", sise=1))
    assert 'unknown field "spec.sise"' in reply.message

    free = await widgets.post(f"{WIDGETS}?fieldValidation=Strict", widget("w", free={"a": 1}))
    assert free.code == 201


async def test_a_strict_patch_may_not_add_unknown_fields(client: Client) -> None:
    await client.made(CONFIG_MAPS, {"metadata": {"name": "a"}})
    reply = await client.merge(f"{CONFIG_MAPS}/a?fieldValidation=Strict", {"daata": {"a": "b"}})

    assert reply.code in {400, 422}
    assert 'unknown field "daata"' in reply.message


async def test_a_strict_patch_is_not_blamed_for_unknown_fields_of_the_past(client: Client) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["comand"] = ["x"]
    await client.made(PODS, body)
    patch = {"metadata": {"labels": {"a": "b"}}}

    assert (await client.merge(f"{PODS}/a?fieldValidation=Strict", patch)).code == 200


@pytest.mark.parametrize("mode", ["", "?fieldValidation=Ignore", "?fieldValidation=Warn"])
async def test_without_strictness_unknown_fields_do_nothing(client: Client, mode: str) -> None:
    reply = await client.post(f"{CONFIG_MAPS}{mode}", {"metadata": {"name": "a"}, "daata": 1})

    assert reply.code == 201
    assert "daata" not in reply.body
