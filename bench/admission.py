"""How many job reviews a second one admission answers, and how quickly at half that load.

The reviews are what an API server sends for the example MPI job: its defaulting and its
validation, in turn, over TLS connections that are kept open. The server is on one core and the
client on another; because others may use these cores too, the rate per second of the server's
own processor time stands beside the rate by the clock. Replicas share nothing but the
certificate.
"""

import asyncio
import contextlib
import itertools
import os
import ssl
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from bench.figures import NotMeasured, Row, Run, Table
from bench.load import Connection, Credentials
from bench.samples import in_ms
from bench.servers import cpu_seconds, pinned_to
from bench.stack import Stack, running_stack
from bench.workload_files import load_workload
from stromboli.testkit.admissions import AdmissionProcess
from stromboli.testkit.certificates import Authority

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "admission"
QUESTION = "How many job reviews a second does one admission answer over HTTPS?"

_JOB = Path(__file__).parent.parent / "examples" / "mpi-job.yaml"


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    connections: int
    seconds: float
    paced_seconds: float
    runs: int
    replicas: tuple[int, ...]


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    run.say("starting nats-server, a sandbox, a gateway and admission")
    async with running_stack("sandbox", run.directory / "admission") as stack:
        await stack.cluster.queue("default")
        for count in workload.replicas:
            async with _replicas(stack, run.directory / f"replicas-{count}", count) as admissions:
                yield await _table(admissions, workload, run)


class _Replica(msgspec.Struct, frozen=True):
    pid: int
    to: Credentials


@contextlib.asynccontextmanager
async def _replicas(stack: Stack, directory: Path, count: int) -> AsyncGenerator[list[_Replica]]:
    """Synced and listening, each on a core of its own as far as there are cores."""
    authority = Authority(directory / "certificates")
    pair = authority.server("tls")
    tls = ssl.create_default_context(cafile=authority.certificate)
    cores = sorted(os.sched_getaffinity(0))
    async with contextlib.AsyncExitStack() as started:
        found: list[_Replica] = []
        for number in range(count):
            with pinned_to({cores[number % len(cores)]}):
                process = AdmissionProcess(
                    directory / str(number),
                    nats_url=stack.nats.url,
                    kubeconfig=stack.server.kubeconfig,
                    certificates=pair.certificate.parent,
                    name=f"admission-{number}",
                )
            await started.enter_async_context(process)
            await process.until_ready()
            url = urlsplit(await process.https_url())
            to = Credentials(host="127.0.0.1", port=url.port or 0, token="", tls=tls)
            found.append(_Replica(process.pid, to))
        yield found


async def _table(replicas: list[_Replica], workload: Workload, run: Run) -> Table:
    run.say(f"{len(replicas)} replica(s): as fast as they answer")
    rates: list[Row] = []
    for number in range(workload.runs):
        answered, took_s, cpu_s = await _flat_out(replicas, workload)
        rate: Row = {"load": f"all it takes, run {number + 1}", "reviews /s": answered / took_s}
        rates.append({**rate, "per processor second": answered / cpu_s, "n": answered})
    best = max(float(row["reviews /s"]) for row in rates)
    run.say(f"{len(replicas)} replica(s): {best:,.0f} reviews/s; now at half of that")
    latencies = await _paced(replicas, workload, best / 2)
    return Table(
        title=f"job reviews over HTTPS, {len(replicas)} replica(s)",
        rows=[*rates, {"load": "half of the best", "reviews /s": best / 2, **in_ms(latencies)}],
        notes=[f"{workload.connections} connections to each replica; mutate and validate in turn"],
    )


async def _flat_out(replicas: list[_Replica], workload: Workload) -> tuple[int, float, float]:
    """How many, in how long, for how much of the servers' processors."""
    async with _connections(replicas, workload.connections) as connections:
        pids = [replica.pid for replica in replicas]
        before, started = cpu_seconds(pids), time.perf_counter()
        give_up = started + workload.seconds
        answered = 0

        async def work(connection: Connection, requests: Iterator[bytes]) -> None:
            nonlocal answered
            while time.perf_counter() < give_up:
                await _ask(connection, next(requests))
                answered += 1

        async with asyncio.TaskGroup() as group:
            for connection, requests in connections:
                group.create_task(work(connection, requests))
        return answered, time.perf_counter() - started, cpu_seconds(pids) - before


async def _paced(replicas: list[_Replica], workload: Workload, rate: float) -> list[float]:
    """Latencies at this rate, each from when its request was due: waiting for a turn counts."""
    latencies: list[float] = []
    async with _connections(replicas, workload.connections) as connections:
        started = time.perf_counter()
        interval_s = len(connections) / rate

        async def work(position: int, connection: Connection, requests: Iterator[bytes]) -> None:
            due = started + interval_s * position / len(connections)
            while due < started + workload.paced_seconds:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                await _ask(connection, next(requests))
                latencies.append(time.perf_counter() - due)
                due += interval_s

        async with asyncio.TaskGroup() as group:
            for position, (connection, requests) in enumerate(connections):
                group.create_task(work(position, connection, requests))
    return latencies


async def _ask(connection: Connection, request: bytes) -> None:
    status = await connection.exchange(request)
    if status != 200 or b'"allowed":true' not in connection.last_answer:
        raise RuntimeError(f"expected an allowed review, got: {connection.last_answer[:500]!r}")


@contextlib.asynccontextmanager
async def _connections(
    replicas: list[_Replica], each: int
) -> AsyncGenerator[list[tuple[Connection, Iterator[bytes]]]]:
    opened: list[tuple[Connection, Iterator[bytes]]] = []
    try:
        for replica in replicas:
            requests = [replica.to.post(path, body) for path, body in _reviews()]
            for _ in range(each):
                connection = await Connection.open(replica.to)
                opened.append((connection, itertools.cycle(requests)))
        yield opened
    finally:
        for connection, _ in opened:
            connection.close()


def _reviews() -> list[tuple[str, bytes]]:
    job: dict[str, Any] = yaml.safe_load(_JOB.read_text())
    job["metadata"] |= {"namespace": "default", "uid": "6f0f64a8-5ab9-4f6f-a3c1-8b7f0a9c0c11"}
    return [(path, _review(job)) for path in ("/jobs/mutate", "/jobs/validate")]


def _review(job: dict[str, Any]) -> bytes:
    kind = {"group": "batch.volcano.sh", "version": "v1alpha1"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {**kind, "kind": "Job"},
        "resource": {**kind, "resource": "jobs"},
        "name": job["metadata"]["name"],
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "bench", "groups": ["system:authenticated"]},
        "object": job,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )
