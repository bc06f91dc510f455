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
from stromboli.simulating.running import Progress, run_trace
from stromboli.simulating.trace_file import read_traces
from stromboli.simulating.trace_report import Figures
from stromboli.vcctl.errors import UnusableFile
from stromboli.vcctl.printing import human_duration

__all__ = ["simulate_trace"]

_SAY_EVERY_S: Final = 0.5


def simulate_trace(options: Namespace, traces: Iterable[Source], cluster: Cluster) -> Figures:
    """Raises SimulationError or UnusableFile for what can't be done."""
    trace = read_traces(traces, cluster.objects.values())
    until_s = math.inf if options.until is None else options.until
    run = run_trace(trace, cluster, until_s=until_s, progress=_progress())
    figures = figures_of(run)
    if options.plot:
        title = " + ".join(Path(name).name for name in options.trace)
        _write(options.plot, picture(run, figures, file_name=options.plot, title=title))
    return figures


def _progress() -> Progress:
    """Nothing, unless somebody watches."""
    if not sys.stderr.isatty():
        return lambda _now, _over, _all: None
    said = time.monotonic()

    def say(now_s: float, over: int, every: int) -> None:
        nonlocal said
        if over == every or time.monotonic() - said < _SAY_EVERY_S:
            return
        said = time.monotonic()
        line = f"{over} of {every} jobs are over, {human_duration(now_s)} of virtual time"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    return say


def _write(name: str, content: bytes) -> None:
    try:
        Path(name).write_bytes(content)
    except OSError as fault:
        raise UnusableFile(f"{name}: cannot be written: {fault.strerror}") from fault
