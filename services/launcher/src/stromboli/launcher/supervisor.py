"""Start processes in order, restart one that dies, and stop them all in reverse.

A process that dies is started again after a pause that grows while it keeps dying; both are
told. Every child is in a session of its own, so that Ctrl-C reaches the launcher alone and
the children are stopped in order, each with time to finish. A launcher that can't do that takes
them along (`tether.py`).
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from stromboli.launcher import tether
from stromboli.launcher.errors import DidNotStart
from stromboli.launcher.folder import Folder
from stromboli.launcher.log_tails import last_lines, last_words, written_since
from stromboli.launcher.plan import Planned, environment_of
from stromboli.launcher.processes import Process, process_of
from stromboli.launcher.readiness import asking, why_not_ready

Tell = Callable[[str], None]

_START_S = 60.0
_SLOW_S = 10.0
"""A start that takes longer than this is told of."""
_STOP_S = 15.0
_FIRST_PAUSE_S = 0.2
_MAX_PAUSE_S = 10.0
_STEADY_S = 30.0
_TAIL_LINES = 5


@dataclass(slots=True)
class Supervisor:
    """Watches over the planned processes."""

    folder: Folder
    tell: Tell
    changed: Callable[[], None] = lambda: None
    """Called whenever a process was started."""
    processes: dict[str, Process] = field(default_factory=dict[str, Process])
    """What was started last under each name."""
    _started: list[Planned] = field(default_factory=list[Planned])
    _log_starts: dict[str, int] = field(default_factory=dict[str, int])
    """Where in its log each began for the first time: an end may be told before a new beginning."""
    _running: dict[str, asyncio.subprocess.Process] = field(
        default_factory=dict[str, asyncio.subprocess.Process]
    )
    _watchers: list["asyncio.Task[None]"] = field(default_factory=list["asyncio.Task[None]"])
    _stopping: bool = False

    async def start(self, planned: list[Planned]) -> None:
        """Start each when those before it are ready, except the one it may start beside."""
        async with asking() as session:
            starting: list[Planned] = []
            for one in planned:
                if not one.beside:
                    await self._until_all_ready(starting, session)
                    starting = []
                if one.ready_file is not None:
                    one.ready_file.unlink(missing_ok=True)
                self._started.append(one)
                await self._spawn(one)
                starting.append(one)
            await self._until_all_ready(starting, session)
            # One that stood by when it was asked may lead by now, and have more to do.
            for one in planned:
                await self._until_ready(one, session)

    async def _until_all_ready(
        self, starting: list[Planned], session: aiohttp.ClientSession
    ) -> None:
        for one in starting:
            await self._until_ready(one, session)
            watcher = asyncio.create_task(self._keep(one), name=f"keep {one.name}")
            self._watchers.append(watcher)

    def kill(self, name: str) -> None:
        """Kill -9, for demonstrations: it will be started again."""
        self._running[name].kill()

    async def stop(self) -> None:
        """The last started stops first; one that does not stop in time is killed."""
        self._stopping = True
        for watcher in self._watchers:
            watcher.cancel()
        if self._watchers:
            await asyncio.wait(self._watchers)
        for name, process in reversed(self._running.items()):
            if process.returncode is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                self.tell(f"{name} did not stop within {_STOP_S:g} s and was killed")
                process.kill()
                await process.wait()

    async def _spawn(self, planned: Planned) -> None:
        with self.folder.log(planned.name).open("ab") as log:
            self._log_starts.setdefault(planned.name, log.tell())
            process = await asyncio.create_subprocess_exec(
                *tethered(planned.argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_of(planned),
                start_new_session=True,
            )
        self._running[planned.name] = process
        self.processes[planned.name] = process_of(process.pid)
        self.changed()

    async def _until_ready(self, planned: Planned, session: aiohttp.ClientSession) -> None:
        process = self._running[planned.name]
        started_at = asyncio.get_running_loop().time()
        is_slow = False
        while reason := await self._why_not_ready(planned, session):
            if process.returncode is not None:
                raise self._ended(planned, process.returncode)
            waited_s = asyncio.get_running_loop().time() - started_at
            if waited_s > _START_S:
                raise await self._stuck(planned, reason, session)
            if waited_s > _SLOW_S and not is_slow:
                is_slow = True
                stuck, why = await self._first_unready(planned, reason, session)
                self.tell(f"waiting for {stuck.name}: {why}")
                self.tell(f"its log says: {last_words(self._log_of(stuck))}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await process.wait()

    def _ended(self, planned: Planned, code: int) -> DidNotStart:
        tail = last_lines(self._log_of(planned), _TAIL_LINES)
        log = str(self.folder.log(planned.name))
        return DidNotStart(planned.name, _how(code), log, tail)

    async def _stuck(
        self, planned: Planned, reason: str, session: aiohttp.ClientSession
    ) -> DidNotStart:
        """Blame the one for which the others wait, whichever of them was waited for."""
        stuck, why = await self._first_unready(planned, reason, session)
        late = f"was not ready within {_START_S:g} s: {why}"
        log = str(self.folder.log(stuck.name))
        return DidNotStart(stuck.name, late, log, last_words(self._log_of(stuck)))

    async def _first_unready(
        self, planned: Planned, reason: str, session: aiohttp.ClientSession
    ) -> tuple[Planned, str]:
        """Each waits for those before it, so the first that is not ready holds up the rest."""
        for one in self._started:
            if one.name == planned.name:
                break
            if why := await self._why_not_ready(one, session):
                return one, why
        return planned, reason

    async def _why_not_ready(self, planned: Planned, session: aiohttp.ClientSession) -> str:
        if self._running[planned.name].returncode is not None:
            return "it has ended"
        if planned.ready_line and planned.ready_line not in self._log_of(planned):
            return "it has not finished its preparations"
        return await why_not_ready(planned, session)

    def _log_of(self, planned: Planned) -> str:
        return written_since(self.folder.log(planned.name), self._log_starts[planned.name])

    async def _keep(self, planned: Planned) -> None:
        loop = asyncio.get_running_loop()
        pause_s = _FIRST_PAUSE_S
        while not self._stopping:
            started_at = loop.time()
            code = await self._running[planned.name].wait()
            if self._stopping:
                return
            if loop.time() - started_at > _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            self.tell(f"{planned.name} {_how(code)}; starting it again in {pause_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _MAX_PAUSE_S)
            try:
                await self._spawn(planned)
            except OSError as problem:  # a full disk, or somebody removed the folder
                self.tell(f"{planned.name} could not be started as it should be: {problem}")


def tethered(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that ends with this process."""
    return (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *argv)


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # one that has no name
        return f"was killed by signal {-code}"
