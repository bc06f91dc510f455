"""How containers run: pretended by rules, or for real as local processes.

A runtime answers one question, "how did it end?", can be told to stop, and knows what was
printed. Everything about pods, phases and restarts is the kubelet's business. An attempt is one
run of a pod's container; a restart is the next attempt.
"""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from stromboli.api.core.pod import Pod
from stromboli.api.timestamps import parse_time
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.kubelets.containers import Container, Ended
from stromboli.sandbox.kubelets.logs import FileLog, Log, NoLog, SimulatedLog
from stromboli.sandbox.kubelets.mounts import PodFiles
from stromboli.sandbox.kubelets.rules import Rule, behaviour_of

__all__ = ["Processes", "Runtime", "Simulated"]

_DEFAULT_GRACE_S: Final = 30
_REAP_S: Final = 5.0
_NOT_STARTED: Final = 128
_LOG: Final = logging.getLogger("stromboli.sandbox.kubelets")
_clock = Clock()


class Runtime(Protocol):
    """Runs the containers of pods."""

    @property
    def local_address(self) -> str:
        """Where pods can be reached on this machine; empty if they cannot."""
        ...

    async def prepare(self, pod: Pod) -> None:
        """Before it counts as started: delays, files. Raises OSError when it can't."""
        ...

    def newest_attempt(self, pod: Pod) -> int:
        """The last attempt that was begun here, also by an earlier process; -1 if none was."""
        ...

    async def run(self, pod: Pod, attempt: int) -> Ended:
        """Run until it ends. What runs already, or has ended meanwhile, is not begun again."""
        ...

    async def stop(self, pod: Pod) -> None:
        """End whatever runs of it, within its grace."""
        ...

    def discard(self, pod: Pod) -> None:
        """The pod is gone: so is what was kept of it."""
        ...

    async def discard_all_but(self, uids: Collection[str]) -> None:
        """End and forget what is left of pods that went while nobody was here."""
        ...

    def log(self, pod: Pod, attempt: int, *, latest: Callable[[], Pod | None]) -> Log:
        """What an attempt printed; NoLog if there is none. `latest` tells how the pod is now."""
        ...


@dataclass(slots=True)
class Simulated:
    """Nothing runs; time passes."""

    rules: Sequence[Rule]
    local_address: str = ""

    async def prepare(self, pod: Pod) -> None:
        if pod.status.phase != "Running":
            await asyncio.sleep(behaviour_of(pod, self.rules).start_s)

    def newest_attempt(self, pod: Pod) -> int:
        statuses = pod.status.container_statuses
        return statuses[0].restart_count if statuses else -1

    async def run(self, pod: Pod, attempt: int) -> Ended:
        behaviour = behaviour_of(pod, self.rules)
        if behaviour.run_s is None:
            await asyncio.Event().wait()
        await asyncio.sleep((behaviour.run_s or 0.0) - _already_run_s(pod, attempt))
        return Ended(behaviour.exit_code)

    async def stop(self, pod: Pod) -> None:
        pass

    def discard(self, pod: Pod) -> None:
        pass

    async def discard_all_but(self, uids: Collection[str]) -> None:
        pass

    def log(self, pod: Pod, attempt: int, *, latest: Callable[[], Pod | None]) -> Log:
        return SimulatedLog(latest, behaviour_of(pod, self.rules), attempt)


def _already_run_s(pod: Pod, attempt: int) -> float:
    """How long ago this attempt began, if its pod says that it runs."""
    for status in pod.status.container_statuses[:1]:
        running = status.state.running
        if running is not None and running.started_at and status.restart_count == attempt:
            return max(0.0, _clock.now() - parse_time(running.started_at).timestamp())
    return 0.0


@dataclass(slots=True)
class Processes:
    """The first container's command, in a folder of its own, with its environment and files."""

    files: PodFiles
    local_address: str = "127.0.0.1"
    _children: dict[str, asyncio.subprocess.Process] = field(
        default_factory=dict[str, asyncio.subprocess.Process]
    )
    """The shims started here, by pod; held until they have ended."""

    async def prepare(self, pod: Pod) -> None:
        if self.newest_attempt(pod) < 0:
            await self.files.lay_out(pod)

    def newest_attempt(self, pod: Pod) -> int:
        folder = self._attempts(pod)
        with contextlib.suppress(FileNotFoundError):
            return max((int(one.name) for one in folder.iterdir()), default=-1)
        return -1

    async def run(self, pod: Pod, attempt: int) -> Ended:
        container = self._container(pod, attempt)
        if not container.was_begun:
            folder = self.files.folder_of(pod)
            spec = pod.spec.containers[0]
            command = [*spec.command, *spec.args]
            if not command:
                await asyncio.Event().wait()  # the image would know what to run; we have no image
            environment = await self.files.environment(pod, folder)
            try:
                await self._begin(pod, container, command, environment)
            except OSError as problem:
                _LOG.warning(
                    "container.not_started",
                    extra={"pod": pod.metadata.name, "why": str(problem)},
                )
                return Ended(_NOT_STARTED, reason="StartError")
        ended = await container.wait()
        await self._reap(pod)
        return ended

    async def _begin(
        self, pod: Pod, container: Container, command: list[str], environment: dict[str, str]
    ) -> None:
        """Start it, and know of it whatever happens meanwhile."""
        folder = self.files.folder_of(pod)
        starting = asyncio.create_task(
            container.begin(
                self.files.localised(command, folder),
                work=folder / "work",
                environment=environment,
            )
        )
        try:
            await asyncio.shield(starting)
        finally:
            self._children[pod.metadata.uid] = await starting

    async def stop(self, pod: Pod) -> None:
        grace = pod.spec.termination_grace_period_seconds
        attempt = self.newest_attempt(pod)
        if attempt >= 0:
            await self._container(pod, attempt).stop(_DEFAULT_GRACE_S if grace is None else grace)
        await self._reap(pod)

    async def _reap(self, pod: Pod) -> None:
        """The shim ends a moment after its note; if it does not, it is of no more use."""
        process = self._children.pop(pod.metadata.uid, None)
        if process is None:
            return
        try:
            async with asyncio.timeout(_REAP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def discard(self, pod: Pod) -> None:
        self.files.remove(pod)

    async def discard_all_but(self, uids: Collection[str]) -> None:
        for folder in self.files.folders():
            if folder.name.rpartition("_")[2] in uids:
                continue
            for attempt in folder.glob("attempts/*"):
                await Container(attempt).stop(0)
            shutil.rmtree(folder, ignore_errors=True)

    def log(self, pod: Pod, attempt: int, *, latest: Callable[[], Pod | None]) -> Log:
        container = self._container(pod, attempt)
        if not container.was_begun:
            raise NoLog
        return FileLog(
            container.log, is_over=lambda: latest() is None or container.ended() is not None
        )

    def _attempts(self, pod: Pod) -> Path:
        return self.files.folder_of(pod) / "attempts"

    def _container(self, pod: Pod, attempt: int) -> Container:
        return Container(self._attempts(pod) / str(attempt))
