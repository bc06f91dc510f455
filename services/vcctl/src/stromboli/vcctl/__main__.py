"""`vcctl`: find out what was asked, have it done, print the answer.

Failures are printed on standard output and end with status 255, because that is where and
how scripts written for Volcano look for them. `simulate`, which Volcano has not, keeps standard
output for its result: its failures are on standard error, with status 1.
"""

import asyncio
import os
import sys
from argparse import Namespace

from stromboli.api.errors import ApiError as UnreadableObject
from stromboli.kube.errors import ApiError, KubeError
from stromboli.runtime import logs
from stromboli.runtime.errors import StromboliError
from stromboli.simulating.errors import SimulationError
from stromboli.vcctl.access import connected
from stromboli.vcctl.arguments import SIMULATE, parse
from stromboli.vcctl.errors import BadLine, VcctlError
from stromboli.vcctl.versions import version_text

FAILED = 255
BAD_INPUT = 1
INTERRUPTED = 130


def main(argv: list[str] | None = None) -> None:
    sys.exit(_run(argv))


def _run(argv: list[str] | None) -> int:
    try:
        options = parse(argv)
    except BadLine as problem:
        return _failed(problem.path, problem)
    try:
        _carry_out(options)
        sys.stdout.flush()
    except (VcctlError, KubeError, UnreadableObject, StromboliError, SimulationError) as problem:
        # The API server's own words, without the request that our client puts before them.
        words = problem.message if isinstance(problem, ApiError) else problem
        return _failed(options.path, words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
    return 0


def _failed(path: str, words: object) -> int:
    if path == SIMULATE:
        print(f"Failed to {path}: {words}", file=sys.stderr)
        return BAD_INPUT
    print(f"Failed to {path}: {words}")
    return FAILED


def _carry_out(options: Namespace) -> None:
    match options.needs:
        case "kube":
            if answer := asyncio.run(_ask(options)):
                print(answer)
        case "bus":
            logs.configure(
                logs.LogSettings(level=logs.LogLevel.WARNING),
                service="vcctl",
                stream=sys.stderr.buffer,
            )
            asyncio.run(_tail(options))
        case "simulation":
            # It brings numpy and the cores: no other command waits for them.
            from stromboli.vcctl import simulate

            simulate.run(options)
        case _:
            print(version_text())


async def _ask(options: Namespace) -> str:
    async with connected(kubeconfig=options.kubeconfig, master=options.master) as kube:
        return await options.run(kube, options)


async def _tail(options: Namespace) -> None:
    try:
        await options.run(options, lambda line: print(line, flush=True))
    except* BrokenPipeError:
        _forget_output()


def _forget_output() -> None:
    """Whoever read has gone (`| head`): not even Python's last flush may complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
