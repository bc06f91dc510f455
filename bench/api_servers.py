"""Creates and binds per second of an API server that has one core to itself.

The load comes from the other core, and so do the watchers. Each of these checks that it was told
of every pod, once: a server that drops events under load would look quick. How busy either core
was stands beside the rates, because a busy client means that the server was not the limit.
"""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from operator import truediv
from typing import Final

import msgspec

from bench.figures import NotMeasured, Row, Run, Table
from bench.load import Connection, Credentials, send_all
from bench.objects import new_pod, pod_name
from bench.samples import median_and_best
from bench.servers import Server, Unavailable, api_server, cpu_seconds, pinned_to, server_pids
from bench.stack import make_namespace
from bench.workload_files import load_workload
from stromboli.api import kinds
from stromboli.kube import KubeClient
from stromboli.kube.wire import EventType
from stromboli.testkit.api_server import ServerKind
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "api-servers"
QUESTION = "How many creates and binds per second does an API server do on one core?"

_WATCHERS_DEADLINE_S = 30.0

_VARIANTS: Final[dict[ServerKind, dict[str, tuple[str, ...]]]] = {
    "sandbox": {"sandbox": (), "sandbox, fsync always": ("--fsync", "always")},
    "kube-apiserver": {"kube-apiserver": ()},
}
"""Per server, the flags it is measured with. etcd syncs its disk before it answers and the
sandbox by default does not, so that the fair comparison is with one that does."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pods: int
    warm_up: int
    connections: int
    watchers: int
    repeats: int


@dataclass(slots=True)
class _Watcher:
    """What one watcher was told: per type of event, pod → how often."""

    told: dict[EventType, dict[str, int]] = field(
        default_factory=lambda: {EventType.ADDED: {}, EventType.MODIFIED: {}}
    )
    uids: dict[str, str] = field(default_factory=dict[str, str])
    is_open: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, kube: KubeClient, namespace: str, resource_version: str) -> None:
        async with kube.watch(
            kinds.POD, resource_version=resource_version, namespace=namespace
        ) as watch:
            self.is_open.set()
            while events := await watch.read():
                for event in events:
                    if (told := self.told.get(event.type)) is not None:
                        told[event.name] = told.get(event.name, 0) + 1
                        self.uids[event.name] = event.uid

    def was_told_once(self, type_: EventType, pods: int) -> bool:
        """Of all pods of the workload, of each exactly once, and of no other."""
        return self.told[type_] == {pod_name(number): 1 for number in range(pods)}


@dataclass(slots=True)
class _Rates:
    """One kind of request, over all repeats."""

    per_s: list[float] = field(default_factory=list[float])
    watchers_s: list[float] = field(default_factory=list[float])
    server_busy: list[float] = field(default_factory=list[float])
    client_busy: list[float] = field(default_factory=list[float])

    def row(self, server: str, work: str, *, events: int) -> Row:
        best = self.per_s.index(max(self.per_s))
        return {
            "server": server,
            "work": work,
            **median_and_best(self.per_s),
            "per CPU s": statistics.median(map(truediv, self.per_s, self.server_busy)),
            "watchers' events": events,
            "last event after ms": self.watchers_s[best] * 1000,
            "server core %": self.server_busy[best] * 100,
            "client core %": self.client_busy[best] * 100,
        }


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        yield NotMeasured(what="all of it", reason="it needs two cores, one for the server")
        return
    workload = load_workload("api_servers", Workload, quick=run.quick)
    rows: list[Row] = []
    for kind, name, flags in _variants(run.servers):
        run.say(f"starting {name} on core {cores[0]}")
        folder = run.directory / name
        try:
            async with api_server(kind, folder, cores={cores[0]}, flags=flags) as server:
                with pinned_to({cores[1]}):
                    rows += await _on(server, name, workload, run)
        except Unavailable as problem:
            yield NotMeasured(what=name, reason=str(problem))
    if rows:
        yield Table(
            title="requests per second; the server has one core, load and watchers the other",
            rows=rows,
            notes=[
                f"Pods of {len(new_pod(0, 'x')):,} bytes, validation on.",
                f"{workload.connections} connections; kube-apiserver shares its core with etcd.",
                f"Each of {workload.watchers} watchers was told of every pod exactly once.",
                '"per CPU s": per second of the server\'s processor time, as on an idle core.',
                '"last event" is how long after the last answer the last watcher had everything.',
            ],
        )


def _variants(
    servers: Sequence[ServerKind],
) -> Iterator[tuple[ServerKind, str, tuple[str, ...]]]:
    for kind in servers:
        for name, flags in _VARIANTS[kind].items():
            yield kind, name, flags


async def _on(server: Server, name: str, workload: Workload, run: Run) -> list[Row]:
    creates, binds = _Rates(), _Rates()
    to = Credentials.read(server.kubeconfig)
    async with KubeClient.connect(server.access()) as kube, AsyncExitStack() as stack:
        connections = [await Connection.open(to) for _ in range(workload.connections)]
        for connection in connections:
            stack.callback(connection.close)
        warm_up = await make_namespace(kube, "warm-up")
        await send_all(connections, _creations(to, warm_up, workload.warm_up))
        for repeat in range(workload.repeats):
            run.say(f"{name}: run {repeat + 1} of {workload.repeats}")
            namespace = await make_namespace(kube, f"bench-{repeat}")
            version = await _newest_version(kube, namespace)
            watchers = [_Watcher() for _ in range(workload.watchers)]
            following = [watcher.follow(kube, namespace, version) for watcher in watchers]
            async with background(*following):
                for watcher in watchers:
                    await asyncio.wait_for(watcher.is_open.wait(), _WATCHERS_DEADLINE_S)
                told = _told(watchers, EventType.ADDED, workload.pods)
                requests = list(_creations(to, namespace, workload.pods))
                await _time(connections, requests, told, creates)
                told = _told(watchers, EventType.MODIFIED, workload.pods)
                requests = list(_bindings(to, namespace, watchers[0].uids, workload.pods))
                await _time(connections, requests, told, binds)
    events = workload.watchers * workload.pods
    return [
        creates.row(name, "creates", events=events),
        binds.row(name, "binds", events=events),
    ]


def _told(watchers: list[_Watcher], type_: EventType, pods: int) -> Callable[[], bool]:
    return lambda: all(watcher.was_told_once(type_, pods) for watcher in watchers)


async def _time(
    connections: list[Connection],
    requests: list[bytes],
    all_told: Callable[[], bool],
    into: _Rates,
) -> None:
    pids = server_pids()
    server_before, client_before = cpu_seconds(pids), time.process_time()
    started = time.perf_counter()
    await send_all(connections, iter(requests))
    seconds = time.perf_counter() - started
    into.server_busy.append((cpu_seconds(pids) - server_before) / seconds)
    into.client_busy.append((time.process_time() - client_before) / seconds)
    await eventually(
        all_told,
        deadline_s=_WATCHERS_DEADLINE_S,
        describe="every watcher to be told of every pod exactly once",
        interval_s=0.005,
    )
    into.watchers_s.append(time.perf_counter() - started - seconds)
    into.per_s.append(len(requests) / seconds)


async def _newest_version(kube: KubeClient, namespace: str) -> str:
    async for page in kube.list_pages(kinds.POD, namespace=namespace):
        return page.resource_version
    raise RuntimeError("a list without a page")


def _creations(to: Credentials, namespace: str, count: int) -> Iterator[bytes]:
    path = kinds.POD.path(namespace)
    for number in range(count):
        yield to.post(path, new_pod(number, namespace))


def _bindings(to: Credentials, namespace: str, uids: dict[str, str], count: int) -> Iterator[bytes]:
    for number in range(count):
        name = pod_name(number)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uids[name]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % 100}"},
        }
        path = kinds.POD.path(namespace, name, "binding")
        yield to.post(path, msgspec.json.encode(body))
