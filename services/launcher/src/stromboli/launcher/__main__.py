"""`stromboli`: run everything on this machine, or see a short demonstration of it."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console

from stromboli.launcher.demo import demonstrate
from stromboli.launcher.errors import LauncherError
from stromboli.launcher.folder import Folder, Installation
from stromboli.launcher.plan import nats_url, plan
from stromboli.launcher.supervisor import Supervisor
from stromboli.runtime.errors import NatsServerNotFound

app = App(
    name="stromboli",
    help="A batch system for Kubernetes, on this machine: NATS, an API server, the gateway.",
)

DEFAULT_FOLDER = Path.home() / ".local" / "share" / "stromboli"

FolderOption = Annotated[
    Path, Parameter(name="--dir", help="Folder for data, logs, secrets; made if missing.")
]
CrdsOption = Annotated[
    Path | None,
    Parameter(name="--crds", help="Folder with CRD manifests that the API server loads."),
]


@app.command
def up(folder: FolderOption = DEFAULT_FOLDER, crds: CrdsOption = None) -> int:
    """Run everything until Ctrl-C. A second start on the same folder goes on where it was."""
    return _guarded(_up(Folder(folder.resolve()), crds))


@app.command
def demo(crds: CrdsOption = None) -> int:
    """Show facts and intents on a scratch folder; exits 0 only if all was as it should be."""
    return _guarded(demonstrate(crds))


def _guarded(work: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(work)
    except (LauncherError, NatsServerNotFound) as problem:
        Console(stderr=True).print(f"[bold red]error:[/] {problem}", soft_wrap=True, markup=True)
        return 1


async def _up(folder: Folder, crds: Path | None) -> int:
    console = Console()
    installation = folder.open()
    supervisor = Supervisor(folder, lambda line: console.print(f"[yellow]{line}[/]"))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop.set)
    try:
        with console.status("starting NATS, the API server and the gateway"):
            await supervisor.start(plan(folder, installation, crds))
        _show(console, folder, installation)
        await stop.wait()
    finally:
        console.print("stopping")
        await supervisor.stop()
    return 0


def _show(console: Console, folder: Folder, installation: Installation) -> None:
    gateway = f"http://127.0.0.1:{installation.gateway_port}"
    lines = {
        "kubeconfig": f"export KUBECONFIG={folder.kubeconfig}",
        "try": "kubectl get namespaces",
        "NATS": f"{nats_url(installation)} (users and passwords: {folder.root / 'passwords'})",
        "gateway": f"{gateway}/readyz  {gateway}/metrics",
        "logs": str(folder.root / "logs"),
        "stop": "Ctrl-C",
    }
    console.print("\n[bold]Stromboli is up[/]")
    for name, value in lines.items():
        console.print(f"  [cyan]{name:<11}[/] {value}", soft_wrap=True, highlight=False)
    console.print()


def main() -> None:
    sys.exit(app())


if __name__ == "__main__":
    main()
