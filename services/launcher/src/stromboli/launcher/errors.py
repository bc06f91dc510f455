"""What can keep Stromboli from starting or stopping.

LauncherError
├── AlreadyUp        another launcher holds the folder
├── DidNotStart      a process ended, or was not ready in time
├── FolderUnusable   the folder can't be made, read or written
├── NoExamples       there is nothing to demonstrate
├── NothingHere      the folder was never used
├── OutOfSight       the launcher runs where we can't see it
├── PortTaken        somebody else listens where we want to
└── WillNotEnd       a process is there after a SIGKILL
"""

import shlex
from collections.abc import Mapping


class LauncherError(Exception):
    """Stromboli could not be started; the sentence says what to do."""


class DidNotStart(LauncherError):
    """A process was not ready in time."""

    def __init__(self, name: str, why: str, log: str, tail: str) -> None:
        told = f"the last it says is:\n{tail}" if tail else "it is empty"
        super().__init__(f"{name} {why}. Its log is {log}; {told}")
        self.name = name


class FolderUnusable(LauncherError):
    """The folder is no place to work in."""

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(f"the folder {folder} can't be used: {why}; choose another with --dir")


class PortTaken(LauncherError):
    """The port is in use."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__(
            f"port {port} for {name} is taken: stop what uses it, or choose another folder "
            "with --dir (a new folder takes free ports)"
        )
        self.port = port


class AlreadyUp(LauncherError):
    """The folder is in use."""

    def __init__(self, folder: str) -> None:
        where = shlex.quote(folder)
        super().__init__(
            f"Stromboli runs on {folder} already: `stromboli status --dir {where}` shows it, "
            f"`stromboli down --dir {where}` stops it"
        )


class OutOfSight(LauncherError):
    """Somebody holds the folder, and is no process that we can see."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"Stromboli runs on {folder}, but its launcher can't be seen from here: it may be in "
            "another container or on another machine; stop it there"
        )


class WillNotEnd(LauncherError):
    """Not even SIGKILL helped."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        left = ", ".join(f"{name} (process {pid})" for name, pid in pids.items())
        super().__init__(f"these processes did not end, although they were killed: {left}")


class NothingHere(LauncherError):
    """The folder was never used."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"there is no Stromboli in {folder}: `stromboli up --dir {shlex.quote(folder)}` "
            "starts one"
        )


class NoExamples(LauncherError):
    """There is nothing to demonstrate."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"no example jobs in {folder}: name their folder with --examples")
