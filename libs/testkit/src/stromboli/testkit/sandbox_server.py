"""Our own API server as a process of a test, behind the same interface as the real one.

It is started as users start it, by its command, and chooses its port itself; the port is kept
afterwards, because clients return to where the server was.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import yaml

from stromboli.kube import KubeAccess, KubeClient, Limits
from stromboli.kube.errors import KubeError
from stromboli.testkit.api_server import ServerKind
from stromboli.testkit.processes import ChildProcess
from stromboli.testkit.waiting import eventually

__all__ = ["SandboxServer"]

_START_DEADLINE_S: Final = 20.0


class SandboxServer:
    """One sandbox and the folder it keeps its objects in; may be started many times."""

    def __init__(
        self, directory: Path, *, crds: Path | None = None, flags: Sequence[str] = ()
    ) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig.yaml"
        self._crds = crds
        self._flags = flags
        self._listen = "127.0.0.1:0"
        self._child: ChildProcess | None = None

    @property
    def kind(self) -> ServerKind:
        return "sandbox"

    @property
    def url(self) -> str:
        if not self.kubeconfig.exists():
            raise RuntimeError("the sandbox has no address yet: it was never started")
        return str(yaml.safe_load(self.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int:
        return self._running_child().pid

    def access(self, *, limits: Limits | None = None) -> KubeAccess:
        return KubeAccess(kubeconfig=str(self.kubeconfig), limits=limits or Limits())

    async def start(self) -> None:
        if self.running:
            raise RuntimeError(f"the sandbox is already running (pid {self.pid})")
        argv: list[str | Path] = [
            *(sys.executable, "-m", "stromboli.sandbox", "api"),
            *("--data-dir", self.directory / "data"),
            *("--listen", self._listen),
            *("--kubeconfig-out", self.kubeconfig),
        ]
        if self._crds is not None:
            argv += ["--crds", self._crds]
        # Written anew by every start, so its presence means that this start got that far.
        self.kubeconfig.unlink(missing_ok=True)
        child = ChildProcess(
            [*argv, *self._flags], name="sandbox", log=self.directory / "sandbox.log"
        )
        self._child = child
        try:
            await child.until(
                self.kubeconfig.exists,
                deadline_s=_START_DEADLINE_S,
                what="wrote no kubeconfig",
            )
            await eventually(
                self._answers,
                deadline_s=_START_DEADLINE_S,
                describe=lambda: f"the sandbox to answer; its log:\n{child.log_tail()}",
            )
        except BaseException:
            child.kill()
            raise
        self._listen = urlsplit(self.url).netloc

    async def stop(self) -> None:
        if self._child is not None and self._child.running:
            await self._child.terminate(20.0)

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    def destroy(self) -> None:
        self.kill()

    async def restart(self, *, hard: bool = False) -> None:
        if hard:
            self.kill()
        else:
            await self.stop()
        await self.start()

    def pause(self) -> None:
        self._running_child().pause()

    def resume(self) -> None:
        self._running_child().resume()

    async def forget_history(self) -> None:
        """By the sandbox's own door for tests; running watches go on."""
        async with KubeClient.connect(self.access()) as kube:
            await kube.transport.send("POST", "/sandbox/compact", body=b"{}")

    async def _answers(self) -> bool:
        try:
            async with KubeClient.connect(self.access()) as kube:
                await kube.server_version(timeout_s=2)
        except KubeError:
            return False
        return True

    def _running_child(self) -> ChildProcess:
        if self._child is None or not self._child.running:
            raise RuntimeError("the sandbox is not running")
        return self._child

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.destroy()
