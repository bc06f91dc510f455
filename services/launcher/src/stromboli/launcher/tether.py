"""Runs a command that ends with the launcher, however that ends.

The launcher stops its processes in order when it can. A launcher that is killed with -9 can't, so
Linux is asked to kill each of them then; where that can't be asked for, the next `stromboli up` or
`down` ends them. It is started as a file, without the package around it, and becomes the command:

    tether.py <pid of the launcher> <command> <arguments …>
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def tie_to_parent() -> None:
    """Ask to be killed when the parent ends; what is executed later keeps this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main(launcher: int, command: list[str]) -> None:
    tie_to_parent()
    if os.getppid() != launcher:  # it ended before it was tied to
        sys.exit(f"the launcher (process {launcher}) has ended")
    try:
        os.execv(command[0], command)  # noqa: S606 - running this command is what it is for
    except OSError as problem:
        sys.exit(f"can't start {command[0]!r}: {problem.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
