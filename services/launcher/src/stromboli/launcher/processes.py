"""Processes told apart for good: by pid and by the moment they started.

A pid alone proves nothing after a while. It is given to another process, and in every new
container the counting begins anew. So nothing is signalled whose start differs from what was
noted, and a zombie counts as gone: nobody may be there to fetch its end.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from stromboli.launcher.errors import WillNotEnd

__all__ = ["Process", "end", "is_alive", "is_paused", "process_of", "send"]

_POLL_S: Final = 0.05
_TERM_S: Final = 10.0
_KILL_S: Final = 10.0


class Process(msgspec.Struct, frozen=True):
    """One process, and no later one with its pid."""

    pid: int
    started: str
    """When, in words that only this machine since its last start understands."""


class Stat(msgspec.Struct, frozen=True):
    """What the kernel tells of a process; `state` is a letter, as ps shows it."""

    state: str
    started: str


def process_of(pid: int) -> Process:
    """Who has this pid right now."""
    stat = _stat(pid)
    return Process(pid, "" if stat is None else stat.started)


def is_alive(process: Process) -> bool:
    """Whether this very process still runs. One whose start is unknown is nobody."""
    stat = _stat(process.pid)
    return stat is not None and stat.state not in {"Z", "X"} and stat.started == process.started


def is_paused(process: Process) -> bool:
    """Whether somebody stopped it with SIGSTOP."""
    stat = _stat(process.pid)
    return stat is not None and stat.state == "T"


def send(process: Process, number: signal.Signals) -> bool:
    """Signal this very process; False if it is gone. Never another one that has its pid now."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):  # another system, or an old kernel
        return _send_by_pid(process, number)
    try:
        # Whoever the descriptor means keeps its pid for as long as it is open.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def _send_by_pid(process: Process, number: signal.Signals) -> bool:
    if not is_alive(process):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
        return True
    return False


async def end(processes: Mapping[str, Process], tell: Callable[[str], None]) -> None:
    """SIGTERM, the last started first, and SIGKILL for those that stay; returns when all are gone.

    WillNotEnd if even that does not help.
    """
    for process in reversed(list(processes.values())):
        send(process, signal.SIGTERM)
    for name in await _remaining(processes, _TERM_S):
        tell(f"{name} did not stop within {_TERM_S:g} s and was killed")
        send(processes[name], signal.SIGKILL)
    if left := await _remaining(processes, _KILL_S):
        raise WillNotEnd({name: processes[name].pid for name in left})


async def _remaining(processes: Mapping[str, Process], deadline_s: float) -> list[str]:
    """Who still runs when all are gone or the time is over."""
    give_up = time.monotonic() + deadline_s
    while True:
        left = [name for name, process in processes.items() if is_alive(process)]
        if not left or time.monotonic() > give_up:
            return left
        await asyncio.sleep(_POLL_S)


def _stat(pid: int) -> Stat | None:
    """None if nobody has the pid."""
    if Path("/proc/self/stat").exists():
        return _from_proc(pid)
    return _from_ps(pid)


def _from_proc(pid: int) -> Stat | None:
    try:
        # The name in brackets may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return Stat(fields[0], f"{_here()} {fields[19]}")


@cache
def _here() -> str:
    """This start of this machine, and the container whose pids we see."""
    boot, container = "-", "-"
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        container = str(Path("/proc/self/ns/pid").stat().st_ino)
    return f"{boot} {container}"


def _from_ps(pid: int) -> Stat | None:
    """Where there is no /proc, as on macOS."""
    told = subprocess.run(  # noqa: S603 - a number cannot do harm
        ["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
    )
    state, _, started = told.stdout.strip().partition(" ")
    return Stat(state[:1], started.strip()) if state else None
