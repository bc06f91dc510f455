"""How a container runs: pretended by rules, or for real as a local process.

A runtime answers one question, "how did it end?", and can be told to stop. Everything about
pods, phases and restarts is the kubelet's business.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stromboli.api.core.pod import Pod
from stromboli.sandbox.kubelets.mounts import PodFiles
from stromboli.sandbox.kubelets.rules import Rule, behaviour_of


class Runtime(Protocol):
    """Runs the containers of one pod."""

    async def prepare(self, pod: Pod) -> None:
        """Before it counts as started: delays, files. Raises OSError when it can't."""
        ...

    async def run(self, pod: Pod) -> int:
        """Run until it ends; the exit code. Cancelled when the pod is to stop."""
        ...


@dataclass(slots=True)
class Simulated:
    """Nothing runs; time passes."""

    rules: Sequence[Rule]

    async def prepare(self, pod: Pod) -> None:
        await asyncio.sleep(behaviour_of(pod, self.rules).start_s)

    async def run(self, pod: Pod) -> int:
        behaviour = behaviour_of(pod, self.rules)
        if behaviour.run_s is None:
            await asyncio.Event().wait()
        await asyncio.sleep(behaviour.run_s or 0.0)
        return behaviour.exit_code


@dataclass(slots=True)
class Processes:
    """The first container's command, in a folder of its own, with its environment and files."""

    files: PodFiles
    _folders: dict[str, Path] = field(default_factory=dict[str, Path])

    async def prepare(self, pod: Pod) -> None:
        self._folders[pod.metadata.uid] = await self.files.lay_out(pod)

    async def run(self, pod: Pod) -> int:
        folder = self._folders[pod.metadata.uid]
        container = pod.spec.containers[0]
        command = [*container.command, *container.args]
        if not command:
            await asyncio.Event().wait()  # the image would know what to run; we have no image
        environment = await self.files.environment(pod, folder)
        with (folder / "log").open("ab") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self.files.localised(command, folder),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder / "work",
                    env=environment,
                    start_new_session=True,
                )
            except OSError as problem:
                log.write(f"can't start {command[0]!r}: {problem}\n".encode())
                return 127
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process, pod.spec.termination_grace_period_seconds)
            raise
        return code if code >= 0 else 128 - code


async def _stop(process: asyncio.subprocess.Process, grace_s: int | None) -> None:
    """SIGTERM to the whole session, then SIGKILL when its grace is over."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(30 if grace_s is None else grace_s):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
