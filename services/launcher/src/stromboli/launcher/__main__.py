"""`stromboli`: run everything on this machine, look after it, or see a demonstration."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal

import aiohttp
from cyclopts import App, Parameter
from rich.console import Console

from stromboli.launcher.bus_files import write_bus_files
from stromboli.launcher.demo import demonstrate
from stromboli.launcher.errors import LauncherError
from stromboli.launcher.folder import Folder, Installation, Running, is_alive
from stromboli.launcher.options import Options, find_crds, find_examples
from stromboli.launcher.plan import is_ready, kubeconfig_of, nats_url, plan, services_of
from stromboli.launcher.supervisor import Supervisor
from stromboli.runtime.errors import NatsServerNotFound

app = App(
    name="stromboli",
    help="A batch system for Kubernetes, on this machine: NATS, an API server, nodes, services.",
)

DEFAULT_FOLDER = Path.home() / ".local" / "share" / "stromboli"

FolderOption = Annotated[
    Path, Parameter(name="--dir", help="Folder for data, logs, secrets; made if missing.")
]
CrdsOption = Annotated[
    Path | None,
    Parameter(name="--crds", help="CRD manifests for the API server; found in a working copy."),
]


@app.command
def up(
    folder: FolderOption = DEFAULT_FOLDER,
    *,
    crds: CrdsOption = None,
    nodes: Annotated[str, Parameter(help="Number of virtual nodes, or a YAML file.")] = "3",
    runtime: Annotated[
        Literal["simulate", "process"], Parameter(help="How pods run on the virtual nodes.")
    ] = "simulate",
    rules: Annotated[Path | None, Parameter(help="How simulated pods behave, by labels.")] = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="A real cluster instead of the embedded API server.")
    ] = None,
    nats: Annotated[str, Parameter(help="URL of a NATS server instead of the embedded one.")] = "",
    admission: Annotated[
        bool | None,
        Parameter(
            help="Check and default jobs before they are stored. With --kubeconfig it is off "
            "unless asked for: that API server must reach this machine's 127.0.0.1.",
        ),
    ] = None,
) -> int:
    """Run everything until Ctrl-C. A second start on the same folder goes on where it was."""
    options = Options(
        crds=find_crds(crds),
        nodes=nodes if nodes.isdecimal() else str(Path(nodes).resolve()),
        runtime=runtime,
        rules=str(rules.resolve()) if rules else "",
        kubeconfig=str(kubeconfig.resolve()) if kubeconfig else "",
        nats=nats,
        admission=kubeconfig is None if admission is None else admission,
    )
    return _guarded(_up(Folder(folder.resolve()), options))


@app.command
def status(folder: FolderOption = DEFAULT_FOLDER) -> int:
    """Show what runs, and whether it is ready."""
    return _guarded(_status(Folder(folder.resolve())))


@app.command
def down(folder: FolderOption = DEFAULT_FOLDER) -> int:
    """Stop what `up` started on this folder, and wait until it has."""
    return _guarded(_down(Folder(folder.resolve())))


@app.command
def logs(
    service: Annotated[str, Parameter(help="nats, api, gateway …; left out: all.")] = "",
    folder: FolderOption = DEFAULT_FOLDER,
    *,
    lines: Annotated[int, Parameter(help="How many of the last lines of each.")] = 40,
) -> int:
    """Print the last lines of a service's log."""
    return _guarded(_logs(Folder(folder.resolve()), service, lines))


@app.command
def demo(
    *,
    crds: CrdsOption = None,
    examples: Annotated[
        Path | None, Parameter(help="Folder with the example jobs; found in a working copy.")
    ] = None,
) -> int:
    """Run three jobs on a scratch folder; exits 0 only if all was as it should be."""
    return _guarded(demonstrate(find_crds(crds), find_examples(examples)))


@app.command(name="nats-config")
def nats_config(
    folder: Annotated[Path, Parameter(help="Folder to write to; passwords there are kept.")],
    *,
    listen: Annotated[str, Parameter(help="Where the NATS server listens.")] = "0.0.0.0:4222",
    store: Annotated[str, Parameter(help="Where the NATS server keeps its streams.")] = "/data",
) -> int:
    """Write a NATS server's configuration with a user and a password file per service."""
    for path in write_bus_files(folder, listen=listen, store=store):
        Console().print(f"wrote {path}", highlight=False, soft_wrap=True)
    return 0


def _guarded(work: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(work)
    except (LauncherError, NatsServerNotFound) as problem:
        Console(stderr=True).print(
            f"[bold red]error:[/] {problem}", soft_wrap=True, highlight=False
        )
        return 1


async def _up(folder: Folder, options: Options) -> int:
    console = Console()
    installation = folder.open()
    supervisor = Supervisor(folder, lambda line: console.print(f"[yellow]{line}[/]"))
    supervisor.changed = lambda: folder.note(
        Running(launcher=os.getpid(), pids=supervisor.pids, options=options)
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop.set)
    planned = plan(folder, installation, options)
    starting = asyncio.create_task(supervisor.start(planned))
    stopping = asyncio.create_task(stop.wait())
    try:
        with console.status(f"starting {', '.join(one.name for one in planned)}"):
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            _show(console, folder, installation, options)
            await stop.wait()
    finally:
        starting.cancel()
        stopping.cancel()
        await asyncio.wait({starting, stopping})
        with console.status("stopping"):
            await supervisor.stop()
        folder.note(None)
        console.print("stopped")
    return 0


def _show(console: Console, folder: Folder, installation: Installation, options: Options) -> None:
    pages = "  ".join(
        f"http://127.0.0.1:{installation.ports[name]}/metrics" for name in services_of(options)
    )
    users = "" if options.nats else f"  (users: {folder.root / 'passwords'})"
    lines = {
        "kubeconfig": f"export KUBECONFIG={kubeconfig_of(folder, options)}",
        "try": "kubectl get nodes,queues.scheduling.volcano.sh",
        "NATS": f"{nats_url(installation, options)}{users}",
        "admission": f"https://127.0.0.1:{installation.ports['webhooks']}"
        if options.admission
        else "off: jobs are stored as they come, without defaults and checks (--admission)",
        "metrics": pages,
        "logs": str(folder.root / "logs"),
        "stop": "Ctrl-C",
    }
    console.print("\n[bold]Stromboli is up[/]")
    for name, value in lines.items():
        console.print(f"  [cyan]{name:<11}[/] {value}", soft_wrap=True, highlight=False)
    console.print()


async def _status(folder: Folder) -> int:
    console = Console()
    installation = folder.installation
    running = folder.running()
    if running is None:
        console.print(f"Stromboli is not running on {folder.root}", highlight=False)
        return 3
    timeout = aiohttp.ClientTimeout(total=2)
    everything_ready = True
    console.print(f"{'PROCESS':<12} {'PID':>8}  {'STATE'}", highlight=False)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for planned in plan(folder, installation, running.options):
            pid = running.pids.get(planned.name, 0)
            alive = bool(pid) and is_alive(pid)
            ready = alive and await is_ready(planned, session)
            everything_ready &= ready
            state = "ready" if ready else "not ready" if alive else "not running"
            console.print(f"{planned.name:<12} {pid:>8}  {state}", highlight=False)
    return 0 if everything_ready else 1


async def _down(folder: Folder) -> int:
    console = Console()
    running = folder.running()
    if running is None:
        console.print(f"Stromboli is not running on {folder.root}", highlight=False)
        return 0
    os.kill(running.launcher, signal.SIGTERM)
    give_up = time.monotonic() + 90
    with console.status("stopping"):
        while folder.running() is not None:
            if time.monotonic() > give_up:
                raise LauncherError(f"process {running.launcher} did not stop within 90 s")
            await asyncio.sleep(0.1)
    console.print("stopped")
    return 0


async def _logs(folder: Folder, service: str, lines: int) -> int:
    names = sorted(path.stem for path in (folder.root / "logs").glob("*.log"))
    if service and service not in names:
        known = ", ".join(names) or "none yet"
        raise LauncherError(f"there is no log of {service!r} in {folder.root} (there are: {known})")
    for name in [service] if service else names:
        text = folder.log(name).read_text(errors="replace").splitlines()[-lines:]
        sys.stdout.writelines(f"{line}\n" if service else f"{name:<12} {line}\n" for line in text)
    return 0


def main() -> None:
    sys.exit(app())


if __name__ == "__main__":
    main()
