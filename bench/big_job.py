"""A job of very many pods is made; how long does a small one wait meanwhile?

The bench is the user and the scheduler: it submits jobs, lets their gangs in, and looks for
what the controllers make of them. A small job's clock runs from its submission to its
PodGroup, and again from the moment it is let in to its last pod.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import msgspec

from bench.figures import NotMeasured, Row, Run, Table
from bench.samples import in_ms
from bench.servers import Unavailable, cpu_seconds, rss_bytes
from bench.stack import MANAGER, Stack, running_stack
from bench.workload_files import load_workload
from stromboli.api import kinds
from stromboli.kube.wire import PatchType
from stromboli.testkit.api_server import ServerKind
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.sample_jobs import job, task
from stromboli.testkit.waiting import eventually

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "big-job"
QUESTION = "While the pods of a very large job are made, how long does a small job wait?"

_DEADLINE_S = 60.0
_BIG_DEADLINE_S = 900.0
_LOOK_EVERY_S = 0.01


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pods: int
    small_pods: int
    idle_jobs: int
    at_least: int


@dataclass(slots=True)
class _Waits:
    to_gang: list[float] = field(default_factory=list[float])
    to_pods: list[float] = field(default_factory=list[float])

    def rows(self, when: str) -> list[Row]:
        return [
            {"small job": f"submitted → PodGroup, {when}", **in_ms(self.to_gang)},
            {"small job": f"let in → its last pod, {when}", **in_ms(self.to_pods)},
        ]


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload("big_job", Workload, quick=run.quick)
    for kind in run.servers:
        run.say(f"starting nats-server, {kind}, a gateway and controllers")
        try:
            async with running_stack(kind, run.directory / f"big-job-{kind}") as stack:
                for table in await _on(stack, kind, workload, run):
                    yield table
        except Unavailable as problem:
            yield NotMeasured(what=f"on {kind}", reason=str(problem))


async def _on(stack: Stack, kind: ServerKind, workload: Workload, run: Run) -> list[Table]:
    controllers = DeciderProcess(
        "controllers",
        run.directory / f"controllers-{kind}",
        nats_url=stack.nats.url,
        lease_life="10s",
    )
    try:
        await controllers.until_ready(60.0)
        return await _Session(stack, controllers, kind, workload, run).tables()
    finally:
        controllers.kill()


@dataclass(slots=True)
class _Session:
    stack: Stack
    controllers: DeciderProcess
    server: ServerKind
    workload: Workload
    run: Run
    submitted: int = 0

    async def tables(self) -> list[Table]:
        self.run.say("small jobs on an idle machine")
        idle = _Waits()
        for _ in range(self.workload.idle_jobs):
            await self._small_job(idle)
        pid = self.controllers.pid
        rss_before, cpu_before = rss_bytes(pid), cpu_seconds([pid])
        self.run.say(f"a job of {self.workload.pods:,} pods, and small ones meanwhile")
        busy = _Waits()
        started = time.monotonic()
        big = await self._submit("big", self.workload.pods)
        await self._let_in("big", big)
        took_s = await self._meanwhile(busy, started)
        pods = self.workload.pods
        grown = rss_bytes(pid) - rss_before
        spent_s = cpu_seconds([pid]) - cpu_before
        big_job: Row = {
            "pods": pods,
            "all made after s": took_s,
            "pods /s": pods / took_s,
            "controllers CPU ms per pod": spent_s * 1000 / pods,
            "controllers RSS KiB per pod": grown / 1024 / pods,
            "controllers RSS MiB": rss_bytes(pid) / 1024**2,
        }
        return [
            Table(
                title=f"a small job of {self.workload.small_pods} pods, on {self.server}",
                rows=[*idle.rows("alone"), *busy.rows("beside the large one")],
            ),
            Table(title=f"the large job, on {self.server}", rows=[big_job]),
        ]

    async def _meanwhile(self, waits: _Waits, started: float) -> float:
        """Small jobs, one after the other, until the large one is complete."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._until_complete(started))
            while not watching.done() or len(waits.to_pods) < self.workload.at_least:
                await self._small_job(waits)
        return watching.result()

    async def _until_complete(self, started: float) -> float:
        async def has_all() -> bool:
            found = await self.stack.cluster.fetch("vcjob", "big")
            status = (found or {}).get("status", {})
            return status.get("pending", 0) >= self.workload.pods

        await eventually(
            has_all,
            deadline_s=_BIG_DEADLINE_S,
            describe="all pods of the large job",
            interval_s=0.2,
        )
        return time.monotonic() - started

    async def _small_job(self, waits: _Waits) -> None:
        self.submitted += 1
        name = f"small-{self.submitted}"
        before = time.monotonic()
        uid = await self._submit(name, self.workload.small_pods)
        await self._until_there("vcpodgroup", f"{name}-{uid}")
        waits.to_gang.append(time.monotonic() - before)
        before = time.monotonic()
        await self._let_in(name, uid)
        await self._until_there("pod", f"{name}-t-{self.workload.small_pods - 1}")
        waits.to_pods.append(time.monotonic() - before)

    async def _submit(self, name: str, pods: int) -> str:
        written = await self.stack.cluster.make("vcjob", job(name, task("t", pods)))
        return written.uid

    async def _let_in(self, name: str, uid: str) -> None:
        gang = f"{name}-{uid}"
        await self._until_there("vcpodgroup", gang)
        await self.stack.kube.patch(
            kinds.VC_POD_GROUP,
            self.stack.namespace,
            gang,
            {"status": {"phase": "Inqueue"}},
            patch_type=PatchType.MERGE,
            field_manager=MANAGER,
        )

    async def _until_there(self, token: str, name: str) -> None:
        await eventually(
            lambda: self.stack.cluster.fetch(token, name),
            deadline_s=_DEADLINE_S,
            describe=f"{token} {name}",
            interval_s=_LOOK_EVERY_S,
        )
