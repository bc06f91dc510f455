"""How fast a trace runs: the controllers' and the scheduler's cores on virtual time.

Timed is the run alone, from the first arrival to the end of the last job, without reading the
trace and without the figures that are made of it.
"""

import random
import time
from collections.abc import AsyncGenerator
from os import getpid

import msgspec

from bench.figures import NotMeasured, Row, Run, Table
from bench.servers import rss_bytes
from bench.workload_files import load_workload
from stromboli.runtime.collecting import collect_rarely
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.manifests import Source
from stromboli.simulating.running import run_trace
from stromboli.simulating.trace import Trace
from stromboli.simulating.trace_file import read_traces

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "traces"
QUESTION = "How much faster than life does a trace of jobs run?"

_NODE_CPUS = 16
_LOAD = 0.9


class _Size(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nodes: int
    jobs: int


class _Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    traces: list[_Size]


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    collect_rarely()
    rows: list[Row] = []
    for size in load_workload("traces", _Workload, quick=run.quick).traces:
        run.say(f"{size.jobs} jobs on {size.nodes} nodes")
        rows.append(_measured(size))
    yield Table(
        title="a trace on virtual time",
        rows=rows,
        notes=["RSS is of the whole process, with what earlier figures left behind"],
    )


def _measured(size: _Size) -> Row:
    trace = _trace(size)
    cluster = Cluster(runs_for=lambda _: None)
    began, began_cpu = time.perf_counter(), time.process_time()
    ran = run_trace(trace, cluster)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    return {
        "nodes": size.nodes,
        "jobs": size.jobs,
        "pods": len(cluster.binds),
        "virtual h": round(ran.end_s / 3600, 1),
        "CPU s": round(cpu_s, 1),
        "CPU ms per job": round(cpu_s * 1000 / size.jobs, 1),
        "times faster than life": round(ran.end_s / took_s),
        "cycles": cluster.sessions,
        "RSS MiB": round(rss_bytes(getpid()) / 2**20),
    }


def _trace(size: _Size) -> Trace:
    """Always the same one for a size."""
    dice = random.Random(7)
    shapes = [
        (dice.choice([1, 1, 2, 4, 8, 16]), dice.choice([1, 2, 4]), dice.randint(60, 3600))
        for _ in range(size.jobs)
    ]
    work = sum(replicas * cpu * duration for replicas, cpu, duration in shapes)
    span_s = work / (size.nodes * _NODE_CPUS * _LOAD)
    at = 0.0
    lines = ["at,duration,queue,replicas,cpu,memory"]
    for replicas, cpu, duration in shapes:
        at += dice.expovariate(size.jobs / span_s)
        queue = dice.choice(["a", "a", "b", "c"])
        lines.append(f"{at:.1f},{duration},{queue},{replicas},{cpu},{2 * cpu}Gi")
    cluster = (
        f"nodes: [{{name: n, count: {size.nodes}, cpu: {_NODE_CPUS}, memory: 64Gi}}]\n"
        "queues: [{name: a, weight: 2}, {name: b}, {name: c}]\n"
    )
    return read_traces([Source("cluster.yaml", cluster), Source("jobs.csv", "\n".join(lines))])
