"""`stromboli`: run everything on this machine, look after it, or see a demonstration."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from stromboli.launcher import down as stopping
from stromboli.launcher import inspecting
from stromboli.launcher import up as running
from stromboli.launcher.bus_files import write_bus_files
from stromboli.launcher.demo import demonstrate
from stromboli.launcher.errors import FolderUnusable
from stromboli.launcher.folder import Folder
from stromboli.launcher.options import Options, find_crds, find_examples
from stromboli.launcher.screen import Screen, guarded

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
    return asyncio.run(running.up(_at(folder), options))


@app.command
def status(folder: FolderOption = DEFAULT_FOLDER) -> int:
    """Show what runs, and whether it is ready."""
    return asyncio.run(inspecting.status(_at(folder)))


@app.command
def down(folder: FolderOption = DEFAULT_FOLDER) -> int:
    """Stop what `up` started on this folder, also if `up` was killed, and wait until it has."""
    return asyncio.run(stopping.down(_at(folder)))


@app.command
def logs(
    service: Annotated[str, Parameter(help="nats, api, gateway …; left out: all.")] = "",
    folder: FolderOption = DEFAULT_FOLDER,
    *,
    lines: Annotated[int, Parameter(help="How many of the last lines of each.")] = 40,
) -> int:
    """Print the last lines of a service's log."""
    return asyncio.run(inspecting.logs(_at(folder), service, lines))


@app.command
def demo(
    *,
    crds: CrdsOption = None,
    examples: Annotated[
        Path | None, Parameter(help="Folder with the example jobs; found in a working copy.")
    ] = None,
) -> int:
    """Run three jobs on a scratch folder; exits 0 only if all was as it should be."""
    return asyncio.run(demonstrate(find_crds(crds), find_examples(examples)))


@app.command(name="nats-config")
def nats_config(
    folder: Annotated[Path, Parameter(help="Folder to write to; passwords there are kept.")],
    *,
    listen: Annotated[str, Parameter(help="Where the NATS server listens.")] = "0.0.0.0:4222",
    store: Annotated[str, Parameter(help="Where the NATS server keeps its streams.")] = "/data",
) -> int:
    """Write a NATS server's configuration with a user and a password file per service."""
    for path in write_bus_files(folder, listen=listen, store=store):
        Screen().print(f"wrote {path}")
    return 0


def _at(folder: Path) -> Folder:
    resolved = folder.resolve()
    name = str(resolved)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise FolderUnusable(ascii(name), "its name is not UTF-8, which NATS needs") from None
    if os.pathsep in name:
        raise FolderUnusable(name, f"a {os.pathsep!r} stands between paths in KUBECONFIG")
    return Folder(resolved)


def main() -> None:
    sys.exit(guarded(app))


if __name__ == "__main__":
    main()
