"""Three jobs on a scratch installation: two that complete, one that is told why it can't start.

Everything runs as separate processes over a real NATS server, and halfway the gateway is
killed. What is shown is checked: the exit code is 0 only if it was as it should be.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stromboli.api import kinds
from stromboli.api.wellknown import TASK_SPEC
from stromboli.contracts.permissions import OPERATOR
from stromboli.kube import KubeAccess, KubeClient
from stromboli.launcher.folder import Folder
from stromboli.launcher.options import Options
from stromboli.launcher.plan import nats_url, plan, services_of
from stromboli.launcher.screen import Screen
from stromboli.launcher.supervisor import Supervisor
from stromboli.launcher.watching import STEPS, HistoryWatcher, JobStory, JobWatcher
from stromboli.runtime.bus.connection import BusSettings
from stromboli.runtime.logs import LogLevel, LogSettings, configure
from stromboli.runtime.redaction import Secret

_NAMESPACE = "default"
_DEADLINE_S = 45.0
_COMPLETE = ("hello-mpi", "hello-tensorflow")
_PENDING = "too-large"
_FILES = ("mpi-job.yaml", "tensorflow-job.yaml", "too-large-gang.yaml")


class NotAsItShouldBe(Exception):
    """The demonstration met something that must not happen."""


async def demonstrate(crds: str, examples: Path) -> int:
    """Run the demonstration and tidy up."""
    configure(LogSettings(level=LogLevel.ERROR), service="demo")
    console = Screen()
    started = time.monotonic()
    said: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="stromboli-demo-") as scratch,
        (folder := Folder(Path(scratch))).held(),
    ):
        options = Options(crds=crds, nodes="3", rules=str(examples / "rules.yaml"))
        supervisor = Supervisor(folder, said.append)
        planned = plan(folder, folder.open(), options)
        names = ", ".join(one.name for one in planned)
        try:
            with console.busy(f"starting {names}"):
                await supervisor.start(planned)
            console.print(Text.assemble((f"{len(planned)} processes are up:", "bold"), f" {names}"))
            async with KubeClient.connect(KubeAccess(kubeconfig=str(folder.kubeconfig))) as kube:
                watcher = JobWatcher(kube)
                history = HistoryWatcher(watcher, _as_operator(folder, options))
                watching = {
                    asyncio.create_task(watcher.run()),
                    asyncio.create_task(history.run()),
                }
                try:
                    await _show(console, kube, watcher, supervisor, said=said, examples=examples)
                finally:
                    for task in watching:
                        task.cancel()
                    await asyncio.wait(watching)
            _check(watcher)
            console.print(_times(watcher))
        except NotAsItShouldBe as problem:
            console.print(Text.assemble(("not as it should be:", "bold red"), f" {problem}"))
            for name in services_of(options):
                tail = folder.log(name).read_text(errors="replace").splitlines()[-5:]
                console.print(f"{name}:", *tail, sep="\n  ")
            return 1
        finally:
            with console.busy("stopping"):
                await supervisor.stop()
    took = time.monotonic() - started
    console.print(
        Text.assemble(("All was as it should be.", "bold green"), f" It took {took:.0f} s.")
    )
    return 0


def _as_operator(folder: Folder, options: Options) -> BusSettings:
    """Who may read the history of jobs."""
    password = folder.password_file(OPERATOR).read_text().strip()
    return BusSettings(
        url=nats_url(folder.installation, options), user=OPERATOR, password=Secret(password)
    )


async def _show(
    console: Console,
    kube: KubeClient,
    watcher: JobWatcher,
    supervisor: Supervisor,
    *,
    said: list[str],
    examples: Path,
) -> None:
    for name in _FILES:
        manifest = yaml.safe_load((examples / name).read_text())
        watcher.story(manifest["metadata"]["name"]).at["submitted"] = time.time()
        await kube.create(kinds.VC_JOB, _NAMESPACE, manifest, field_manager="demo")
    with Live(console=console, refresh_per_second=8, transient=False) as live:

        def draw() -> None:
            news = Text("\n".join(said), style="yellow")
            tables = (_jobs(watcher), Text(), _pods(watcher), Text(), _queues(watcher), Text())
            live.update(Group(*tables, _why(watcher), news, Text()))

        await _until(
            lambda: all("running" in watcher.story(name).at for name in _COMPLETE),
            "both gangs run",
            draw,
        )
        said.append("the gateway is killed with -9 while they run")
        supervisor.kill("gateway")
        await _until(
            lambda: (
                all("completed" in watcher.story(name).at for name in _COMPLETE)
                and all("reviewed" in watcher.story(name).at for name in _COMPLETE)
                and bool(watcher.story(_PENDING).reason)
            ),
            "two jobs are complete and the third knows why it waits",
            draw,
        )
        draw()


async def _until(holds: Callable[[], bool], what: str, draw: Callable[[], None]) -> None:
    give_up = time.monotonic() + _DEADLINE_S
    while not holds():
        if time.monotonic() > give_up:
            raise NotAsItShouldBe(f"waited {_DEADLINE_S:g} s in vain until {what}")
        draw()
        await asyncio.sleep(0.02)


def _check(watcher: JobWatcher) -> None:
    for name in _COMPLETE:
        story = watcher.story(name)
        if story.phase != "Completed":
            raise NotAsItShouldBe(f"{name} is {story.phase}, not Completed")
        if missing := [step for step in STEPS if step not in story.at]:
            raise NotAsItShouldBe(f"{name} was never seen {', '.join(missing)}")
    if (phase := watcher.story(_PENDING).phase) != "Pending":
        raise NotAsItShouldBe(f"{_PENDING} is {phase}, not Pending")


def _table(texts: tuple[str, ...], numbers: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in texts:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _jobs(watcher: JobWatcher) -> Table:
    table = _table(("JOB", "PHASE"), ("MIN", "PENDING", "RUNNING", "SUCCEEDED"))
    for name in (*_COMPLETE, _PENDING):
        story = watcher.story(name)
        if story.job is not None:
            table.add_row(name, story.phase or "-", *_counts(story))
    return table


def _pods(watcher: JobWatcher) -> Table:
    """One line per task of a job; what is gone has its last phase, and an end in it."""
    table = _table(("PODS", "NODES", "PHASE"))
    for name in (*_COMPLETE, _PENDING):
        story = watcher.story(name)
        tasks: dict[str, list[Any]] = {}
        for pod in story.pods.values():
            tasks.setdefault(pod.metadata.labels.get(TASK_SPEC, ""), []).append(pod)
        for task, pods in sorted(tasks.items()):
            nodes = sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})
            phases = Counter(pod.status.phase or "Pending" for pod in pods)
            shown = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
            table.add_row(f"{name}-{task}", " ".join(nodes) or "-", shown)
        if story.deleted_while:
            ended = Counter(story.deleted_while.values())
            shown = ", ".join(f"{count} deleted while {phase}" for phase, count in ended.items())
            table.add_row(name, "-", shown)
    return table


def _queues(watcher: JobWatcher) -> Table:
    """How many jobs of each queue wait, run and are done."""
    phases = ("Pending", "Running", "Completed")
    table = _table(("QUEUE", "STATE"), tuple(f"JOBS {phase.upper()}" for phase in phases))
    jobs = [story.job for story in watcher.stories.values() if story.job is not None]
    for name, queue in sorted(watcher.queues.items()):
        found = Counter(job.status.state.phase for job in jobs if job.spec.queue == name)
        counts = (str(found[phase]) for phase in phases)
        table.add_row(name, queue.status.state or "Open", *counts)
    return table


def _why(watcher: JobWatcher) -> Text:
    reason = watcher.story(_PENDING).reason
    return Text(f"{_PENDING} waits: {reason}" if reason else "", style="cyan")


def _counts(story: JobStory) -> tuple[str, ...]:
    phases = [pod.status.phase or "Pending" for pod in story.pods.values()]
    counted = (str(phases.count(phase)) for phase in ("Pending", "Running", "Succeeded"))
    return (str(story.job.spec.min_available), *counted)


def _times(watcher: JobWatcher) -> Table:
    table = Table(
        title="Where the time went (milliseconds after the step before)",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 3, 0, 0),
    )
    table.add_column("JOB")
    for step in STEPS[1:]:
        table.add_column(step.upper(), justify="right")
    for name in _COMPLETE:
        at = watcher.story(name).at
        steps = [at[step] for step in STEPS]
        gaps = (f"{(later - earlier) * 1000:.0f}" for earlier, later in pairwise(steps))
        table.add_row(name, *gaps)
    return table
