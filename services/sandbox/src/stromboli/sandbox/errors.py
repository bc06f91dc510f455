"""Every exception the sandbox raises on purpose.

    SandboxError
    ├── ConfigError          a setting that cannot be used
    ├── DataDirectoryInUse   another server holds the data directory
    ├── JournalCorrupt       a journal that cannot be read as a whole
    ├── NoEndpoints          a service or pod that cannot be connected to
    ├── WebhookUnreachable   a webhook that gave no answer that can be used
    └── ApiRefusal           a request answered with a metav1.Status, by statuses.py

`ApiRefusal` is the only one a client meets. It travels as an exception because a request is
refused many calls below the place that writes the answer; `http.py` is the one translation point.
"""

from typing import Any

__all__ = [
    "ApiRefusal",
    "ConfigError",
    "DataDirectoryInUse",
    "JournalCorrupt",
    "NoEndpoints",
    "SandboxError",
    "WebhookUnreachable",
]


class SandboxError(Exception):
    """Whatever goes wrong in the sandbox itself."""


class ConfigError(SandboxError):
    def __init__(self, setting: str, problem: str) -> None:
        self.setting = setting
        super().__init__(f"setting {setting!r} cannot be used: {problem}")


class DataDirectoryInUse(SandboxError):
    def __init__(self, directory: str) -> None:
        self.directory = directory
        super().__init__(
            f"data directory {directory!r} is held by another sandbox server; stop that one"
            " or choose another directory"
        )


class JournalCorrupt(SandboxError):
    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(
            f"journal file {path!r} cannot be read: {problem}; move it away to start without it"
        )


class NoEndpoints(SandboxError):
    """Nobody listens for this service or pod, in words a client may see."""


class WebhookUnreachable(SandboxError):
    """Why a webhook's opinion is not known; the words follow `failed calling webhook "x": `."""


class ApiRefusal(SandboxError):
    """The request is answered with this Status instead of being performed."""

    def __init__(self, code: int, status: dict[str, Any]) -> None:
        self.code = code
        self.status = status
        super().__init__(f"{code} {status.get('reason', '')}: {status.get('message', '')}")
