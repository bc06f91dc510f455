"""What happens in the background: owners, namespaces."""

from typing import Any

import pytest
from tests.unit.sandbox.conftest import (
    CONFIG_MAPS,
    PODS,
    Client,
    Reply,
    binding,
    config_map,
    pod,
)


def owner(reply: Reply, **more: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": reply.meta["name"],
        "uid": reply.meta["uid"],
        **more,
    }


def gone(reply: Reply) -> bool:
    return reply.code == 404


async def test_dependents_follow_their_owner_down_the_line(client: Client) -> None:
    top = await client.made(CONFIG_MAPS, config_map("top"))
    middle = await client.made(CONFIG_MAPS, config_map("middle", ownerReferences=[owner(top)]))
    await client.made(CONFIG_MAPS, config_map("leaf", ownerReferences=[owner(middle)]))
    await client.made(CONFIG_MAPS, config_map("bystander"))

    await client.delete(f"{CONFIG_MAPS}/top")

    await client.until(f"{CONFIG_MAPS}/leaf", gone)
    assert (await client.get(CONFIG_MAPS)).names == ["bystander"]


async def test_a_dependent_of_nobody_is_collected_soon(client: Client) -> None:
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "no-such-uid"}

    await client.made(CONFIG_MAPS, config_map("a", ownerReferences=[nobody]))

    await client.until(f"{CONFIG_MAPS}/a", gone)


async def test_a_namesake_of_the_owner_does_not_count(client: Client) -> None:
    first = await client.made(CONFIG_MAPS, config_map("owner"))
    await client.made(CONFIG_MAPS, config_map("a", ownerReferences=[owner(first)]))

    await client.delete(f"{CONFIG_MAPS}/owner")
    await client.made(CONFIG_MAPS, config_map("owner"))

    await client.until(f"{CONFIG_MAPS}/a", gone)


async def test_an_owner_in_another_namespace_is_no_owner(client: Client) -> None:
    far = await client.made("/api/v1/namespaces/kube-system/configmaps", config_map("far"))

    await client.made(CONFIG_MAPS, config_map("a", ownerReferences=[owner(far)]))

    await client.until(f"{CONFIG_MAPS}/a", gone)


async def test_a_second_owner_keeps_it_alive(client: Client) -> None:
    one = await client.made(CONFIG_MAPS, config_map("one"))
    two = await client.made(CONFIG_MAPS, config_map("two"))
    await client.made(CONFIG_MAPS, config_map("a", ownerReferences=[owner(one), owner(two)]))

    await client.delete(f"{CONFIG_MAPS}/one")

    def has_one_owner(reply: Reply) -> bool:
        return len(reply.meta["ownerReferences"]) == 1

    reply = await client.until(f"{CONFIG_MAPS}/a", has_one_owner)
    assert reply.meta["ownerReferences"] == [owner(two)]


async def test_orphans_live_on(client: Client) -> None:
    top = await client.made(CONFIG_MAPS, config_map("top"))
    await client.made(CONFIG_MAPS, config_map("a", ownerReferences=[owner(top)]))

    await client.delete(f"{CONFIG_MAPS}/top", {"propagationPolicy": "Orphan"})

    def is_free(reply: Reply) -> bool:
        return "ownerReferences" not in reply.meta

    await client.until(f"{CONFIG_MAPS}/a", is_free)


async def test_a_running_pod_of_a_lost_owner_gets_its_grace(client: Client) -> None:
    top = await client.made(CONFIG_MAPS, config_map("top"))
    body = pod("a")
    body["metadata"]["ownerReferences"] = [owner(top)]
    await client.made(PODS, body)
    await client.made(f"{PODS}/a/binding", binding("a"))

    await client.delete(f"{CONFIG_MAPS}/top")

    reply = await client.until(f"{PODS}/a", lambda answer: "deletionTimestamp" in answer.meta)
    assert reply.meta["deletionGracePeriodSeconds"] == 30


class TestNamespaces:
    ALL = "/api/v1/namespaces"

    @pytest.fixture
    async def team(self, client: Client) -> Client:
        await client.made(self.ALL, {"metadata": {"name": "team"}})
        return client

    async def test_a_namespace_is_active_and_labelled(self, team: Client) -> None:
        reply = await team.get(f"{self.ALL}/team")

        assert reply.body["status"] == {"phase": "Active"}
        assert reply.body["spec"] == {"finalizers": ["kubernetes"]}
        assert reply.meta["labels"] == {"kubernetes.io/metadata.name": "team"}

    async def test_its_content_goes_with_it(self, team: Client) -> None:
        for number in range(120):
            await team.made(f"{self.ALL}/team/configmaps", config_map(f"c-{number}"))

        reply = await team.delete(f"{self.ALL}/team")

        assert reply.body["status"]["phase"] == "Terminating"
        await team.until(f"{self.ALL}/team", gone)
        assert (await team.get(f"{self.ALL}/team/configmaps")).names == []

    async def test_nothing_new_enters_while_it_goes(self, team: Client) -> None:
        held = config_map("held", finalizers=["x/y"])
        await team.made(f"{self.ALL}/team/configmaps", held)
        await team.delete(f"{self.ALL}/team")

        refused = await team.post(f"{self.ALL}/team/configmaps", config_map("late"))
        await team.merge(f"{self.ALL}/team/configmaps/held", {"metadata": {"finalizers": None}})

        assert (refused.code, refused.reason) == (403, "Forbidden")
        assert "because it is being terminated" in refused.message
        assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
        await team.until(f"{self.ALL}/team", gone)

    async def test_it_waits_for_pods_that_run(self, team: Client) -> None:
        pods = f"{self.ALL}/team/pods"
        await team.made(pods, pod("a"))
        await team.made(f"{pods}/a/binding", binding("a"))
        await team.delete(f"{self.ALL}/team")
        await team.until(f"{pods}/a", lambda answer: "deletionTimestamp" in answer.meta)
        assert (await team.get(f"{self.ALL}/team")).code == 200

        await team.delete(f"{pods}/a?gracePeriodSeconds=0")

        await team.until(f"{self.ALL}/team", gone)

    async def test_an_update_does_not_take_its_finalizer_but_finalize_does(
        self, team: Client
    ) -> None:
        path = f"{self.ALL}/team"

        updated = await team.merge(path, {"spec": {"finalizers": []}})
        finalized = await team.put(
            f"{path}/finalize", {"metadata": {"name": "team"}, "spec": {"finalizers": []}}
        )

        assert updated.body["spec"]["finalizers"] == ["kubernetes"]
        assert finalized.body["spec"]["finalizers"] == []

    async def test_some_namespaces_stay(self, client: Client) -> None:
        reply = await client.delete(f"{self.ALL}/default")

        assert (
            reply.message == 'namespaces "default" is forbidden: this namespace may not be deleted'
        )

    async def test_all_namespaces_cannot_be_deleted_at_once(self, client: Client) -> None:
        assert (await client.delete(self.ALL)).code == 405
