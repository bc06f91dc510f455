"""Start processes in order, restart one that dies, and stop them all in reverse.

A process that dies is started again after a pause that grows while it keeps dying; both are
told. Every child is in a session of its own, so that Ctrl-C reaches the launcher alone and
the children are stopped in order, each with time to finish.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from stromboli.launcher.errors import DidNotStart
from stromboli.launcher.folder import Folder
from stromboli.launcher.plan import Planned, environment_of, is_ready

Tell = Callable[[str], None]

_START_S = 60.0
_STOP_S = 15.0
_FIRST_PAUSE_S = 0.2
_MAX_PAUSE_S = 10.0
_STEADY_S = 30.0
_TAIL_BYTES = 2000


@dataclass(slots=True)
class Supervisor:
    """Watches over the planned processes."""

    folder: Folder
    tell: Tell
    changed: Callable[[], None] = lambda: None
    """Called whenever a process was started."""
    _running: dict[str, asyncio.subprocess.Process] = field(
        default_factory=dict[str, asyncio.subprocess.Process]
    )
    _watchers: list["asyncio.Task[None]"] = field(default_factory=list["asyncio.Task[None]"])
    _stopping: bool = False

    async def start(self, planned: list[Planned]) -> None:
        """Start each when those before it are ready, except the one it may start beside."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
            starting: list[Planned] = []
            for one in planned:
                if not one.beside:
                    await self._until_all_ready(starting, session)
                    starting = []
                if one.ready_file is not None:
                    one.ready_file.unlink(missing_ok=True)
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

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._running.items()}

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
            self._running[planned.name] = await asyncio.create_subprocess_exec(
                *planned.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_of(planned),
                start_new_session=True,
            )
        self.changed()

    async def _until_ready(self, planned: Planned, session: aiohttp.ClientSession) -> None:
        process = self._running[planned.name]
        try:
            async with asyncio.timeout(_START_S):
                while not await is_ready(planned, session):
                    if process.returncode is not None:
                        raise self._did_not_start(planned, f"ended with code {process.returncode}")
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.05):
                            await process.wait()
        except TimeoutError:
            late = f"was not ready within {_START_S:g} s"
            raise self._did_not_start(planned, late) from None

    def _did_not_start(self, planned: Planned, why: str) -> DidNotStart:
        log = self.folder.log(planned.name)
        tail = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        return DidNotStart(planned.name, why, str(log), tail)

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
            how = (
                f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            )
            self.tell(f"{planned.name} {how}; starting it again in {pause_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _MAX_PAUSE_S)
            await self._spawn(planned)
