"""How long a fresh job waits when a process was killed with -9 a moment before it came.

A whole `stromboli up`, idle. The process is killed, at once a Job is created, and the clock runs
from the kill until the last pod of its gang has a node, as the API server tells it. `up` starts
the process again. Then everything has to be ready before the next round.
"""

import asyncio
import time
from collections.abc import AsyncGenerator

import msgspec

from bench.figures import NotMeasured, Run, Table
from bench.jobs import job_manifest
from bench.samples import in_ms
from bench.workload_files import load_workload
from stromboli.api import kinds
from stromboli.kube import KubeClient
from stromboli.kube.errors import KubeError
from stromboli.testkit.installations import Installation

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "recovery"
QUESTION = "How long until a fresh job is bound, after kill -9 of each process of `up`?"

_NAMESPACE = "default"
_LATE_S = 60.0
_LOOK_S = 0.02
_QUIET_S = 2.0
"""After a round, so that leases and watches are as on a running system."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rounds: int
    gang_size: int
    nodes: int
    killed: list[str]


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    if "sandbox" not in run.servers:
        yield NotMeasured(what="recovery", reason="`up` brings its own API server, the sandbox")
        return
    flags = ["--nodes", str(workload.nodes)]
    async with (
        Installation(run.directory / "up", flags=flags) as up,
        KubeClient.connect(up.access()) as kube,
    ):
        rows = [{"killed": "nothing", **in_ms(await _rounds(up, kube, "", workload))}]
        for name in workload.killed:
            run.say(f"kill -9 of {name}")
            rows.append({"killed": name, **in_ms(await _rounds(up, kube, name, workload))})
        yield Table(
            title=f"from the kill until a fresh gang of {workload.gang_size} is bound",
            rows=rows,
            notes=["The pause of `up` before it starts a process again (0.2 s) is part of it."],
        )


async def _rounds(up: Installation, kube: KubeClient, name: str, workload: Workload) -> list[float]:
    took: list[float] = []
    for number in range(workload.rounds):
        pid = up.kill(name) if name else 0
        began = time.monotonic()
        job = f"after-{name or 'nothing'}-{number}"
        await _create(kube, job_manifest(job, workload.gang_size))
        await _until_bound(kube, job, workload.gang_size)
        took.append(time.monotonic() - began)
        if name:
            await up.until_replaced(name, pid)
            await up.until_ready()
        await asyncio.sleep(_QUIET_S)
    return took


async def _create(kube: KubeClient, manifest: dict[str, object]) -> None:
    """As a person would: again, until the API server and admission take it."""
    async with asyncio.timeout(_LATE_S):
        while True:
            try:
                await kube.create(kinds.VC_JOB, _NAMESPACE, manifest, field_manager="bench")
            except KubeError:
                await asyncio.sleep(_LOOK_S)
            else:
                return


async def _until_bound(kube: KubeClient, job: str, number: int) -> None:
    async with asyncio.timeout(_LATE_S):
        while True:
            if await _bound(kube, job, number) == number:
                return
            await asyncio.sleep(_LOOK_S)


async def _bound(kube: KubeClient, job: str, number: int) -> int:
    """How many pods of a job have a node."""
    bound = 0
    for index in range(number):
        try:
            raw = await kube.get_or_none(kinds.POD, _NAMESPACE, f"{job}-worker-{index}")
        except KubeError:
            return 0
        bound += raw is not None and b'"nodeName"' in raw
    return bound
