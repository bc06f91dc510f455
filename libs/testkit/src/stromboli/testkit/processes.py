"""Child processes of a test: started, watched, hurt, and always reaped.

Every child's output goes to a file that is shown when the test fails, also of a child that
has ended by itself: that may be why. A child is ended by its own pid and waited for; whatever
a test leaves behind is killed when the test process exits, because a forgotten server would
disturb the next run.

They are plain `subprocess.Popen` children, not asyncio's, so that one server may live
longer than the event loop of the test that started it.
"""

import atexit
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from stromboli.testkit.waiting import NeverHappened, eventually

__all__ = ["ChildProcess", "ProcessFailed", "fallen_children", "forget_fallen", "living_children"]

T = TypeVar("T")

_TAIL_LINES: Final = 60

_alive: Final[dict[int, "ChildProcess"]] = {}
_fallen: Final[list["ChildProcess"]] = []


class ProcessFailed(Exception):
    """A child did not do what the test needed; carries the end of its log."""

    def __init__(self, name: str, *, what: str, log: str) -> None:
        self.name = name
        super().__init__(f"{name} {what}; the end of its log:\n{log or '(nothing logged)'}")


def living_children() -> list["ChildProcess"]:
    """The children that are not reaped yet, oldest first."""
    return [child for child in list(_alive.values()) if child.running]


def fallen_children() -> list["ChildProcess"]:
    """Those that nobody has ended and that do not run any more."""
    living_children()  # looks at each
    return list(_fallen)


def forget_fallen() -> None:
    """Another test begins: those of the last one are none of its business."""
    fallen_children()
    _fallen.clear()


@atexit.register
def _kill_leftovers() -> None:
    for child in living_children():
        child.kill()


class ChildProcess:
    """One running child with its log file."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        name: str,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        # Appending keeps the story of a restarted server in one file.
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [os.fspath(argument) for argument in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                # Ctrl-C at the terminal is for the test run; it ends its children itself.
                start_new_session=True,
            )
        _alive[self.pid] = self

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative is the signal that ended it."""
        code = self._process.poll()
        if code is not None and _alive.pop(self.pid, None) is not None:
            _fallen.append(self)
        return code

    @property
    def running(self) -> bool:
        return self.returncode is None

    def log_text(self) -> str:
        """What this child has written so far (not its predecessors in the same file)."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def log_tail(self, lines: int = _TAIL_LINES) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this child only; one that has ended is left alone."""
        if self.running:
            self._process.send_signal(number)

    def pause(self) -> None:
        """Freeze it as it stands: sockets stay open, nothing answers. Returns when it stands."""
        if self.running:
            self.send(signal.SIGSTOP)
            # The signal takes a moment to stop every thread; the exit code stays to be fetched.
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, also when paused; returns when the child is gone and reaped."""
        self.send(signal.SIGKILL)
        self._process.wait()
        self._was_ended()

    async def wait(self, deadline_s: float = 10.0) -> int:
        """Its exit code, once it has ended by itself or by a signal."""
        try:
            await eventually(lambda: not self.running, deadline_s=deadline_s)
        except NeverHappened as error:
            raise self._failed(f"was still running after {deadline_s:g} s") from error
        return self._process.wait()

    async def terminate(self, deadline_s: float = 10.0) -> int:
        """SIGTERM and wait; one that does not go in time is killed, and that is a failure."""
        self.send(signal.SIGTERM)
        self.resume()
        try:
            code = await self.wait(deadline_s)
        except ProcessFailed:
            self.kill()
            raise
        self._was_ended()
        return code

    def _was_ended(self) -> None:
        _alive.pop(self.pid, None)
        if self in _fallen:
            _fallen.remove(self)

    async def until_line(self, pattern: str, deadline_s: float = 10.0) -> re.Match[str]:
        """The first match of the pattern in its log."""
        compiled = re.compile(pattern, re.MULTILINE)
        return await self.until(
            lambda: compiled.search(self.log_text()),
            deadline_s=deadline_s,
            what=f"logged nothing that matches {pattern!r}",
        )

    async def until(self, predicate: Callable[[], T | None], *, deadline_s: float, what: str) -> T:
        """The predicate's first true value; a child that ended meanwhile fails at once."""

        def still_possible() -> T | None:
            ended = not self.running
            value = predicate()
            if not value and ended:
                raise self._failed(f"{what} and ended with code {self.returncode}")
            return value

        try:
            return await eventually(still_possible, deadline_s=deadline_s)
        except NeverHappened as error:
            raise self._failed(f"{what} within {deadline_s:g} s") from error

    def _failed(self, what: str) -> ProcessFailed:
        return ProcessFailed(self.name, what=what, log=self.log_tail())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
