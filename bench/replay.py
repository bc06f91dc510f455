"""What a restart costs: the whole of STATE into a fresh view, in a process of its own.

The facts are made as the gateway makes them (API JSON → projection → fact) and published by
the publisher it uses, each expecting an empty subject. No API server takes part.
"""

import statistics
import sys
import time
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import msgspec

from bench.figures import NotMeasured, Row, Run, Table
from bench.objects import stored_node, stored_pod
from bench.replay_reader import Replayed
from bench.workload_files import load_workload
from stromboli.api import kinds, projections
from stromboli.api.kinds import Kind
from stromboli.contracts import codec
from stromboli.contracts.facts import Fact, KindSynced, ObjectSeen
from stromboli.contracts.streams import STATE, STREAMS
from stromboli.kube.wire import read_meta
from stromboli.runtime.bus.connection import BusSettings, connect
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.publisher import publishing
from stromboli.runtime.bus.streams import reconcile
from stromboli.runtime.clock import SystemClock
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.processes import ChildProcess

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "replay"
QUESTION = "How long does a starting service read STATE, and how much memory does it need?"

_READER_DEADLINE_S = 120.0


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    pods: int
    repeats: int


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    objects = workload.nodes + workload.pods
    async with NatsServer(run.directory / "nats") as nats:
        run.say(f"making and publishing {objects:,} facts")
        yield await _publish(nats.url, workload)
        run.say(f"replaying them {workload.repeats} times, in a fresh process each")
        whole = [
            await _replay(nats.url, "node,pod", run.directory / f"{number}.log", expect=objects)
            for number in range(workload.repeats)
        ]
        log = run.directory / "pods.log"
        pods = await _replay(nats.url, "pod", log, expect=workload.pods)
    seconds = [replayed.seconds for replayed in whole]
    row: Row = {
        "objects": objects,
        "median s": statistics.median(seconds),
        "best s": min(seconds),
        "objects/s (best)": objects / min(seconds),
        "RSS MiB": whole[0].rss_bytes / 2**20,
        "RSS KiB per pod": pods.rss_bytes / workload.pods / 1024,
    }
    yield Table(
        title="STATE → view, from the reader's start until the view is synced",
        rows=[row],
        notes=[
            "RSS is what the replay added; per pod it is of a run that read the pods alone.",
        ],
    )


def _facts(kind: Kind[Any], stored: Iterable[bytes]) -> list[ObjectSeen]:
    """What the gateway makes of a list."""
    made: list[ObjectSeen] = []
    for raw in stored:
        meta = read_meta(raw)
        projection = projections.encode_projection(projections.project(kind, raw))
        made.append(
            ObjectSeen(
                kind=kind.token,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
                projection=msgspec.Raw(projection),
                cause=f"list/{kind.token}",
            )
        )
    return made


async def _publish(url: str, workload: Workload) -> Table:
    stored = {
        kinds.NODE: [stored_node(number) for number in range(workload.nodes)],
        kinds.POD: [stored_pod(number) for number in range(workload.pods)],
    }
    started = time.perf_counter()
    objects = {kind: _facts(kind, raws) for kind, raws in stored.items()}
    made_s = time.perf_counter() - started
    clock = SystemClock()
    async with (
        connect(BusSettings(url=url), "gateway") as connection,
        publishing(connection, clock) as publisher,
    ):
        infos = await reconcile(JetStream(connection), STREAMS)
        facts: list[Fact] = [fact for made in objects.values() for fact in made]
        started = time.perf_counter()
        size = 0
        answers = []
        for fact in facts:
            payload = codec.encode(fact)
            size += len(payload)
            answers.append(await publisher.send(fact.subject(), payload, expect_last=0))
        for answer in answers:
            await answer
        published_s = time.perf_counter() - started
        for kind, made in objects.items():
            marker = KindSynced(
                kind=kind.token,
                incarnation=infos[STATE.name].created,
                resource_version="1",
                count=len(made),
            )
            await publisher.publish(marker.subject(), codec.encode(marker))
    sizes = {kind.token: sum(map(len, raws)) / len(raws) for kind, raws in stored.items()}
    return Table(
        title="API objects → facts on STATE",
        rows=[
            {"step": "JSON → projection → fact", "objects/s": len(facts) / made_s},
            {
                "step": "published, each expecting an empty subject",
                "objects/s": len(facts) / published_s,
                "MB/s": size / published_s / 1e6,
            },
        ],
        notes=[
            f"JSON: {sizes['pod']:,.0f} bytes per pod, {sizes['node']:,.0f} per node.",
            f"A fact has {size / len(facts):,.0f} bytes on average.",
        ],
    )


async def _replay(url: str, tokens: str, log: Path, *, expect: int) -> Replayed:
    async with ChildProcess(
        [sys.executable, "-m", "bench.replay_reader", url, tokens], name="reader", log=log
    ) as reader:
        code = await reader.wait(_READER_DEADLINE_S)
        if code != 0:
            raise RuntimeError(f"the reader ended with code {code}: {reader.log_tail()}")
        replayed = msgspec.json.decode(reader.log_text().splitlines()[-1], type=Replayed)
    if replayed.objects != expect:
        raise RuntimeError(f"the view has {replayed.objects} objects, {expect} were published")
    return replayed
