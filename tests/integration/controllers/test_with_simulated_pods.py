"""Volcano's own end-to-end cases with everything real but the containers.

API server, gateway, controllers and scheduler are processes, kubelets simulate the pods; nobody
plays a part by hand. A pod that runs has its grace when it is deleted.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube import KubeClient
from stromboli.sandbox.kubelets.agent import KubeletAgent
from stromboli.sandbox.kubelets.fleet import NodeGroup
from stromboli.sandbox.kubelets.runtimes import Simulated
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.live_stage import LiveStage
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.sample_jobs import Manifest, job, task
from stromboli.testkit.tasks import background

pytestmark = [pytest.mark.nats, pytest.mark.timeout(180)]

FOREVER = "nginx"
BOOM = "sleep 4 && exit 127"
"""Long enough for all to be seen running on a machine that has much to do."""


def part(name: str, replicas: int, command: str, **fields: Any) -> Manifest:
    made = task(name, replicas, command=command, **fields)
    made["template"]["spec"] |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return made


def on(event: str, action: str) -> list[Manifest]:
    return [{"event": event, "action": action}]


FOUR = (part("success", 2, FOREVER), part("fail", 2, BOOM))
DELETED = (part("success", 2, FOREVER), part("delete", 2, FOREVER))
RESTARTED = ["Pending", "Running", "Restarting", "Pending"]
JOBS: dict[str, tuple[Manifest, list[str]]] = {
    # name: (the job, the phases that it begins with)
    "failed-restarts": (job("j", *FOUR, policies=on("PodFailed", "RestartJob")), RESTARTED),
    "failed-terminates": (
        job("j", *FOUR, policies=on("PodFailed", "TerminateJob")),
        ["Pending", "Running", "Terminating", "Terminated"],
    ),
    "failed-aborts": (
        job("j", *FOUR, policies=on("PodFailed", "AbortJob")),
        ["Pending", "Running", "Aborting", "Aborted"],
    ),
    "evicted-restarts": (
        job("j", *DELETED, policies=on("PodEvicted", "RestartJob")),
        [*RESTARTED, "Running"],
    ),
    "evicted-restarts-by-its-task": (
        job("j", DELETED[0], {**DELETED[1], "policies": on("PodEvicted", "RestartJob")}),
        [*RESTARTED, "Running"],
    ),
    "task-completes": (
        job(
            "j",
            part("completed-task", 2, "sleep 4"),
            part("terminating-task", 2, FOREVER),
            policies=on("TaskCompleted", "CompleteJob"),
        ),
        ["Pending", "Running", "Completing", "Completed"],
    ),
    "exit-code-restarts": (
        job(
            "j",
            part("success", 1, FOREVER),
            part("fail", 1, "sleep 4 && exit 3"),
            policies=[{"exitCode": 3, "action": "RestartJob"}],
        ),
        RESTARTED,
    ),
    "last-retry": (
        job(
            "j",
            part("running-task", 1, FOREVER),
            part("failed-task", 1, BOOM),
            maxRetry=2,
            minSuccess=2,
            policies=[{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}],
        ),
        [*RESTARTED, "Running", "Restarting", "Failed"],
    ),
    "enough-successes": (
        job(
            "j",
            part("short", 3, "sleep 4", minAvailable=1),
            part("log", 2, FOREVER, minAvailable=1),
            minAvailable=2,
            minSuccess=2,
        ),
        ["Pending", "Running", "Completed"],
    ),
}


@pytest.fixture
async def kubelets(own_api_server: ApiServer) -> AsyncIterator[None]:
    async with KubeClient.connect(own_api_server.access()) as kube:
        agent = KubeletAgent(kube, [NodeGroup(name="node", count=2, cpu=16)], Simulated([]))
        async with background(agent.run()):
            yield


@pytest.fixture
async def real_scheduler(
    tmp_path: Path, gateway: GatewayProcess, nats_server: NatsServer
) -> AsyncIterator[DeciderProcess]:
    process = DeciderProcess("scheduler", tmp_path / "scheduler", nats_url=nats_server.url)
    await process.until_ready()
    yield process
    process.kill()


@pytest.mark.usefixtures("kubelets", "real_scheduler", "controllers")
async def test_jobs_go_through_the_phases_that_volcanos_tests_expect(
    own_api_server: ApiServer, nats_server: NatsServer
):
    async with (
        BusPeer("controllers", nats_server.url, ("queue",), leads=False) as peer,
        KubeClient.connect(own_api_server.access()) as kube,
        asyncio.TaskGroup() as playing,
    ):
        await peer.until_synced()
        for name in JOBS:
            playing.create_task(one(name, kube, peer))


async def one(name: str, kube: KubeClient, peer: BusPeer) -> None:
    manifest, wanted = JOBS[name]
    cluster = ClusterBuilder(kube, name)
    await cluster.make("namespace", {"metadata": {"name": name}})
    stage = LiveStage(cluster, peer.connection)
    await stage.submit(manifest)
    if name.startswith("evicted"):
        await stage.until(lambda picture: is_in(picture.phases, "Running", name))
        await cluster.delete("pod", "j-delete-0", grace_period_s=None)

    def begins_so(phases: list[str]) -> None:
        assert phases[: len(wanted)] == wanted, f"{name}: {phases}"

    await stage.until(lambda picture: begins_so(picture.phases))
    if wanted[-1] in ("Completed", "Terminated", "Aborted", "Failed"):
        await stage.until(lambda picture: nothing_lives(picture.status, name))
    if name == "last-retry":
        picture = await stage.until(lambda picture: are_left(picture.pods, ["j-failed-task-0"]))
        assert picture.status["retryCount"] == 2


def is_in(phases: list[str], phase: str, name: str) -> None:
    assert phase in phases, f"{name}: {phases}"


def nothing_lives(status: Manifest, name: str) -> None:
    living = {key: status.get(key, 0) for key in ("pending", "running", "terminating")}
    assert not any(living.values()), f"{name}: {living}"


def are_left(pods: dict[str, Manifest], names: list[str]) -> None:
    assert sorted(pods) == names, sorted(pods)
    assert "deletionTimestamp" not in pods[names[0]]["metadata"]
