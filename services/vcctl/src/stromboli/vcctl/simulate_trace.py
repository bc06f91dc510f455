"""`vcctl simulate --trace`: a day of jobs in seconds, on the real cores and virtual time.

Reads traces and manifests, prints the figures, writes the picture. On a terminal a line on
standard error says how far it is.
"""

import math
import sys
import time
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from stromboli.simulating.cluster import Cluster
from stromboli.simulating.figures import figures_of
from stromboli.simulating.manifests import Source
from stromboli.simulating.plotting import picture
from stromboli.simulating.running import run_trace
from stromboli.simulating.trace_file import read_traces
from stromboli.simulating.trace_report import Figures
from stromboli.vcctl.errors import UnusableFile
from stromboli.vcctl.printing import human_duration

__all__ = ["simulate_trace"]

_SAY_EVERY_S: Final = 0.5
_CLEAR_LINE: Final = "\r\x1b[K"


def simulate_trace(options: Namespace, traces: Iterable[Source], cluster: Cluster) -> Figures:
    """Raises SimulationError or UnusableFile for what can't be done."""
    trace = read_traces(traces, cluster.objects.values())
    until_s = math.inf if options.until is None else options.until
    line = _ProgressLine()
    try:
        run = run_trace(trace, cluster, until_s=until_s, progress=line.say)
    finally:
        line.clear()
    figures = figures_of(run)
    if options.plot:
        title = " + ".join(Path(name).name for name in options.trace)
        _write(options.plot, picture(run, figures, file_name=options.plot, title=title))
    return figures


class _ProgressLine:
    """One line on standard error that is written over; nothing, unless somebody watches."""

    def __init__(self) -> None:
        self._is_watched = sys.stderr.isatty()
        self._said_at = time.monotonic()
        self._stands = False

    def say(self, now_s: float, over: int, every: int) -> None:
        if not self._is_watched or time.monotonic() - self._said_at < _SAY_EVERY_S:
            return
        self._said_at = time.monotonic()
        self._stands = True
        line = f"{over} of {every} jobs are over, {human_duration(now_s)} of virtual time"
        sys.stderr.write(f"{_CLEAR_LINE}{line}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._stands:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()


def _write(name: str, content: bytes) -> None:
    try:
        Path(name).write_bytes(content)
    except OSError as fault:
        raise UnusableFile(f"{name}: cannot be written: {fault.strerror}") from fault
