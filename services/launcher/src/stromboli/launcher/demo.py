"""A short demonstration: facts flow down, intents flow up, and a killed gateway loses nothing.

It plays a scheduler with the same modules that a real one uses, and checks what it shows: the
exit code is 0 only if every step was as it should be.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from stromboli.api import kinds
from stromboli.api.projections import decode_projection
from stromboli.contracts.intents import AnyIntent, BindGang, DeleteObject, PodBinding, intent_id
from stromboli.contracts.outcomes import AnyOutcome, GangBound
from stromboli.contracts.partitions import job_key
from stromboli.contracts.streams import STATE
from stromboli.kube import KubeAccess, KubeClient
from stromboli.kube.wire import PatchType, Written
from stromboli.launcher.folder import Folder
from stromboli.launcher.options import Options
from stromboli.launcher.plan import nats_url, plan
from stromboli.launcher.supervisor import Supervisor
from stromboli.runtime.bus.asking import ask, outcome_reader
from stromboli.runtime.bus.connection import BusSettings, connect
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.publisher import Publisher, publishing
from stromboli.runtime.bus.reader import LogMessage, LogReader
from stromboli.runtime.bus.view import Delta, View
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.logs import LogLevel, LogSettings, configure
from stromboli.runtime.redaction import Secret

_KINDS = ("node", "queue", "vcjob", "pod")
_NAMESPACE = "default"
_DEADLINE_S = 20.0


class NotAsItShouldBe(Exception):
    """The demonstration met something that must not happen."""


class Player:
    """A scheduler for a minute: a view, and questions to the gateway."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.clock = SystemClock()
        self.view: View[Any] = View(_KINDS, _decode, self)
        self.outcomes: dict[str, AnyOutcome] = {}
        self._asked = 0

    def changed(self, delta: Delta[Any]) -> None:
        """Nothing to do: the view is looked at when it is shown."""

    def synced(self, kind: str) -> None:
        """Nothing to do: see `until`."""

    def unreadable(self, message: LogMessage, reason: str) -> None:
        raise NotAsItShouldBe(f"a fact could not be read: {message.subject}: {reason}")

    def heard(self, outcome: AnyOutcome) -> None:
        self.outcomes[outcome.intent_id] = outcome

    def envelope(self, job: str) -> dict[str, Any]:
        self._asked += 1
        now = self.clock.now().timestamp()
        return {
            "id": intent_id("demo", job, self._asked, str(now)),
            "key": job_key("vcjob", _NAMESPACE, job),
            "service": "scheduler",
            "not_after": now + _DEADLINE_S,
            "sent_at": now,
        }

    async def ask(self, intent: AnyIntent) -> AnyOutcome:
        await ask(self.publisher, intent)
        await until(lambda: intent.id in self.outcomes, "the gateway answers")
        return self.outcomes[intent.id]


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that must become true soon."""
    give_up = time.monotonic() + _DEADLINE_S
    while not holds():
        if time.monotonic() > give_up:
            raise NotAsItShouldBe(f"waited {_DEADLINE_S:g} s in vain until {what}")
        await asyncio.sleep(0.005)


def _decode(token: str, projection: msgspec.Raw) -> Any:
    return decode_projection(kinds.by_token(token), projection)


async def demonstrate(crds: str) -> int:
    """Run the demonstration on a scratch folder and tidy up."""
    configure(LogSettings(level=LogLevel.ERROR), service="demo")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="stromboli-demo-") as scratch:
        folder = Folder(Path(scratch))
        installation = folder.open()
        options = Options(crds=crds, nodes="2")
        supervisor = Supervisor(folder, lambda line: console.print(f"  [yellow]{line}[/]"))
        try:
            with console.status("starting NATS, an API server, nodes and the gateway"):
                await supervisor.start(plan(folder, installation, options))
            console.print(
                "[bold]1.[/] NATS, an API server, two nodes and the gateway run as processes."
            )
            settings = BusSettings(
                url=nats_url(installation, options),
                user="scheduler",
                password=Secret(installation.passwords["scheduler"]),
            )
            access = KubeAccess(kubeconfig=str(folder.kubeconfig))
            async with (
                connect(settings, "scheduler") as connection,
                publishing(connection, SystemClock()) as publisher,
                KubeClient.connect(access) as kube,
            ):
                player = Player(publisher)
                filters = [f"vc.state.{token}.>" for token in (*_KINDS, "sync")]
                reader = LogReader(
                    connection,
                    player.clock,
                    stream=STATE.name,
                    filters=filters,
                    listener=player.view,
                )
                outcomes = outcome_reader(connection, player.clock, player.heard)
                readers = [asyncio.create_task(reader.run()), asyncio.create_task(outcomes.run())]
                try:
                    await until(lambda: not player.view.unsynced, "the view is synced")
                    await until(lambda: outcomes.attached, "outcomes are heard")
                    await _show(console, player, kube, supervisor)
                finally:
                    for task in readers:
                        task.cancel()
                    await asyncio.wait(readers)
        except NotAsItShouldBe as problem:
            console.print(f"[bold red]not as it should be:[/] {problem}")
            return 1
        finally:
            with console.status("stopping"):
                await supervisor.stop()
    console.print("[bold green]All was as it should be.[/]")
    return 0


async def _show(console: Console, player: Player, kube: KubeClient, supervisor: Supervisor) -> None:
    pods = await _make_objects(kube)
    await until(lambda: len(player.view.objects("pod")) == len(pods), "all pods are facts")
    console.print("[bold]2.[/] What a user created is now facts on the bus:")
    console.print(_table(player))

    bind = BindGang(
        **player.envelope("hello"),
        namespace=_NAMESPACE,
        name="hello",
        attempt="1",
        binds=tuple(
            PodBinding(pod.name, pod.uid, f"node-{index % 2}") for index, pod in enumerate(pods)
        ),
    )
    started = time.perf_counter()
    outcome = await player.ask(bind)
    answered_ms = (time.perf_counter() - started) * 1000
    if not isinstance(outcome, GangBound) or not all(pod.bound for pod in outcome.pods):
        raise NotAsItShouldBe(f"the gang was not bound: {outcome}")
    await until(lambda: all(_node(player, pod.name) for pod in pods), "the view shows the binds")
    seen_ms = (time.perf_counter() - started) * 1000
    console.print(
        f"[bold]3.[/] A scheduler asked to bind the gang of {len(pods)}: bound and answered in "
        f"{answered_ms:.1f} ms, back as facts after {seen_ms:.1f} ms."
    )
    console.print(_table(player))

    forbidden = DeleteObject(
        **player.envelope("hello"),
        kind="pod",
        namespace=_NAMESPACE,
        name=pods[0].name,
        uid=pods[0].uid,
    )
    console.print("[bold]4.[/] It asked for something that is not its business:")
    try:
        async with asyncio.timeout(2):
            answer = await player.ask(forbidden)
    except (TimeoutError, BusError):
        pass  # the question never got onto the bus
    else:
        raise NotAsItShouldBe(f"NATS let a forbidden question through: {answer}")
    console.print("   NATS refused the question itself: the scheduler may not publish it.")

    supervisor.kill("gateway")
    await kube.patch(
        kinds.POD,
        _NAMESPACE,
        pods[0].name,
        {"metadata": {"labels": {"changed": "while-the-gateway-was-dead"}}},
        patch_type=PatchType.MERGE,
        field_manager="demo",
    )
    console.print("[bold]5.[/] The gateway was killed with -9 and a pod changed meanwhile:")
    await until(
        lambda: (
            "changed" in player.view.objects("pod")[_NAMESPACE, pods[0].name].object.metadata.labels
        ),
        "the change made while the gateway was dead is a fact",
    )
    console.print("   it was started again, went on where it had stopped, and the change is here.")


async def _make_objects(kube: KubeClient) -> list[Written]:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", "3"],
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}},
    }
    pods: list[Written] = []
    for index in range(4):
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"hello-{index}"},
            "spec": {"schedulerName": "volcano", "containers": [container]},
        }
        pods.append(await kube.create(kinds.POD, _NAMESPACE, manifest, field_manager="demo"))
    return pods


def _node(player: Player, pod: str) -> str:
    entry = player.view.get("pod", _NAMESPACE, pod)
    return "" if entry is None else entry.object.spec.node_name


def _table(player: Player) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3))
    for heading in ("   KIND", "NAME", "NODE"):
        table.add_column(heading)
    for heading in ("VERSION", "STATE SEQUENCE"):
        table.add_column(heading, justify="right")
    for kind in ("node", "pod"):
        for (_, name), entry in sorted(player.view.objects(kind).items()):
            node = entry.object.spec.node_name if kind == "pod" else ""
            table.add_row(
                f"   {kind}", name, node or "-", entry.resource_version, str(entry.sequence)
            )
    return table
