"""The controllers are killed in the middle of a job's life; their successors finish it.

Pods are made, a restart is under way, an action waits for its time: in the end nothing was
done twice and nothing was left out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from stromboli.api import kinds
from stromboli.api.timestamps import parse_time
from stromboli.kube import KubeClient
from stromboli.kube.wire import PatchType
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.sample_jobs import Manifest, job, task
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import Witness, witnessing

pytestmark = [pytest.mark.nats, pytest.mark.faults, pytest.mark.timeout(120)]

StartControllers = Callable[..., DeciderProcess]
PODS = 300
"""More than are asked for in one decision."""


@pytest.fixture
async def witness(own_api_server: ApiServer, cluster: ClusterBuilder) -> AsyncIterator[Witness]:
    async with (
        KubeClient.connect(own_api_server.access()) as kube,
        witnessing(kube, cluster.namespace) as witness,
    ):
        yield witness


async def started(start: StartControllers) -> DeciderProcess:
    process = start(lease_life="1s")
    await process.until_ready()
    return process


async def patched(
    cluster: ClusterBuilder, token: str, name: str, status: Manifest, *, subresource: str = ""
) -> None:
    await cluster.kube.patch(
        kinds.by_token(token),
        cluster.namespace,
        name,
        {"status": status},
        patch_type=PatchType.MERGE,
        field_manager="testkit",
        subresource=subresource,
    )


async def let_in(cluster: ClusterBuilder, *, other_than: str = "") -> str:
    """The scheduler lets the gang in; returns its uid."""

    async def new_gang() -> str | None:
        gangs = await cluster.names("vcpodgroup")
        return next((name for name, uid in gangs.items() if uid != other_than), None)

    name = await eventually(new_gang, deadline_s=30, describe="a gang that waits")
    await patched(cluster, "vcpodgroup", name, {"phase": "Inqueue"})
    return (await cluster.names("vcpodgroup"))[name]


async def all_run(cluster: ClusterBuilder) -> None:
    names = list(await cluster.names("pod"))
    gate = asyncio.Semaphore(16)

    async def run(name: str) -> None:
        async with gate:
            await patched(cluster, "pod", name, {"phase": "Running"}, subresource="status")

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(run(name))


async def status_of(cluster: ClusterBuilder) -> dict[str, Any]:
    found = await cluster.fetch("vcjob", "j")
    assert found is not None
    return found.get("status", {})


async def until_pods(cluster: ClusterBuilder, is_enough: Callable[[int], bool]) -> int:
    async def enough() -> int | None:
        number = len(await cluster.names("pod"))
        return number + 1 if is_enough(number) else None  # zero pods may be enough

    found = await eventually(enough, deadline_s=60, describe="so many pods", interval_s=0.005)
    return found - 1


async def until_status(cluster: ClusterBuilder, **wanted: Any) -> dict[str, Any]:
    async def reached() -> dict[str, Any]:
        status = await status_of(cluster)
        shown = {**status, "phase": status.get("state", {}).get("phase")}
        assert {key: shown.get(key) for key in wanted} == wanted, shown
        return status

    return await eventually(reached, deadline_s=60, describe=f"a job with {wanted}")


async def test_pods_that_were_half_made_are_made_once(
    start_controllers: StartControllers, cluster: ClusterBuilder, witness: Witness
):
    first = await started(start_controllers)
    await cluster.make("vcjob", job("j", task("t", PODS)))
    await let_in(cluster)
    made = await until_pods(cluster, lambda number: number > 0)
    first.kill()
    assert made < PODS
    await started(start_controllers)
    await until_pods(cluster, lambda number: number == PODS)
    await until_status(cluster, phase="Pending", pending=PODS)

    names = await cluster.names("pod")
    for name, uid in names.items():
        assert witness.lives(name) == [uid], f"{name} was made twice"
    status = await status_of(cluster)
    assert "retryCount" not in status
    assert status["controlledResources"]["stromboli/pods-t"] == f"0-{PODS - 1}"


async def test_a_restart_that_was_half_done_is_done_once(
    start_controllers: StartControllers, cluster: ClusterBuilder, witness: Witness
):
    first = await started(start_controllers)
    policies = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}]
    await cluster.make("vcjob", job("j", task("t", 40), policies=policies, maxRetry=5))
    old_gang = await let_in(cluster)
    await until_pods(cluster, lambda number: number == 40)
    await all_run(cluster)
    await until_status(cluster, phase="Running", running=40)
    old_pods = await cluster.names("pod")
    await patched(cluster, "pod", "j-t-3", {"phase": "Failed"}, subresource="status")
    await until_pods(cluster, lambda number: number < 40)
    first.kill()
    await started(start_controllers)
    await until_status(cluster, phase="Pending", version=1, retryCount=1)
    await let_in(cluster, other_than=old_gang)
    await until_pods(cluster, lambda number: number == 40)
    await until_status(cluster, phase="Pending", pending=40)

    assert not set(old_pods.values()) & set((await cluster.names("pod")).values())
    assert all(len(witness.lives(name)) == 2 for name in old_pods)
    await all_run(cluster)
    await until_status(cluster, phase="Running", version=1, retryCount=1)


async def test_an_action_that_waits_is_done_in_time_by_a_successor(
    start_controllers: StartControllers, cluster: ClusterBuilder
):
    first = await started(start_controllers)
    policies = [{"event": "PodFailed", "action": "TerminateJob", "timeout": "6s"}]
    await cluster.make("vcjob", job("j", task("t", 2), policies=policies))
    await let_in(cluster)
    await until_pods(cluster, lambda number: number == 2)
    await all_run(cluster)
    await until_status(cluster, phase="Running")
    await patched(cluster, "pod", "j-t-0", {"phase": "Failed"}, subresource="status")

    async def waits() -> int:
        resources = (await status_of(cluster)).get("controlledResources", {})
        since: str = resources.get("stromboli/since-PodFailed-t", "")
        assert since, resources
        return int(since.partition(":")[0])

    since = await eventually(waits, deadline_s=20, describe="the status says since when it waits")
    first.kill()
    await started(start_controllers)
    status = await until_status(cluster, phase="Terminated")

    # Not a second early; and how late depends on the machine.
    began = next(c for c in status["conditions"] if c["status"] == "Terminating")
    assert parse_time(began["lastTransitionTime"]).timestamp() >= since + 6
