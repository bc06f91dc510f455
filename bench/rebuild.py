"""What the loss of all NATS data costs: every object listed, projected and put on STATE again.

From the loss to the sync marker of the pods nobody decides anything. The list that led to the
marker is timed by the gateway's own log. The lease is lost with the data, and a gateway that
notices late has begun a list in vain, which is why lists are counted.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import msgspec

from bench.figures import NotMeasured, Row, Run, Table
from bench.load import Connection, Credentials, send_all
from bench.objects import new_pod
from bench.servers import Unavailable, cpu_seconds, rss_bytes
from bench.stack import Stack, running_stack
from bench.workload_files import load_workload
from stromboli.api import kinds
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.services import LogEvent

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "rebuild"
QUESTION = "How long until the gateway has put a whole cluster on an empty STATE?"

_DEADLINE_S = 120.0


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pods: int
    connections: int


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    rows: list[Row] = []
    for kind in run.servers:
        run.say(f"starting {kind} and creating {workload.pods:,} pods")
        try:
            async with running_stack(kind, run.directory / kind) as stack:
                await _fill(stack, workload)
                run.say("losing all NATS data")
                rows.append(await _rebuild(stack, workload.pods))
        except Unavailable as problem:
            yield NotMeasured(what=f"on {kind}", reason=str(problem))
    if rows:
        yield Table(
            title=f"{workload.pods:,} pods on STATE again, until their sync marker",
            rows=rows,
            notes=["The API server works for it too, on the same cores."],
        )


async def _fill(stack: Stack, workload: Workload) -> None:
    to = Credentials.read(stack.server.kubeconfig)
    path = kinds.POD.path(stack.namespace)
    requests = (to.post(path, new_pod(n, stack.namespace)) for n in range(workload.pods))
    async with AsyncExitStack() as closing:
        connections = [await Connection.open(to) for _ in range(workload.connections)]
        for connection in connections:
            closing.callback(connection.close)
        await send_all(connections, requests)


async def _rebuild(stack: Stack, pods: int) -> Row:
    gateway = stack.gateway
    await gateway.until_event("kind.synced", _DEADLINE_S, kind="pod")
    known, lists = (len(_of_pods(gateway, event)) for event in ("kind.synced", "list.started"))
    used_s = cpu_seconds([gateway.pid])
    lost_at = datetime.now(UTC)
    await stack.nats.lose_all_data()
    synced = await gateway.until(
        lambda: _of_pods(gateway, "kind.synced")[known:],
        deadline_s=_DEADLINE_S,
        what="did not list the pods again",
    )
    used_s = cpu_seconds([gateway.pid]) - used_s
    if synced[0]["count"] != pods:
        raise RuntimeError(f"{pods} pods were created, {synced[0]['count']} were listed")
    started = _of_pods(gateway, "list.started")[lists:]
    list_s = (_time(synced[0]) - _time(started[-1])).total_seconds()
    return {
        "server": stack.server.kind,
        "from the loss s": (_time(synced[0]) - lost_at).total_seconds(),
        "its last list s": list_s,
        "pods/s of the list": pods / list_s,
        "lists begun": len(started),
        "gateway CPU ms per pod": used_s * 1000 / pods,
        "gateway RSS MiB": rss_bytes(gateway.pid) / 2**20,
    }


def _of_pods(gateway: GatewayProcess, event: str) -> list[LogEvent]:
    return [found for found in gateway.events(event) if found["kind"] == "pod"]


def _time(event: LogEvent) -> datetime:
    return datetime.fromisoformat(event["time"])
