import asyncio

import pytest
from tests.unit.sandbox.conftest import PODS, Client, binding, pod

BIND = f"{PODS}/a/binding"


async def test_binding_gives_a_pod_its_node_and_tells_watchers(client: Client) -> None:
    made = await client.made(PODS, pod("a", labels={"x": "y"}))
    events = await client.watch(PODS, f"resourceVersion={made.meta['resourceVersion']}")

    reply = await client.post(BIND, binding("a", labels={"l": "m"}, annotations={"k": "v"}))

    bound = (await events.next())["object"]
    assert (reply.code, reply.body["status"]) == (201, "Success")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["labels"] == {"x": "y", "l": "m"}
    assert bound["metadata"]["annotations"] == {"k": "v"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert bound["metadata"]["generation"] == 1


async def test_a_pod_is_bound_once(client: Client) -> None:
    await client.made(PODS, pod("a"))
    await client.made(BIND, binding("a", "n1"))

    reply = await client.post(BIND, binding("a", "n2"))

    assert (reply.code, reply.reason) == (409, "Conflict")
    assert reply.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )


async def test_of_many_binds_at_once_one_wins(client: Client) -> None:
    await client.made(PODS, pod("a"))

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(client.post(BIND, binding("a", f"n{number}"))) for number in range(20)
        ]

    codes = sorted(task.result().code for task in tasks)
    assert codes == [201] + [409] * 19


async def test_a_bind_for_another_uid_is_refused(client: Client) -> None:
    made = await client.made(PODS, pod("a"))

    wrong = await client.post(BIND, binding("a", uid="other"))
    right = await client.post(BIND, binding("a", uid=made.meta["uid"]))

    assert (wrong.code, right.code) == (409, 201)
    assert "Precondition failed: UID in precondition: other" in wrong.message


async def test_a_pod_that_is_being_deleted_cannot_be_bound(client: Client) -> None:
    await client.made(PODS, {**pod("a"), "metadata": {"name": "a", "finalizers": ["x/y"]}})
    await client.delete(f"{PODS}/a")

    reply = await client.post(BIND, binding("a"))

    assert reply.code == 409
    assert "pod a is being deleted, cannot be assigned to a host" in reply.message


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"target": {"name": "n"}}, 400),
        ({"metadata": {"name": "b"}, "target": {"name": "n"}}, 400),
        ({"metadata": {"name": "a", "namespace": "x"}, "target": {"name": "n"}}, 400),
        ({"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "n"}}, 400),
        ({"metadata": {"name": "a"}, "target": {}}, 400),
        ({"metadata": {"name": "a"}, "target": 5}, 400),
        (b"{", 400),
    ],
)
async def test_a_bad_binding_binds_nothing(client: Client, body: object, code: int) -> None:
    await client.made(PODS, pod("a"))

    assert (await client.post(BIND, body)).code == code
    assert "nodeName" not in (await client.get(f"{PODS}/a")).body["spec"]


async def test_only_existing_pods_can_be_bound(client: Client) -> None:
    assert (await client.post(BIND, binding("a"))).code == 404
    assert (await client.get(BIND)).code == 405


async def test_the_older_way_to_bind_works_too(client: Client) -> None:
    await client.made(PODS, pod("a"))

    await client.made("/api/v1/namespaces/default/bindings", binding("a"))

    assert (await client.get(f"{PODS}/a")).body["spec"]["nodeName"] == "n1"


class TestEviction:
    PATH = f"{PODS}/a/eviction"

    async def test_an_eviction_says_why_and_deletes(self, client: Client) -> None:
        await client.made(PODS, pod("a"))
        await client.made(BIND, binding("a"))

        reply = await client.post(
            self.PATH,
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}},
        )

        evicted = await client.get(f"{PODS}/a")
        assert (reply.code, reply.body["status"]) == (201, "Success")
        assert evicted.meta["deletionGracePeriodSeconds"] == 30
        assert evicted.body["status"]["conditions"][-1]["type"] == "DisruptionTarget"

    async def test_an_eviction_of_another_uid_leaves_the_pod_alone(self, client: Client) -> None:
        made = await client.made(PODS, pod("a"))
        options = {"preconditions": {"uid": "other"}}

        reply = await client.post(self.PATH, {"metadata": {"name": "a"}, "deleteOptions": options})

        assert reply.code == 409
        assert (await client.get(f"{PODS}/a")).meta == made.meta

    async def test_a_pending_pod_is_gone_after_its_eviction(self, client: Client) -> None:
        await client.made(PODS, pod("a"))

        await client.made(self.PATH, {"metadata": {"name": "a"}})

        assert (await client.get(f"{PODS}/a")).code == 404
        assert (await client.post(self.PATH, {"metadata": {"name": "a"}})).code == 404

    async def test_the_names_must_agree(self, client: Client) -> None:
        await client.made(PODS, pod("a"))

        assert (await client.post(self.PATH, {"metadata": {"name": "b"}})).code == 400
