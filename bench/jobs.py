"""From a Job's creation to the last of its gang bound, on an idle `stromboli up`, hop by hop.

Everything is as a person starts it: the launcher and its processes, the embedded API server,
simulated nodes. One job at a time; the next is created when the one before has completed and
nothing is said on the bus any more. The steps are told by the bus: facts carry the NATS
server's own time, intents the time of hearing.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean
from typing import Any

import msgspec

from bench.figures import NotMeasured, Run, Table
from bench.samples import in_ms
from bench.workload_files import load_workload
from stromboli.api import kinds
from stromboli.contracts.intents import BindGang
from stromboli.kube import KubeClient
from stromboli.testkit.eavesdropping import Eavesdropper, Overheard, eavesdropping
from stromboli.testkit.installations import Installation

__all__ = ["NAME", "QUESTION", "job_manifest", "measure"]

NAME = "jobs"
QUESTION = "How long from a Job's creation until the last of its gang is bound, on an idle `up`?"

_LATE_S = 30.0
_SILENCE_S = 0.15
"""When nothing was said on the bus for this long, everything is idle again."""
_NAMESPACE = "default"

STEPS = ("asked", "job", "podgroup", "enqueued", "pods", "decided", "bound")
HOPS = {
    "job": "request → the Job is a fact",
    "podgroup": "→ its PodGroup is a fact",
    "enqueued": "→ the PodGroup is Inqueue",
    "pods": "→ all pods are facts",
    "decided": "→ the scheduler asks for the binds",
    "bound": "→ all pods have nodes",
}


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    jobs: int
    warm_up: int
    gang_size: int
    nodes: int


@dataclass(slots=True)
class _Way:
    """One job's way, told by the words that pass on the bus."""

    name: str
    gang_size: int
    at: dict[str, float] = field(default_factory=dict[str, float])
    pods: set[str] = field(default_factory=set[str])
    bound: set[str] = field(default_factory=set[str])
    is_bound: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, word: Overheard) -> None:
        if isinstance(word.message, BindGang) and self._is_ours(word.message.name):
            self._reach("decided", word)
        elif (job := word.fact("vcjob")) is not None and job.metadata.name == self.name:
            self._reach("job", word)
            if job.status.state.phase == "Completed":
                self.is_over.set()
        elif (group := word.fact("vcpodgroup")) is not None and self._is_ours(group.metadata.name):
            self._reach("podgroup", word)
            if group.status.phase == "Inqueue":
                self._reach("enqueued", word)
        elif (pod := word.fact("pod")) is not None and self._is_ours(pod.metadata.name):
            self._see_pod(pod, word)

    def _see_pod(self, pod: Any, word: Overheard) -> None:
        self.pods.add(pod.metadata.name)
        if len(self.pods) == self.gang_size:
            self._reach("pods", word)
        if pod.spec.node_name:
            self.bound.add(pod.metadata.name)
        if len(self.bound) == self.gang_size:
            self._reach("bound", word)
            self.is_bound.set()

    def _is_ours(self, name: str) -> bool:
        return name.startswith(f"{self.name}-")

    def _reach(self, step: str, word: Overheard) -> None:
        self.at.setdefault(step, word.at)


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    if "sandbox" not in run.servers:
        yield NotMeasured(what="jobs", reason="`up` brings its own API server, the sandbox")
        return
    run.say("starting everything")
    flags = ["--nodes", str(workload.nodes)]
    async with (
        Installation(run.directory / "up", flags=flags) as up,
        eavesdropping(up.bus("operator")) as bus,
        KubeClient.connect(up.access()) as kube,
    ):
        run.say(f"{workload.jobs} jobs, one at a time")
        ways = [
            await _run_one(kube, bus, f"bench-{number}", workload)
            for number in range(workload.warm_up + workload.jobs)
        ][workload.warm_up :]
        yield _table(ways, workload, list(up.pids))


async def _run_one(kube: KubeClient, bus: Eavesdropper, name: str, workload: Workload) -> _Way:
    way = _Way(name, workload.gang_size)
    bus.words.clear()
    bus.on_word = way.hear
    way.at["asked"] = time.time()
    await kube.create(
        kinds.VC_JOB, _NAMESPACE, job_manifest(name, workload.gang_size), field_manager="bench"
    )
    async with asyncio.timeout(_LATE_S):
        await way.is_bound.wait()
        await way.is_over.wait()
        heard = -1
        while heard != len(bus.words):
            heard = len(bus.words)
            await asyncio.sleep(_SILENCE_S)
    return way


def _table(ways: list[_Way], workload: Workload, processes: list[str]) -> Table:
    whole = [way.at["bound"] - way.at["asked"] for way in ways]
    rows = [{"way": "request → all pods have nodes", **in_ms(whole), "share %": 100.0}]
    for before, step in pairwise(STEPS):
        hop = [way.at[step] - way.at[before] for way in ways]
        share = 100 * mean(hop) / mean(whole)
        rows.append({"way": f"  hop: {HOPS[step]}", **in_ms(hop), "share %": share})
    return Table(
        title=f"a gang of {workload.gang_size}, on {', '.join(processes)}",
        rows=rows,
        notes=["Facts are timed by the NATS server, the asking for binds by who overhears it."],
    )


def job_manifest(name: str, gang_size: int) -> dict[str, Any]:
    container = {
        "name": "worker",
        "image": "busybox",
        "command": ["exit", "0"],
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": kinds.VC_JOB.api_version,
        "kind": kinds.VC_JOB.kind,
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "minAvailable": gang_size,
            "tasks": [{"name": "worker", "replicas": gang_size, "template": template}],
        },
    }
