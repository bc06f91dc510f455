"""From an intent on the bus to its outcome: one at a time, many jobs at once, one large gang.

The clock starts before the intent is published and stops when its OUTCOME is heard; between
lie the store of INTENT, the gateway's checks, the API call, and the store of OUTCOME. The same
patch sent straight to the API server stands beside it: the difference is what the bus costs.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench.figures import NotMeasured, Row, Run, Table
from bench.objects import new_pod
from bench.peer import Heard, MeasuringPeer, measuring_peer
from bench.samples import in_ms, median_and_best
from bench.servers import Unavailable, cpu_seconds, server_pids
from bench.stack import MANAGER, Stack, running_stack
from bench.workload_files import load_workload
from stromboli.api import kinds
from stromboli.contracts.intents import BINDS_PER_PART, AnyIntent
from stromboli.contracts.outcomes import Applied, GangBound
from stromboli.kube.wire import PatchType, Written
from stromboli.testkit.api_server import ServerKind
from stromboli.testkit.kube_objects import owned_by

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "intents"
QUESTION = "How long until an intent is applied and its outcome heard, and how many per second?"

_LIVES_S = 60.0
_MAKERS = 16


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    single: int
    warm_up: int
    gangs: int
    gang_size: int
    jobs: int
    per_job: int
    large_gang: int
    repeats: int


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    for kind in run.servers:
        run.say(f"starting nats-server, {kind} and a gateway")
        try:
            async with _everyone(kind, run) as session:
                run.say("one intent at a time")
                yield await session.one_at_a_time(workload)
                run.say("many at once")
                yield await session.many_at_once(workload)
        except Unavailable as problem:
            yield NotMeasured(what=f"on {kind}", reason=str(problem))


@contextlib.asynccontextmanager
async def _everyone(kind: ServerKind, run: Run) -> AsyncGenerator["_Session"]:
    async with (
        running_stack(kind, run.directory / f"intents-{kind}") as stack,
        # Only its outcomes matter: a second view of all pods would use the cores that we measure.
        measuring_peer("controllers", stack.nats.url, ("queue",)) as controllers,
        measuring_peer("scheduler", stack.nats.url, ("pod", "node")) as scheduler,
    ):
        node = await stack.cluster.node("node-0")
        yield _Session(stack, controllers, scheduler, node, kind)


@dataclass(slots=True)
class _Rates:
    """One kind of work, over all repeats."""

    per_s: list[float] = field(default_factory=list[float])
    gateway_ms: list[float] = field(default_factory=list[float])
    server_ms: list[float] = field(default_factory=list[float])

    def columns(self) -> Row:
        return {
            **median_and_best(self.per_s),
            "gateway CPU ms each": min(self.gateway_ms),
            "server CPU ms each": min(self.server_ms),
        }


class _Session:
    """One stack with a controller and a scheduler on its bus."""

    def __init__(
        self,
        stack: Stack,
        controllers: MeasuringPeer,
        scheduler: MeasuringPeer,
        node: str,
        server: ServerKind,
    ) -> None:
        self._stack = stack
        self._controllers = controllers
        self._scheduler = scheduler
        self._node = node
        self._server = server
        self._pods_made = 0

    async def one_at_a_time(self, workload: Workload) -> Table:
        patched = (await self._make_pods(1))[0]
        job = await self._stack.cluster.job("single")
        rounds = range(workload.warm_up + workload.single)
        straight = [await self._patch_straight(patched, number) for number in rounds]
        patches = [
            await _timed(self._controllers, self._patch(patched, "single", number))
            for number in rounds
        ]
        creates = [await _timed(self._controllers, self._create(job, "single")) for _ in rounds]
        gangs = [
            await _timed(self._scheduler, *await self._gang(workload.gang_size))
            for _ in range(workload.gangs)
        ]
        skipped = workload.warm_up
        return Table(
            title=f"intent → outcome heard, on {self._server}",
            rows=[
                {"intent": "patch a pod's annotation", **in_ms(patches[skipped:])},
                {"intent": "create a pod", **in_ms(creates[skipped:])},
                {"intent": f"bind a gang of {workload.gang_size}", **in_ms(gangs)},
                {"intent": "for comparison: the patch, no bus", **in_ms(straight[skipped:])},
            ],
        )

    async def many_at_once(self, workload: Workload) -> Table:
        patches, creates, binds = _Rates(), _Rates(), _Rates()
        for repeat in range(workload.repeats):
            names = [f"many-{repeat}-{number}" for number in range(workload.jobs)]
            pods = await self._make_pods(workload.jobs)
            each = range(workload.per_job)
            patching = [
                self._patch(pod, name, number)
                for number in each
                for pod, name in zip(pods, names, strict=True)
            ]
            await self._rate(self._controllers, patching, into=patches)
            jobs = [await self._stack.cluster.job(name) for name in names]
            creating = [self._create(job, job.name) for _ in each for job in jobs]
            await self._rate(self._controllers, creating, into=creates)
            gang = await self._gang(workload.large_gang)
            await self._rate(self._scheduler, gang, counting=workload.large_gang, into=binds)
        total = workload.jobs * workload.per_job
        rows: list[Row] = [
            {"work": f"{total:,} patches of {workload.jobs} jobs", **patches.columns()},
            {"work": f"{total:,} pod creates of {workload.jobs} jobs", **creates.columns()},
            {"work": f"binds of one gang of {workload.large_gang:,}", **binds.columns()},
        ]
        return Table(
            title=f"intents per second, from the first publish to the last outcome, "
            f"on {self._server}",
            rows=rows,
        )

    async def _rate(
        self,
        peer: MeasuringPeer,
        intents: Sequence[AnyIntent],
        *,
        into: "_Rates",
        counting: int | None = None,
    ) -> None:
        """All published as fast as the bus takes them; `counting` is what they come to."""
        count = counting or len(intents)
        gateway, server = [self._stack.gateway.pid], server_pids()
        gateway_s, server_s = cpu_seconds(gateway), cpu_seconds(server)
        started = time.time()
        async with asyncio.timeout(_LIVES_S):
            async with asyncio.TaskGroup() as group:
                asking = [group.create_task(peer.ask(intent)) for intent in intents]
            heard = [await task.result() for task in asking]
        into.gateway_ms.append((cpu_seconds(gateway) - gateway_s) * 1000 / count)
        into.server_ms.append((cpu_seconds(server) - server_s) * 1000 / count)
        into.per_s.append(count / (max(one.at for one in heard) - started))
        for one in heard:
            _check(one)

    # Pods and intents.

    async def _make_pods(self, count: int) -> list[Written]:
        """Pods made straight at the API server, and known to gateway and scheduler."""
        made: list[Written] = []
        numbers = iter(range(self._pods_made, self._pods_made + count))
        self._pods_made += count

        async def maker() -> None:
            for number in numbers:
                body = new_pod(number, self._stack.namespace)
                made.append(
                    await self._stack.kube.create(
                        kinds.POD, self._stack.namespace, body, field_manager=MANAGER
                    )
                )

        async with asyncio.TaskGroup() as group:
            for _ in range(_MAKERS):
                group.create_task(maker())
        await self._scheduler.until_in_view("pod", self._pods_made, self._stack.namespace)
        return made

    def _create(self, job: Written, job_name: str) -> AnyIntent:
        number = self._pods_made
        self._pods_made += 1
        manifest: dict[str, Any] = msgspec.json.decode(new_pod(number, self._stack.namespace))
        return self._controllers.words.create(
            "pod",
            owned_by(manifest, job, kinds.VC_JOB),
            owner_uid=job.uid,
            job=job_name,
            lives_s=_LIVES_S,
        )

    def _patch(self, pod: Written, job_name: str, number: int) -> AnyIntent:
        return self._controllers.words.patch(
            "pod",
            pod.namespace,
            pod.name,
            uid=pod.uid,
            body=_annotation(number),
            job=job_name,
            lives_s=_LIVES_S,
        )

    async def _patch_straight(self, pod: Written, number: int) -> float:
        started = time.perf_counter()
        await self._stack.kube.patch(
            kinds.POD,
            pod.namespace,
            pod.name,
            _annotation(-number - 1),
            patch_type=PatchType.MERGE,
            field_manager=MANAGER,
        )
        return time.perf_counter() - started

    async def _gang(self, size: int) -> list[AnyIntent]:
        """Fresh pods, and the intents that bind them all."""
        pods = await self._make_pods(size)
        binds = [(pod.name, pod.uid, self._node) for pod in pods]
        parts = list(_parts(binds))
        return [
            self._scheduler.words.bind(
                self._stack.namespace,
                f"gang-{self._pods_made}",
                part,
                part=number,
                parts=len(parts),
                lives_s=_LIVES_S,
            )
            for number, part in enumerate(parts)
        ]


def _annotation(number: int) -> dict[str, Any]:
    return {"metadata": {"annotations": {"bench.stromboli/round": str(number)}}}


def _parts(binds: Sequence[tuple[str, str, str]]) -> Iterator[Sequence[tuple[str, str, str]]]:
    for start in range(0, len(binds), BINDS_PER_PART):
        yield binds[start : start + BINDS_PER_PART]


async def _timed(peer: MeasuringPeer, *intents: AnyIntent) -> float:
    """Seconds from before the first publish until the last outcome was heard."""
    started = time.time()
    async with asyncio.timeout(_LIVES_S):
        waiting = [await peer.ask(intent) for intent in intents]
        heard = [await future for future in waiting]
    for one in heard:
        _check(one)
    return max(one.at for one in heard) - started


def _check(heard: Heard) -> None:
    """A refusal is quick; counting it as applied would flatter."""
    match heard.outcome:
        case Applied():
            return
        case GangBound(pods=pods) if all(pod.bound for pod in pods):
            return
        case outcome:
            raise RuntimeError(f"an intent of the benchmark was not applied: {outcome}")
