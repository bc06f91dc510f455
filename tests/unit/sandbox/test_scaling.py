"""The scale of a workload, seen and set through its own resource."""

import pytest
from tests.unit.sandbox.conftest import Client

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SCALE = f"{DEPLOYMENTS}/d/scale"


@pytest.fixture
async def deployed(client: Client) -> Client:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": {}}
    await client.made(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    return client


async def test_a_scale_says_how_many_there_should_be(deployed: Client) -> None:
    scale = (await deployed.get(SCALE)).body

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=d"}


async def test_a_patched_scale_changes_the_workload(deployed: Client) -> None:
    reply = await deployed.merge(SCALE, {"spec": {"replicas": 5}})

    assert reply.body["spec"] == {"replicas": 5}
    changed = await deployed.get(f"{DEPLOYMENTS}/d")
    assert (changed.body["spec"]["replicas"], changed.meta["generation"]) == (5, 2)


async def test_a_stale_scale_is_a_conflict(deployed: Client) -> None:
    scale = (await deployed.get(SCALE)).body
    await deployed.merge(SCALE, {"spec": {"replicas": 5}})

    assert (await deployed.put(SCALE, scale)).code == 409


@pytest.mark.parametrize("replicas", [-1, "many"])
async def test_a_scale_that_is_no_number_is_refused(deployed: Client, replicas: object) -> None:
    assert (await deployed.merge(SCALE, {"spec": {"replicas": replicas}})).code == 400


async def test_what_is_not_there_has_no_scale(client: Client) -> None:
    assert (await client.get(SCALE)).code == 404
