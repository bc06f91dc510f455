"""`vcctl simulate`: what would become of these objects, decided by the real cores in memory.

Reads the files, prints the result. Nothing here needs a cluster or a bus.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from stromboli.runtime.collecting import collect_rarely
from stromboli.scheduling.conf import SchedulingConf
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.conf_text import conf_from
from stromboli.simulating.kubelet import RunsFor, run_seconds
from stromboli.simulating.manifests import Source, read_manifests
from stromboli.simulating.outcome import outcome_of
from stromboli.simulating.particulars import particulars_of
from stromboli.simulating.plotting import check_format
from stromboli.simulating.simulate import cluster_of, run_cycles, run_until_idle
from stromboli.vcctl.errors import UnusableFile
from stromboli.vcctl.outcome_tables import print_tables
from stromboli.vcctl.simulate_trace import simulate_trace
from stromboli.vcctl.tables import warn
from stromboli.vcctl.trace_tables import print_figures

__all__ = ["run"]

_STDIN: Final = "-"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def run(options: Namespace) -> None:
    """Print what comes of it; raises SimulationError or UnusableFile for bad input."""
    collect_rarely()
    conf = conf_from(_file(Path(options.conf))) if options.conf else None
    if options.trace:
        _run_trace(options, conf)
        return
    cluster = _loaded(options, conf, run_seconds)
    if options.cycles is None:
        given_up = run_until_idle(cluster)
        if given_up:
            warn(f"gave up waiting for the cluster to come to rest: {given_up}")
    else:
        run_cycles(cluster, options.cycles)
    outcome = outcome_of(cluster)
    _show(outcome, options.output, lambda: print_tables(outcome, particulars_of(cluster)))


def _run_trace(options: Namespace, conf: SchedulingConf | None) -> None:
    if options.plot:
        check_format(options.plot)
    cluster = _loaded(options, conf, lambda _: None)
    figures = simulate_trace(options, map(_file, map(Path, options.trace)), cluster)
    _show(msgspec.to_builtins(figures), options.output, lambda: print_figures(figures))


def _loaded(options: Namespace, conf: SchedulingConf | None, runs_for: RunsFor) -> Cluster:
    """The cluster of the files; if one of them is refused, a warning may well say why."""
    manifests = read_manifests(_sources(options.filename))
    try:
        return cluster_of(manifests, conf, runs_for=runs_for)
    finally:
        for warning in manifests.warnings:
            warn(warning)


def _show(outcome: dict[str, Any], form: str, as_tables: Callable[[], None]) -> None:
    match form:
        case "json":
            text = msgspec.json.format(msgspec.json.encode(outcome), indent=2).decode()
        case "yaml":
            text = yaml.dump(outcome, Dumper=_DUMPER, sort_keys=False, allow_unicode=True).rstrip()
        case _:
            as_tables()
            return
    sys.stdout.write(f"{text}\n")


def _sources(names: list[str]) -> Iterator[Source]:
    for name in names:
        path = Path(name)
        if name == _STDIN:
            yield Source("standard input", sys.stdin.read())
        elif path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
            if not files:
                raise UnusableFile(f"{name}: the folder holds no .yaml, .yml or .json files")
            yield from map(_file, files)
        else:
            yield _file(path)


def _file(path: Path) -> Source:
    try:
        return Source(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
        raise UnusableFile(f"{path}: cannot be read: {reason}") from fault
