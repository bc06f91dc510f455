"""Kill -9 of each process of `stromboli up` at every turn of a job's life, and the loss of NATS.

Both example jobs run at once; when one of them reaches the point, the process is killed, and
`up` starts it again. Both must complete. The API server's own records tell the rest: no pod is
bound twice or asked to go to two nodes, no node ever holds more than it can, nothing is put aside.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from stromboli.api import kinds
from stromboli.contracts.streams import DEAD
from stromboli.kube import KubeClient
from stromboli.kube.errors import KubeError
from stromboli.testkit.eavesdropping import Eavesdropper, eavesdropping
from stromboli.testkit.evidence import bound_at_most_once, never_overcommitted
from stromboli.testkit.installations import NATS, Installation
from stromboli.testkit.turning_points import POINTS, JobProgress
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import Witness, witnessing

pytestmark = [pytest.mark.nats, pytest.mark.faults]

EXAMPLES = Path(__file__).parents[3] / "examples"
GANGS = {"mpi-job.yaml": 4, "tensorflow-job.yaml": 3}
NAMESPACE = "default"
ENDS = {"Completed", "Failed", "Aborted", "Terminated"}
ALL_BUS_DATA = "all data of nats"

NODES = [{"name": "node", "count": 2, "cpu": 4, "memory": "16Gi"}]
"""Room for both jobs and little more, so that a bind too many would show."""
RULES = [
    {"match": {"volcano.sh/task-spec": "mpimaster"}, "start": "20ms", "run": "500ms"},
    {"match": {"volcano.sh/task-spec": "worker"}, "start": "20ms", "run": "500ms"},
]
SOME = random.Random(3).sample(POINTS, 4)


@dataclass
class Arena:
    """A running installation, and everybody who watches it."""

    up: Installation
    kube: KubeClient
    bus: Eavesdropper
    pods: Witness
    nodes: list[dict[str, Any]]
    rounds: int = 0

    async def survives(self, victim: str, point: str, rng: random.Random) -> None:
        """Run both jobs, strike when one of them is there, and see that all ends well."""
        self.rounds += 1
        jobs = {f"{Path(file).stem}-{self.rounds}": file for file in GANGS}
        target = rng.choice(sorted(jobs))
        progress = JobProgress(target, GANGS[jobs[target]])
        self.bus.on_word = progress.hear
        for name, file in jobs.items():
            await self._submit(name, file)
        await progress.until(point, 30)
        await asyncio.sleep(rng.choice((0.0, 0.001, 0.005, 0.02)))
        self._strike(victim)
        for name in jobs:
            phase = await eventually(
                lambda name=name: self._end_of(name),
                deadline_s=60,
                interval_s=0.1,
                describe=f"{name} to end after the loss of {victim} at {point!r}",
            )
            assert phase == "Completed", f"{name}, after the loss of {victim} at {point!r}"
        await self.up.until_ready()

    async def _submit(self, name: str, file: str) -> None:
        manifest = yaml.safe_load((EXAMPLES / file).read_text())
        manifest["metadata"]["name"] = name
        await self.kube.create(kinds.VC_JOB, NAMESPACE, manifest, field_manager="test")

    def _strike(self, victim: str) -> None:
        if victim == ALL_BUS_DATA:
            self.up.lose_all_bus_data()
        else:
            self.up.kill(victim)

    async def _end_of(self, name: str) -> str:
        """The phase that a job has ended in; nothing as long as it goes on."""
        try:
            raw = await self.kube.get(kinds.VC_JOB, NAMESPACE, name)
        except KubeError as error:
            raise AssertionError(f"{name} can't be asked for: {error}") from error
        phase = msgspec.json.decode(raw).get("status", {}).get("state", {}).get("phase", "")
        return phase if phase in ENDS else ""

    def convince(self) -> None:
        """Nothing happened on the way that must not."""
        letters = [word.message for word in self.bus.of(DEAD.name)]

        assert not letters, f"put aside: {letters}"
        bound_at_most_once(self.up.audit(), self.pods)
        never_overcommitted(self.pods, self.nodes)


@pytest.fixture
async def arena(tmp_path: Path) -> AsyncIterator[Arena]:
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(NODES))
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    flags = ["--nodes", tmp_path / "nodes.yaml", "--rules", tmp_path / "rules.yaml"]
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(Installation(tmp_path / "stromboli", flags=flags))
        kube = await stack.enter_async_context(KubeClient.connect(up.access()))
        bus = await stack.enter_async_context(eavesdropping(up.bus("operator")))
        pods = await stack.enter_async_context(witnessing(kube, NAMESPACE))
        nodes = [
            msgspec.json.decode(raw)
            async for page in kube.list_pages(kinds.NODE)
            for raw in page.items
        ]
        yield Arena(up, kube, bus, pods, nodes)


def victims(arena: Arena) -> list[str]:
    return [*arena.up.pids, ALL_BUS_DATA]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", POINTS)
async def test_both_jobs_complete_whatever_is_killed_when(arena: Arena, point: str):
    """Every process once, on one installation: each is killed seldom enough to return at once."""
    for victim in victims(arena):
        await arena.survives(victim, point, random.Random(f"{victim} {point}"))

    arena.convince()


@pytest.mark.timeout(120)
async def test_both_jobs_complete_when_one_after_the_other_is_killed(arena: Arena):
    """A sample of the whole, for every day: another process at each of some points."""
    rng = random.Random(20261116)
    processes = [name for name in arena.up.pids if name != NATS]
    for point, victim in zip(SOME, [ALL_BUS_DATA, *rng.sample(processes, 3)], strict=True):
        await arena.survives(victim, point, rng)

    arena.convince()
