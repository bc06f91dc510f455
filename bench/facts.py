"""From a change of an API object to the fact in a view, one change at a time.

Its hops: the API server answers the write; its watch tells the gateway, which stores a fact on
STATE; NATS pushes it to the view. The second hop is one number here, because only the gateway
could take it apart; beside it stands what a bare watch needs to see such a change, so that the
difference is what gateway and bus add.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench.figures import NotMeasured, Run, Table
from bench.peer import STAMP, MeasuringPeer, measuring_peer
from bench.samples import in_ms
from bench.servers import Unavailable
from bench.stack import MANAGER, Stack, running_stack
from bench.workload_files import load_workload
from stromboli.api import kinds
from stromboli.kube.wire import PatchType, WatchEvent, Written
from stromboli.testkit.api_server import ServerKind
from stromboli.testkit.kube_objects import pod_manifest
from stromboli.testkit.tasks import background

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "facts"
QUESTION = "How long until a change of an API object is a fact in a view?"

_LATE_S = 10.0


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    changes: int
    warm_up: int
    pods: int
    bare_watch_changes: int


@dataclass(slots=True)
class _Durations:
    call: list[float] = field(default_factory=list[float])
    to_state: list[float] = field(default_factory=list[float])
    to_view: list[float] = field(default_factory=list[float])
    from_answer: list[float] = field(default_factory=list[float])
    whole: list[float] = field(default_factory=list[float])


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    for kind in run.servers:
        run.say(f"starting nats-server, {kind} and a gateway")
        try:
            async with running_stack(kind, run.directory / f"facts-{kind}") as stack:
                yield await _on(stack, kind, workload, run)
        except Unavailable as problem:
            yield NotMeasured(what=f"on {kind}", reason=str(problem))


async def _on(stack: Stack, kind: ServerKind, workload: Workload, run: Run) -> Table:
    names = [f"pod-{number}" for number in range(workload.pods)]
    for name in names:
        await stack.cluster.make("pod", pod_manifest(name))
    run.say(f"{workload.changes} changes, one at a time")
    async with measuring_peer("scheduler", stack.nats.url, ("pod",)) as peer:
        await peer.until_in_view("pod", len(names), stack.namespace)
        durations = _Durations()
        for number in range(-workload.warm_up, workload.changes):
            into = durations if number >= 0 else _Durations()
            await _change(stack, peer, names[number % len(names)], f"fact-{number}", into)
    run.say(f"{workload.bare_watch_changes} changes seen by a bare watch, for comparison")
    bare = await _seen_by_bare_watch(stack, names, workload.bare_watch_changes)
    return Table(
        title=f"change → fact in a view, on {kind}",
        rows=[
            {"way": "answer → in the view", **in_ms(durations.from_answer)},
            {"way": "request → in the view", **in_ms(durations.whole)},
            {"way": "  hop: request → answer", **in_ms(durations.call)},
            {"way": "  hop: answer → on STATE", **in_ms(durations.to_state)},
            {"way": "  hop: on STATE → in the view", **in_ms(durations.to_view)},
            {"way": "for comparison: answer → bare watch", **in_ms(bare)},
        ],
        notes=[
            "A watch may be ahead of the answer to the write it tells of: then it is below zero.",
        ],
    )


async def _stamp(stack: Stack, name: str, stamp: str) -> Written:
    body = {"metadata": {"labels": {STAMP: stamp}}}
    return await stack.kube.patch(
        kinds.POD,
        stack.namespace,
        name,
        body,
        patch_type=PatchType.MERGE,
        field_manager=MANAGER,
    )


async def _change(
    stack: Stack, peer: MeasuringPeer, name: str, stamp: str, into: _Durations
) -> None:
    arriving = peer.expect(name, stamp)
    sent_at = time.time()
    await _stamp(stack, name, stamp)
    answered_at = time.time()
    async with asyncio.timeout(_LATE_S):
        arrival = await arriving
    into.call.append(answered_at - sent_at)
    into.to_state.append(arrival.stored_at - answered_at)
    into.to_view.append(arrival.in_view_at - arrival.stored_at)
    into.from_answer.append(arrival.in_view_at - answered_at)
    into.whole.append(arrival.in_view_at - sent_at)


async def _seen_by_bare_watch(stack: Stack, names: list[str], changes: int) -> list[float]:
    """The same changes as the API server's own watch brings them to this process."""
    seen: asyncio.Queue[tuple[str, float]] = asyncio.Queue(maxsize=100)
    first = await _stamp(stack, names[0], "bare-first")

    async def follow() -> None:
        async with stack.kube.watch(
            kinds.POD, resource_version=first.resource_version, namespace=stack.namespace
        ) as watch:
            while events := await watch.read():
                at = time.time()
                for event in events:
                    await seen.put((_stamp_of(event), at))

    durations: list[float] = []
    async with background(follow()):
        for number in range(changes):
            stamp = f"bare-{number}"
            await _stamp(stack, names[number % len(names)], stamp)
            answered_at = time.time()
            async with asyncio.timeout(_LATE_S):
                while (arrived := await seen.get())[0] != stamp:
                    pass
            durations.append(arrived[1] - answered_at)
    return durations


class _Labelled(msgspec.Struct):
    labels: dict[str, str] = {}


class _Stamped(msgspec.Struct):
    metadata: _Labelled


def _stamp_of(event: WatchEvent) -> str:
    found: Any = msgspec.json.decode(event.object, type=_Stamped)
    return found.metadata.labels.get(STAMP, "")
