"""The API servers a figure runs on, as real processes with our CRDs.

A server that can't be started here raises `Unavailable` with a one-line reason; the figure then
says so and goes on with the other.
"""

import contextlib
import os
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import TypeAlias

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ServerKind
from stromboli.testkit.crds import CRD_FOLDER, install_crds
from stromboli.testkit.kube_apiserver import KubeApiServer, KubeBinaries, KubeBinariesMissing
from stromboli.testkit.processes import ProcessFailed, living_children
from stromboli.testkit.sandbox_server import SandboxServer
from stromboli.testkit.waiting import NeverHappened

__all__ = [
    "Server",
    "Unavailable",
    "api_server",
    "cpu_seconds",
    "pinned_to",
    "rss_bytes",
    "server_pids",
]

Server: TypeAlias = KubeApiServer | SandboxServer

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Unavailable(Exception):
    """This server can't be had on this machine; the message is why, in one line."""


@contextlib.contextmanager
def pinned_to(cores: set[int]) -> Generator[None]:
    """This thread, and every process that it starts meanwhile, runs on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.asynccontextmanager
async def api_server(
    kind: ServerKind,
    directory: Path,
    *,
    cores: set[int] | None = None,
    flags: Sequence[str] = (),
) -> AsyncGenerator[Server]:
    """A running server; with `cores`, it and all its threads stay on them."""
    server = _server(kind, directory, flags)
    try:
        try:
            # Threads inherit the cores of their process only if they are set before it starts.
            with pinned_to(cores or os.sched_getaffinity(0)):
                await server.start()
        except (ProcessFailed, NeverHappened) as problem:
            lines = [line for line in str(problem).splitlines() if line.strip()]
            raise Unavailable(f"it did not start: {lines[0]} … {lines[-1].strip()}") from problem
        if isinstance(server, KubeApiServer):
            async with KubeClient.connect(server.access()) as kube:
                await install_crds(kube)
        yield server
    finally:
        server.destroy()


def _server(kind: ServerKind, directory: Path, flags: Sequence[str]) -> Server:
    if kind == "sandbox":
        return SandboxServer(directory, crds=CRD_FOLDER, flags=flags)
    try:
        return KubeApiServer(directory, binaries=KubeBinaries(), flags=flags)
    except KubeBinariesMissing as missing:
        raise Unavailable(str(missing)) from missing


def server_pids() -> list[int]:
    """The processes of the running API server; kube-apiserver's etcd counts as its own."""
    names = {"sandbox", "kube-apiserver", "etcd"}
    return [child.pid for child in living_children() if child.name in names]


def rss_bytes(pid: int) -> int:
    """The memory that a process has in use."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pids: list[int]) -> float:
    """The processor time that these processes have used so far."""
    ticks = 0
    for pid in pids:
        # The second field is the command in parentheses and may contain spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S
