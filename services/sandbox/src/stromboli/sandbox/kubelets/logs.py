"""What a container printed, as `kubectl logs` wants it: the last lines, from a time on, followed.

Logs of processes are files of `<time> <stream> <F|P> <text>`, as kubelets keep them. Simulated
containers print nothing; theirs are a few lines that say what was pretended.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import msgspec

from stromboli.api.core.containers import ContainerStateRunning, ContainerStateTerminated
from stromboli.api.core.pod import Pod
from stromboli.api.timestamps import format_micro_time, parse_time
from stromboli.sandbox.kubelets.rules import Behaviour

__all__ = ["FileLog", "Line", "Log", "LogOptions", "NoLog", "SimulatedLog", "printed", "since_of"]

_POLL_S: Final = 0.1
_CHUNK: Final = 64 * 1024


class NoLog(Exception):
    """There is no such attempt of the container."""


class Line(msgspec.Struct, frozen=True):
    time: str
    text: bytes
    """With its line break, unless it is a part of a longer line."""


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None


class Log(Protocol):
    def lines(self) -> Iterator[Line]:
        """What there is now and was not told before."""
        ...

    def is_over(self) -> bool:
        """Nothing will be added any more."""
        ...


async def printed(log: Log, options: LogOptions) -> AsyncIterator[bytes]:
    """The text of a log in parts, until it is over or, without `follow`, until its present end."""
    room = options.limit_bytes
    first = (line for line in log.lines() if _is_wanted(line, options.since))
    lines = first if options.tail_lines is None else iter(deque(first, options.tail_lines))
    while True:
        for chunk in _chunks(lines, timestamps=options.timestamps):
            part = chunk if room is None else chunk[:room]
            if part:
                yield part
            if room is not None:
                room -= len(part)
                if room <= 0:
                    return
        if not options.follow:
            return
        over = log.is_over()
        lines = log.lines()
        if not over:
            await asyncio.sleep(_POLL_S)
        else:
            options = msgspec.structs.replace(options, follow=False)


def _is_wanted(line: Line, since: datetime | None) -> bool:
    return since is None or parse_time(line.time) >= since


def _chunks(lines: Iterator[Line], *, timestamps: bool) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for line in lines:
        part = f"{line.time} ".encode() + line.text if timestamps else line.text
        parts.append(part)
        size += len(part)
        if size >= _CHUNK:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


class FileLog:
    def __init__(self, path: Path, *, is_over: Callable[[], bool]) -> None:
        self._path = path
        self._is_over = is_over
        self._offset = 0

    def is_over(self) -> bool:
        return self._is_over()

    def lines(self) -> Iterator[Line]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                for entry in file:
                    if not entry.endswith(b"\n"):
                        return  # it is being written; the next look finds it whole
                    self._offset += len(entry)
                    time, _, tag, text = entry.split(b" ", 3)
                    whole = text if tag == b"F" else text[:-1]
                    yield Line(time.decode(), whole)
        except FileNotFoundError:
            return


class SimulatedLog:
    """Told from the pod's status alone, so that it is the same whoever tells it."""

    def __init__(
        self, latest: Callable[[], Pod | None], behaviour: Behaviour, attempt: int
    ) -> None:
        self._latest = latest
        self._behaviour = behaviour
        self._attempt = attempt
        self._told = 0
        if not self._all():
            raise NoLog

    def is_over(self) -> bool:
        _, terminated = self._states()
        return self._latest() is None or terminated is not None

    def lines(self) -> Iterator[Line]:
        for line in self._all()[self._told :]:
            self._told += 1
            yield line

    def _states(self) -> tuple[ContainerStateRunning | None, ContainerStateTerminated | None]:
        """What is said about this attempt: it is the present one, the last one, or forgotten."""
        pod = self._latest()
        for status in pod.status.container_statuses[:1] if pod is not None else ():
            age = status.restart_count - self._attempt
            if age in {0, 1}:
                state = status.last_state if age else status.state
                return state.running, state.terminated
        return None, None

    def _all(self) -> list[Line]:
        pod = self._latest()
        running, terminated = self._states()
        began = (terminated or running or ContainerStateRunning()).started_at
        if pod is None or not began:
            return []
        container = pod.spec.containers[0]
        command = " ".join([*container.command, *container.args]) or "(the image's own)"
        run_s = self._behaviour.run_s
        plan = (
            "it runs until it is stopped"
            if run_s is None
            else f"it runs {run_s:g} s and exits with {self._behaviour.exit_code}"
        )
        told = [
            _line(began, f"simulated container {container.name} started on {pod.spec.node_name}"),
            _line(began, f"command: {command}"),
            _line(began, plan),
        ]
        if terminated is not None and terminated.finished_at:
            end = f"ended with exit code {terminated.exit_code}"
            told.append(_line(terminated.finished_at, end))
        return told


def _line(at: str, text: str) -> Line:
    return Line(format_micro_time(parse_time(at)), f"{text}\n".encode())


def since_of(*, seconds: int | None, time: str | None) -> datetime | None:
    """The moment that `sinceSeconds` or `sinceTime` means; ValueError on an unreadable time."""
    if seconds is not None:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    return None if not time else parse_time(time)
