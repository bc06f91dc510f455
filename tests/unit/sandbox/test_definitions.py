from typing import Any

import pytest
from tests.unit.sandbox.conftest import (
    DEFINITIONS,
    WIDGETS,
    Client,
    widget,
    widget_definition,
)

WIDGET_DEFINITION = f"{DEFINITIONS}/widgets.demo.io"


async def test_a_definition_is_established_and_served_at_once(client: Client) -> None:
    assert (await client.get(WIDGETS)).code == 404

    made = await client.made(DEFINITIONS, widget_definition())

    status = made.body["status"]
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert status["storedVersions"] == ["v1"]
    assert status["acceptedNames"]["singular"] == "widget"
    assert status["acceptedNames"]["listKind"] == "WidgetList"
    assert (await client.get(WIDGETS)).body["kind"] == "WidgetList"


async def test_objects_are_pruned_defaulted_and_numbered(widgets: Client) -> None:
    body = widget("w", unknown=1, free={"kept": 1})

    reply = await widgets.made(WIDGETS, body)

    assert reply.body["spec"] == {"size": 1, "free": {"kept": 1}, "mode": "a"}
    assert reply.meta["generation"] == 1


async def test_an_object_against_the_schema_is_invalid(widgets: Client) -> None:
    reply = await widgets.post(WIDGETS, widget("w", size=-1, mode="q"))

    assert (reply.code, reply.fields) == (422, ["spec.mode", "spec.size"])
    assert reply.message == (
        'Widget.demo.io "w" is invalid: [spec.mode: Unsupported value: "q": supported values: "a",'
        ' "b", spec.size: Invalid value: -1: spec.size in body should be greater than or equal'
        " to 0]"
    )


async def test_kind_and_version_have_to_be_right(widgets: Client) -> None:
    other_version = await widgets.post(WIDGETS, {**widget("w"), "apiVersion": "demo.io/v9"})
    other_kind = await widgets.post(WIDGETS, {**widget("w"), "kind": "Gadget"})

    assert other_version.message == (
        "the API version in the data (demo.io/v9) does not match the expected API version"
        " (demo.io/v1)"
    )
    assert (other_kind.code, other_kind.fields) == (422, ["kind"])


async def test_every_served_version_shows_the_same_objects(widgets: Client) -> None:
    made = await widgets.made(WIDGETS, widget("w"))
    old = WIDGETS.replace("/v1/", "/v1beta1/")

    one = await widgets.get(f"{old}/w")
    many = await widgets.get(old)
    patched = await widgets.merge(f"{old}/w", {"spec": {"size": 5}})

    assert one.body == {**made.body, "apiVersion": "demo.io/v1beta1"}
    assert many.body["items"] == [one.body]
    assert patched.body["apiVersion"] == "demo.io/v1beta1"
    assert (await widgets.get(f"{WIDGETS}/w")).body["spec"]["size"] == 5


async def test_a_version_without_status_endpoint_has_none(widgets: Client) -> None:
    await widgets.made(WIDGETS, widget("w"))
    old = WIDGETS.replace("/v1/", "/v1beta1/")

    assert (await widgets.get(f"{WIDGETS}/w/status")).code == 200
    assert (await widgets.get(f"{old}/w/status")).code == 404
    assert (await widgets.get(f"{WIDGETS}/w/scale")).code == 404


async def test_an_updated_definition_applies_from_then_on(widgets: Client) -> None:
    current = (await widgets.get(WIDGET_DEFINITION)).body
    schema = current["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["size"]["maximum"] = 1000

    assert (await widgets.post(WIDGETS, widget("w", size=500))).code == 422
    assert (await widgets.put(WIDGET_DEFINITION, current)).code == 200
    assert (await widgets.post(WIDGETS, widget("w", size=500))).code == 201


async def test_deleting_a_definition_deletes_its_objects(widgets: Client) -> None:
    for number in range(3):
        await widgets.made(WIDGETS, widget(f"w-{number}"))
    events = await widgets.watch(WIDGETS)
    await events.seen(3)

    reply = await widgets.delete(WIDGET_DEFINITION)

    assert "deletionTimestamp" in reply.meta
    await widgets.until(WIDGET_DEFINITION, lambda answer: answer.code == 404)
    assert (await widgets.get(WIDGETS)).code == 404
    assert [event["type"] for event in await events.rest()] == ["DELETED"] * 3
    await widgets.made(DEFINITIONS, widget_definition())
    assert (await widgets.get(WIDGETS)).names == []


async def test_a_definition_waits_for_objects_that_are_held(widgets: Client) -> None:
    held = widget("w")
    held["metadata"]["finalizers"] = ["x/y"]
    await widgets.made(WIDGETS, held)
    await widgets.delete(WIDGET_DEFINITION)
    await widgets.until(f"{WIDGETS}/w", lambda answer: "deletionTimestamp" in answer.meta)
    assert (await widgets.get(WIDGET_DEFINITION)).code == 200

    await widgets.merge(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})

    await widgets.until(WIDGET_DEFINITION, lambda answer: answer.code == 404)


def with_schema(**schema: Any) -> dict[str, Any]:
    holder = {"openAPIV3Schema": {"type": "object", **schema}} if schema else {}
    version = {"name": "v1", "served": True, "storage": True, "schema": holder}
    return widget_definition(versions=[version])


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ({**widget_definition(), "metadata": {"name": "other.demo.io"}}, 422),
        (widget_definition(scope="Galaxy"), 422),
        (widget_definition(versions=[]), 422),
        (with_schema(), 422),
        (with_schema(type="string"), 422),
        (with_schema(properties={"a": {}}), 422),
        (with_schema(properties=5), 400),
        (with_schema(minProperties="x"), 400),
        (with_schema(properties={"a": {"type": "array"}}), 422),
    ],
)
async def test_a_definition_that_could_not_be_served_is_refused(
    client: Client, definition: dict[str, Any], code: int
) -> None:
    reply = await client.post(DEFINITIONS, definition)

    assert reply.code == code
    assert (await client.get(WIDGETS)).code == 404


async def test_fields_can_be_made_selectable(client: Client) -> None:
    definition = widget_definition()
    definition["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.mode"}]
    await client.made(DEFINITIONS, definition)
    await client.made(WIDGETS, widget("x", mode="a"))
    await client.made(WIDGETS, widget("y", mode="b"))

    assert (await client.get(f"{WIDGETS}?fieldSelector=spec.mode=b")).names == ["y"]
    assert (await client.get(f"{WIDGETS}?fieldSelector=spec.size=1")).code == 400
