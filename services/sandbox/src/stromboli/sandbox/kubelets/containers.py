"""One container run as a local process: begun, found again, awaited, stopped.

What is known about it lies in its folder, written by the shim, so a kubelet that was killed and
started again goes on where it was. A pid alone proves nothing after a while; the time its
process started is compared too.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from stromboli.sandbox.kubelets import shim

__all__ = ["Container", "Ended"]

_POLL_S: Final = 0.05
_START_S: Final = 5.0
_LOST: Final = 137


class Ended(msgspec.Struct, frozen=True):
    """How a container ended; times are as objects carry them, empty if nobody knows."""

    code: int
    started: str = ""
    finished: str = ""
    reason: str = ""


class _Pids(msgspec.Struct, frozen=True):
    shim: int
    process: int
    started: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """The run of a container in this folder; every restart has a folder of its own."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def was_begun(self) -> bool:
        return (self.folder / "claim").exists()

    def ended(self) -> Ended | None:
        """How it ended, if it did and left a note."""
        try:
            note = msgspec.json.decode((self.folder / "exit").read_bytes(), type=Ended)
        except FileNotFoundError:
            return None
        whole_seconds = {key: f"{getattr(note, key)[:19]}Z" for key in ("started", "finished")}
        return msgspec.structs.replace(note, **whole_seconds)

    async def begin(
        self, command: Sequence[str], *, work: Path, environment: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        """Start it; whoever drops the process that is returned before its end may end it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", shim.__file__, str(self.folder), *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=work,
            env=dict(environment),
            start_new_session=True,
        )

    async def wait(self) -> Ended:
        """Until it has ended; one that vanished without a note counts as killed."""
        waited_s = 0.0
        while True:
            ended = self.ended()
            if ended is not None:
                return ended
            pids = self._pids()
            if pids is None:
                # The shim has not come to writing it yet, or never will.
                waited_s += _POLL_S
            if not self._lives(pids) and (pids is not None or waited_s > _START_S):
                return self.ended() or Ended(_LOST, reason="ContainerStatusUnknown")
            await asyncio.sleep(_POLL_S)

    async def stop(self, grace_s: float) -> None:
        """SIGTERM to all of its processes, then SIGKILL when its grace is over."""
        if not self.folder.exists() or self._forestalled():
            return
        pids = await self._pids_soon()
        if pids is None or self.ended() is not None:
            return
        if not self._lives(pids):
            # Nobody will note its end any more, but it may still be there.
            _signal(pids.process, signal.SIGKILL)
            return
        _signal(pids.process, signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self.wait()
        except TimeoutError:
            _signal(pids.process, signal.SIGKILL)
            await self.wait()

    def _forestalled(self) -> bool:
        """True if it had not begun, and now never will: a shim that comes late finds a claim."""
        try:
            (self.folder / "claim").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _pids(self) -> _Pids | None:
        try:
            return msgspec.json.decode((self.folder / "pid").read_bytes(), type=_Pids)
        except FileNotFoundError:
            return None

    async def _pids_soon(self) -> _Pids | None:
        """The shim writes them a moment after it was started."""
        for _ in range(round(_START_S / _POLL_S)):
            pids = self._pids()
            if pids is not None or self.ended() is not None or not self.was_begun:
                return pids
            await asyncio.sleep(_POLL_S)
        return None

    def _lives(self, pids: _Pids | None) -> bool:
        if pids is None:
            return False
        if pids.started:
            return shim.start_time_of(pids.shim) == pids.started and not _is_zombie(pids.shim)
        try:
            os.kill(pids.shim, 0)
        except OSError:
            return False
        return True


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
