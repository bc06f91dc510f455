"""The cases of the controllers through NATS, a gateway and an API server.

One after the other on the same servers, each in a namespace of its own: starting all of them
for every case would take far longer than the cases.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from stromboli.testkit.controller_cases import LiveStage, play, read_cases
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.kube_objects import ClusterBuilder

pytestmark = [pytest.mark.nats, pytest.mark.timeout(240)]

FOLDER = Path(__file__).parents[2] / "conformance" / "controllers"
CASES = [one for one in read_cases(FOLDER) if "live" in one.plays]


async def test_controllers_do_as_the_cases_say(
    start_controllers: Callable[[], DeciderProcess], cluster: ClusterBuilder
):
    running: list[DeciderProcess] = [start_controllers()]
    await running[0].until_ready()

    async def restart() -> None:
        running.pop().kill()
        running.append(start_controllers())
        await running[0].until_ready()

    failures: list[Exception] = []
    for number, case in enumerate(CASES):
        namespace = f"case-{number}"
        await cluster.make("namespace", {"metadata": {"name": namespace}})
        try:
            await play(case, LiveStage(ClusterBuilder(cluster.kube, namespace), restart))
        except Exception as failure:  # noqa: BLE001 (all of them are told at the end)
            failures.append(failure)
    if failures:
        raise ExceptionGroup("some cases went otherwise", failures)
