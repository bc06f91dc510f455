"""The life-cycle cases through real processes; the test is the scheduler and the kubelet.

All cases of a file are played at the same time, each in a namespace of its own. In every run
only those are played that `test_with_simulated_pods` does not cover; all of them, and on both
API servers, with what is marked e2e.
"""

import asyncio
from pathlib import Path

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.case_player import play
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.lifecycle_cases import Case, read_cases
from stromboli.testkit.live_stage import LiveStage, kinds_looked_at

pytestmark = [pytest.mark.nats, pytest.mark.timeout(180)]

CASES = [
    case
    for case in read_cases(Path(__file__).parents[2] / "conformance" / "lifecycle")
    if "live" in case.plays
]
AT_ONCE = 8
OFTEN = ("bad_input", "making")
FILES = [
    pytest.param(file, marks=() if file in OFTEN else pytest.mark.e2e)
    for file in sorted({case.file for case in CASES})
]


@pytest.mark.parametrize("file", FILES)
async def test_jobs_live_as_the_cases_say(
    file: str,
    own_api_server: ApiServer,
    controllers: DeciderProcess,
    scheduler: BusPeer,
):
    await scheduler.until_seen("queue", "", "default")
    chosen = [case for case in CASES if case.file == file]
    places = asyncio.Semaphore(AT_ONCE)
    async with (
        KubeClient.connect(own_api_server.access()) as kube,
        asyncio.TaskGroup() as playing,
    ):
        for number, case in enumerate(chosen):
            playing.create_task(play_one(case, kube, scheduler, f"case-{number}", places))


async def play_one(
    case: Case, kube: KubeClient, peer: BusPeer, namespace: str, places: asyncio.Semaphore
) -> None:
    async with places:
        cluster = ClusterBuilder(kube, namespace)
        await cluster.make("namespace", {"metadata": {"name": namespace}})
        await play(case, LiveStage(cluster, peer.connection, kinds_looked_at(case)))
