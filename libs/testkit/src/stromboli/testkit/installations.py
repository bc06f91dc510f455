"""A whole Stromboli, started with `stromboli up` as a person starts it, for a test to hurt.

Which processes it has is read from the running installation, so that a test which kills each
of them in turn needs no change when there is one more.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from stromboli.kube import KubeAccess
from stromboli.runtime.bus.connection import BusSettings
from stromboli.runtime.redaction import Secret
from stromboli.testkit.processes import ChildProcess
from stromboli.testkit.waiting import eventually

__all__ = ["NATS", "AuditLine", "Installation"]

NATS: Final = "nats"
"""The process whose data may be lost."""

_START_S: Final = 60.0
_CONFIGURING: Final = ("STROMBOLI_", "OTEL_", "LOG_")


class AuditLine(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server writes down about a request, as far as tests ask for it."""

    time: str
    verb: str
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    code: int = 0
    node: str = ""
    user_agent: str = ""


class Installation:
    """`stromboli up` on a folder of its own; enter its block to have it running."""

    def __init__(self, folder: Path, *, flags: Sequence[str | Path] = ()) -> None:
        self.folder = folder
        self._flags = flags
        self._up: ChildProcess | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(_CONFIGURING)}
        argv = [sys.executable, "-m", "stromboli.launcher", "up", "--dir", self.folder]
        self._up = ChildProcess(
            [*argv, *self._flags], name="up", log=self.folder.with_suffix(".log"), env=env
        )
        await self._up.until_line("Stromboli is up", _START_S)

    async def stop(self) -> None:
        """As Ctrl-C does it; what does not end in time is killed."""
        if self._up is None:
            return
        left = self.pids
        try:
            self._up.send(signal.SIGINT)
            await self._up.wait(60)
        finally:
            self._up.kill()
            for pid in left.values():
                _kill(pid)

    @property
    def said(self) -> str:
        """What `up` has printed."""
        return "" if self._up is None else self._up.log_text()

    # Where things are.

    def access(self) -> KubeAccess:
        return KubeAccess(kubeconfig=str(self.folder / "kubeconfig"))

    def bus(self, user: str) -> BusSettings:
        """How this user of the NATS server connects."""
        chosen = msgspec.json.decode((self.folder / "installation.json").read_bytes())
        password = (self.folder / "passwords" / user).read_text()
        url = f"nats://127.0.0.1:{chosen['ports'][NATS]}"
        return BusSettings(url=url, user=user, password=Secret(password))

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.log").read_text(errors="replace")

    def audit(self) -> list[AuditLine]:
        """Every change that the API server was asked for, oldest first."""
        found: list[AuditLine] = []
        for path in (self.folder / "api" / "audit.log.1", self.folder / "api" / "audit.log"):
            lines = path.read_bytes().splitlines() if path.exists() else []
            found += [msgspec.json.decode(line, type=AuditLine) for line in lines]
        return found

    # What runs, and hurting it.

    @property
    def pids(self) -> dict[str, int]:
        """Its processes by name, in the order in which they were started."""
        try:
            running: Any = msgspec.json.decode((self.folder / "running.json").read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}
        return {name: process["pid"] for name, process in running["processes"].items()}

    def kill(self, name: str) -> int:
        """Kill -9; `up` starts it again. Returns the pid that it had."""
        pid = self.pids[name]
        _kill(pid)
        return pid

    def lose_all_bus_data(self) -> int:
        """NATS is killed and its disk emptied before `up` starts it again."""
        lost = self.folder / "lost"
        shutil.rmtree(lost, ignore_errors=True)
        pid = self.kill(NATS)
        # In one step: `up` waits a moment only, and the next server must find nothing at all.
        (self.folder / NATS).rename(lost)
        return pid

    async def until_replaced(self, name: str, pid: int, deadline_s: float = 30.0) -> None:
        await eventually(
            lambda: self.pids.get(name, pid) != pid,
            deadline_s=deadline_s,
            describe=f"{name} to be started again",
        )

    async def until_ready(self, deadline_s: float = 60.0) -> None:
        """Return when `stromboli status` says that everything is."""
        argv = [sys.executable, "-m", "stromboli.launcher", "status", "--dir", str(self.folder)]

        def is_ready() -> bool:
            done = subprocess.run(argv, capture_output=True, check=False, timeout=30)
            return done.returncode == 0

        await eventually(
            is_ready, deadline_s=deadline_s, interval_s=0.5, describe="everything to be ready"
        )


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
