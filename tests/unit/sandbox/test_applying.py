"""Server-side apply: fields have owners, and owners are asked."""

from typing import Any

import pytest
from tests.unit.sandbox.conftest import CONFIG_MAPS, WIDGETS, Client, Reply, config_map, widget

APPLY = "application/apply-patch+yaml"
A = f"{CONFIG_MAPS}/a"
SERVICES = "/api/v1/namespaces/default/services"


def wish(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def service(*ports: dict[str, Any]) -> dict[str, Any]:
    spec = {"clusterIP": "None", "ports": list(ports)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}


async def apply(
    client: Client, body: object, *, by: str = "me", path: str = A, force: bool = False
) -> Reply:
    query = f"fieldManager={by}" + ("&force=true" if force else "")
    return await client.call("PATCH", f"{path}?{query}", body, content_type=APPLY)


def owners(reply: Reply) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in reply.meta["managedFields"]}


async def test_what_is_not_there_is_created_and_owned(client: Client) -> None:
    reply = await apply(client, wish(x="1"))

    assert reply.code == 201
    assert reply.body["data"] == {"x": "1"}
    assert owners(reply) == {"me": {"f:data": {"f:x": {}}}}
    assert reply.meta["managedFields"][0]["operation"] == "Apply"


async def test_wishes_may_be_written_in_yaml(client: Client) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"

    assert (await apply(client, body)).body["data"] == {"x": "1"}


async def test_applying_the_same_again_changes_nothing(client: Client) -> None:
    first = await apply(client, wish(x="1"))
    second = await apply(client, wish(x="1"))

    assert second.body == first.body


async def test_two_managers_own_different_fields_in_peace(client: Client) -> None:
    await apply(client, wish(x="1"))
    reply = await apply(client, wish(y="2"), by="you")

    assert reply.body["data"] == {"x": "1", "y": "2"}
    assert owners(reply) == {"me": {"f:data": {"f:x": {}}}, "you": {"f:data": {"f:y": {}}}}


async def test_a_field_of_somebody_else_is_a_conflict(client: Client) -> None:
    await apply(client, wish(x="1"))
    reply = await apply(client, wish(x="2"), by="you")

    assert (reply.code, reply.reason) == (409, "Conflict")
    assert reply.message == 'Apply failed with 1 conflict: conflict with "me": .data.x'
    assert reply.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.x"}
    ]
    assert (await client.get(A)).body["data"] == {"x": "1"}


async def test_force_takes_the_field(client: Client) -> None:
    await apply(client, wish(x="1"))
    reply = await apply(client, wish(x="2"), by="you", force=True)

    assert reply.body["data"] == {"x": "2"}
    assert owners(reply) == {"you": {"f:data": {"f:x": {}}}}


async def test_agreeing_on_a_value_is_owning_it_together(client: Client) -> None:
    await apply(client, wish(x="1"))
    reply = await apply(client, wish(x="1"), by="you")
    assert owners(reply) == {"me": {"f:data": {"f:x": {}}}, "you": {"f:data": {"f:x": {}}}}

    left = await apply(client, wish(), by="you")
    assert left.body["data"] == {"x": "1"}


async def test_a_field_no_longer_wished_for_goes(client: Client) -> None:
    await apply(client, wish(x="1", y="2"))
    reply = await apply(client, wish(y="2"))

    assert reply.body["data"] == {"y": "2"}


async def test_an_update_makes_its_author_the_owner(client: Client) -> None:
    await apply(client, wish(x="1", y="2"))
    await client.merge(f"{A}?fieldManager=editor", {"data": {"x": "9"}})
    reply = await apply(client, wish(x="1", y="2"))

    assert reply.message == (
        'Apply failed with 1 conflict: conflict with "editor" using v1: .data.x'
    )


async def test_what_was_there_before_the_first_apply_belongs_to_the_past(client: Client) -> None:
    await client.made(CONFIG_MAPS, config_map("a"))
    assert "managedFields" not in (await client.get(A)).meta

    reply = await apply(client, wish(key="other"))
    assert 'conflict with "before-first-apply" using v1: .data.key' in reply.message


async def test_clients_cannot_write_who_owns_what(client: Client) -> None:
    first = await apply(client, wish(x="1"))
    body = first.body
    body["metadata"]["managedFields"] = []
    reply = await client.put(A, body)

    assert owners(reply) == owners(first)


async def test_items_of_a_keyed_list_have_owners_of_their_own(client: Client) -> None:
    path = f"{SERVICES}/s"
    mine, yours = {"port": 80, "name": "http"}, {"port": 443, "name": "https"}
    await apply(client, service(mine), path=path)
    both = await apply(client, service(yours), by="you", path=path)
    assert [port["port"] for port in both.body["spec"]["ports"]] == [80, 443]

    conflict = await apply(client, service({**mine, "name": "x"}), by="you", path=path)
    assert '.spec.ports[port=80,protocol="TCP"].name' in conflict.message
    left = await apply(client, service(), path=path)
    assert [port["port"] for port in left.body["spec"]["ports"]] == [443]


async def test_custom_resources_are_applied_by_their_schema(widgets: Client) -> None:
    path = f"{WIDGETS}/w"
    await apply(widgets, widget("w", free={"a": 1}), path=path)
    reply = await apply(widgets, widget("w", free={"b": 2}), path=path)

    assert reply.body["spec"] == {"size": 1, "free": {"b": 2}, "mode": "a"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({**wish(), "kind": "Secret"}, "invalid object type: /v1, Kind=Secret"),
        ({**wish(), "metadata": {"name": "b"}}, "does not match the name on the URL"),
        ({**wish(), "metadata": {"managedFields": []}}, "metadata.managedFields must be nil"),
        (b"a: [", "error decoding YAML"),
        (b"[1]", "the body is not an object"),
        ({**wish(), "data": {"x": 1}}, "cannot be handled as a ConfigMap"),
    ],
)
async def test_a_wish_that_makes_no_sense_is_refused(
    client: Client, body: object, told: str
) -> None:
    reply = await apply(client, body)

    assert reply.code == 400
    assert told in reply.message


async def test_a_wish_needs_a_manager(client: Client) -> None:
    reply = await client.call("PATCH", A, wish(), content_type=APPLY)

    assert (reply.code, reply.fields) == (422, ["fieldManager"])


async def test_a_dry_run_applies_nothing(client: Client) -> None:
    query = "fieldManager=me&dryRun=All"
    reply = await client.call("PATCH", f"{A}?{query}", wish(x="1"), content_type=APPLY)

    assert reply.code == 201
    assert (await client.get(A)).code == 404
