"""`python -m bench`: take the figures, show them, and write them to build/bench/."""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import uvloop

from bench import (
    admission,
    api_servers,
    big_job,
    facts,
    intents,
    jobs,
    rebuild,
    recovery,
    replay,
    scheduling,
    traces,
)
from bench.calibration import calibrate, machine
from bench.figures import Figure, NotMeasured, Result, Run
from bench.report import Report, as_text, write
from stromboli.runtime import logs
from stromboli.runtime.logs import LogLevel, LogSettings
from stromboli.testkit.api_server import ServerKind

_ALL: Final[tuple[Figure, ...]] = (
    facts,
    intents,
    jobs,
    recovery,
    big_job,
    scheduling,
    traces,
    admission,
    replay,
    rebuild,
    api_servers,
)
FIGURES: Final = {figure.NAME: figure for figure in _ALL}
SERVERS: Final[tuple[ServerKind, ...]] = ("sandbox", "kube-apiserver")
OUTPUT: Final = Path("build") / "bench"

EXAMPLES: Final = """\
examples:
  python -m bench                          everything, about nine minutes
  python -m bench --quick                  the same with few rounds: does it work at all?
  python -m bench facts intents            two of the figures
  python -m bench --server kube-apiserver  on the real API server only
  python -m bench --json before.json       also write the numbers there, to compare later

The report goes to the terminal and to build/bench/report.{json,md}. Close what else runs on
the machine; the load average and a calibration in the report tell whether you did.
kube-apiserver and etcd come from $KUBEBUILDER_ASSETS, PATH, or `make e2e-assets`; without
them its part of a figure reads "not measured". docs/benchmarks.md explains the numbers.
"""


def parser() -> argparse.ArgumentParser:
    figures = "\n".join(f"  {name:<12} {figure.QUESTION}" for name, figure in FIGURES.items())
    arguments = argparse.ArgumentParser(
        prog="python -m bench",
        description=f"Measure Stromboli's spine on this machine.\n\nfigures:\n{figures}",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument(
        "figures", nargs="*", type=_known, metavar="NAME", help="these figures, not all"
    )
    arguments.add_argument(
        "--server", choices=SERVERS, help="this API server only (default: both, in turn)"
    )
    arguments.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here too")
    arguments.add_argument(
        "--quick", action="store_true", help="few rounds, in half a minute; numbers not to quote"
    )
    return arguments


def _known(name: str) -> str:
    if name not in FIGURES:
        raise argparse.ArgumentTypeError(f"no figure {name!r}; there are: {', '.join(FIGURES)}")
    return name


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout is the report."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


async def take(figure: Figure, run: Run) -> Result:
    """One figure; a failure is part of its result, so that the others are still taken."""
    result = Result(figure=figure.NAME, question=figure.QUESTION, load_average=os.getloadavg()[0])
    started = time.monotonic()
    try:
        async with aclosing(figure.measure(run)) as parts:
            async for part in parts:
                if isinstance(part, NotMeasured):
                    run.say(f"not measured: {part.what}: {part.reason}")
                    result.not_measured.append(part)
                else:
                    result.tables.append(part)
    except Exception as problem:  # noqa: BLE001 (told in the report and by the exit code)
        result.failed = _in_words(problem)
        run.say(f"failed: {result.failed}")
    result.took_s = time.monotonic() - started
    return result


def _in_words(problem: BaseException) -> str:
    """Of a group, its first member: the others are usually the same again."""
    while isinstance(problem, BaseExceptionGroup):
        problem = cast("BaseExceptionGroup[BaseException]", problem).exceptions[0]
    return f"{type(problem).__name__}: {problem}"


def measure_all(names: Sequence[str], servers: Sequence[ServerKind], *, quick: bool) -> Report:
    started = datetime.now(UTC)
    say("calibrating this machine")
    before = calibrate()
    results: list[Result] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="stromboli-bench-") as directory:
            run = Run(
                quick, Path(directory), servers, lambda text, name=name: say(f"{name}: {text}")
            )
            # The loop that our services run on.
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                results.append(runner.run(take(FIGURES[name], run)))
    return Report(
        started=f"{started:%Y-%m-%d %H:%M} UTC",
        quick=quick,
        machine=machine(),
        before=before,
        after=calibrate(),
        results=results,
    )


def main() -> int:
    arguments = parser().parse_args()
    logs.configure(LogSettings(level=LogLevel.ERROR), service="bench")
    servers = (cast("ServerKind", arguments.server),) if arguments.server else SERVERS
    report = measure_all(arguments.figures or list(FIGURES), servers, quick=arguments.quick)
    print(as_text(report))
    for path in write(report, OUTPUT, arguments.json):
        say(f"wrote {path}")
    return 1 if any(result.failed for result in report.results) else 0


if __name__ == "__main__":
    sys.exit(main())
