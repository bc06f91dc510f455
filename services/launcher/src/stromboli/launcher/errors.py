"""What can keep Stromboli from starting.

LauncherError
├── DidNotStart     a process ended, or said nothing, before it was ready
└── PortTaken       somebody else listens where we want to
"""


class LauncherError(Exception):
    """Stromboli could not be started; the sentence says what to do."""


class DidNotStart(LauncherError):
    """A process was not ready in time."""

    def __init__(self, name: str, why: str, log: str, tail: str) -> None:
        super().__init__(f"{name} {why}. Its log is {log}; the last lines are:\n{tail}")
        self.name = name


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

    def __init__(self, folder: str, pid: int) -> None:
        super().__init__(
            f"Stromboli runs on {folder} already (process {pid}): "
            f"`stromboli status --dir {folder}` shows it, `stromboli down --dir {folder}` stops it"
        )


class NothingHere(LauncherError):
    """The folder was never used."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"there is no Stromboli in {folder}: `stromboli up --dir {folder}` starts one"
        )


class NoExamples(LauncherError):
    """There is nothing to demonstrate."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"no example jobs in {folder}: name their folder with --examples")
