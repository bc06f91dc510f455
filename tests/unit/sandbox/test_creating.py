import asyncio
import itertools

import pytest
from tests.unit.sandbox.conftest import CONFIG_MAPS, PODS, Client, Reply, config_map, pod


async def test_a_new_object_gets_what_only_the_server_can_give(client: Client) -> None:
    body = config_map("a", uid="mine", generation=7, deletionTimestamp="2020-01-01T00:00:00Z")

    meta = (await client.made(CONFIG_MAPS, body)).meta

    assert meta["uid"] != "mine"
    assert meta["namespace"] == "default"
    assert int(meta["resourceVersion"]) > 0
    assert "generation" not in meta
    assert "deletionTimestamp" not in meta


async def test_a_name_is_taken_once(client: Client) -> None:
    await client.made(CONFIG_MAPS, config_map("a"))

    again = await client.post(CONFIG_MAPS, config_map("a"))

    assert (again.code, again.reason) == (409, "AlreadyExists")
    assert again.message == 'configmaps "a" already exists'


async def test_generated_names_differ(client: Client) -> None:
    body = {"metadata": {"generateName": "gen-"}}
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.made(CONFIG_MAPS, body)) for _ in range(20)]

    names = {task.result().meta["name"] for task in tasks}

    assert len(names) == 20
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"metadata": {}}, 422, "name or generateName is required"),
        ({"metadata": {"name": "A"}}, 422, "a lowercase RFC 1123 subdomain"),
        ({"metadata": {"name": "a", "namespace": "x"}}, 400, "namespace of the provided object"),
        ({"metadata": {"name": "a", "labels": {"a": 1}}}, 400, "cannot be handled as a ConfigMap"),
        ({"metadata": {"name": "a"}, "data": {"a": 1}}, 400, "cannot be handled as a ConfigMap"),
        ({"metadata": {"name": "a"}, "kind": "Pod"}, 400, "cannot be handled as a ConfigMap"),
        ({"metadata": {"name": "a", "resourceVersion": "5"}}, 400, "resourceVersion should not"),
        ({"metadata": {"name": "a", "labels": {"x y": "1"}}}, 422, "metadata.labels"),
        ({"metadata": {"name": "a", "finalizers": ["x"]}}, 422, "neither a standard finalizer"),
        ({"metadata": {"name": "a", "ownerReferences": [{"name": "x"}]}}, 422, "ownerReferences"),
        (b"garbage", 400, "the object provided is unrecognized"),
        (b"", 400, "the object provided is unrecognized"),
        (b"[]", 400, "the object provided is unrecognized"),
        (b"[" * 5000, 400, ""),
        (b'{"a":' * 900 + b"1" + b"}" * 900, 422, "name or generateName"),
    ],
)
async def test_a_bad_object_is_refused_with_a_reason(
    client: Client, body: object, code: int, message: str
) -> None:
    reply = await client.post(CONFIG_MAPS, body)

    assert (reply.code, reply.body["kind"], reply.body["status"]) == (code, "Status", "Failure")
    assert message in reply.message
    assert (await client.get(CONFIG_MAPS)).names == []


async def test_content_needs_a_namespace_that_exists(client: Client) -> None:
    reply = await client.post("/api/v1/namespaces/nowhere/configmaps", config_map("a"))

    assert (reply.code, reply.message) == (404, 'namespaces "nowhere" not found')


async def test_a_dry_run_answers_as_if_and_stores_nothing(client: Client) -> None:
    reply = await client.made(f"{PODS}?dryRun=All", pod("a"))

    assert reply.body["spec"]["restartPolicy"] == "Always"
    assert "resourceVersion" not in reply.meta
    assert (await client.get(f"{PODS}/a")).code == 404


async def test_nulls_are_absent_fields(client: Client) -> None:
    body = {"metadata": {"name": "a", "creationTimestamp": None, "labels": None}, "data": None}

    reply = await client.made(CONFIG_MAPS, body)

    assert "labels" not in reply.meta
    assert "data" not in reply.body


async def test_a_wrong_method_or_path_is_told_apart(client: Client) -> None:
    assert (await client.put(PODS, pod("a"))).code == 405
    assert (await client.post("/api/v1/pods", pod("a"))).code == 405
    assert (await client.get("/api/v1/unknowns")).message == (
        "the server could not find the requested resource"
    )
    assert (await client.get("/apis/no.such/v1/things")).code == 404
    assert (await client.get("/nothing")).text == "404 page not found\n"


async def test_a_body_in_another_format_is_refused(client: Client) -> None:
    reply = await client.call("POST", PODS, b"<pod/>", content_type="application/xml")

    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


async def test_fields_that_a_built_in_kind_does_not_have_are_dropped(client: Client) -> None:
    body = {**config_map("a"), "colour": "red", "spec": {}}

    assert set((await client.made(CONFIG_MAPS, body)).body) == {
        "apiVersion",
        "kind",
        "metadata",
        "data",
    }


class TestYaml:
    @staticmethod
    async def post(client: Client, text: str) -> Reply:
        return await client.call(
            "POST", CONFIG_MAPS, text.encode(), content_type="application/yaml"
        )

    async def test_a_body_may_be_yaml(self, client: Client) -> None:
        text = """
metadata:
  name: a
  annotations: {since: 2020-01-01, "1": one}
data:
  key: |
    two
    lines
"""
        reply = await self.post(client, text)

        assert reply.code == 201
        assert reply.body["data"] == {"key": "two\nlines\n"}
        assert reply.meta["annotations"] == {"since": "2020-01-01", "1": "one"}

    @pytest.mark.parametrize(
        "text",
        [
            "a: [",
            "a: b: c",
            "a: !!python/object:os.system x",
            "a: &x [1]\nb: *x",
            "a: 1\n---\nb: 2",
            "\x00",
        ],
    )
    async def test_what_is_no_plain_yaml_is_refused(self, client: Client, text: str) -> None:
        reply = await self.post(client, text)

        assert (reply.code, reply.reason) == (400, "BadRequest")
        assert "error converting YAML to JSON" in reply.message

    async def test_aliases_cannot_be_used_to_fill_the_memory(self, client: Client) -> None:
        lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
        names = "abcdefghij"
        for before, name in itertools.pairwise(names):
            lines.append(f"{name}: &{name} [" + ",".join([f"*{before}"] * 9) + "]")

        assert (await self.post(client, "\n".join(lines))).code == 400
