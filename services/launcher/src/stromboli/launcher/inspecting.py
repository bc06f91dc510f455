"""`stromboli status` and `stromboli logs`: look at what runs on a folder without touching it."""

import asyncio
import shlex
import sys
from collections.abc import Mapping
from typing import Final

from stromboli.launcher.errors import LauncherError, OutOfSight
from stromboli.launcher.folder import Folder
from stromboli.launcher.plan import Planned, plan
from stromboli.launcher.processes import Process, is_alive, is_paused
from stromboli.launcher.readiness import asking, why_not_ready
from stromboli.launcher.screen import Screen

__all__ = ["logs", "status"]

_NOT_RUNNING: Final = 3
"""As init scripts tell it."""


async def status(folder: Folder) -> int:
    """0 if everything is ready, 1 if not, 3 if nothing should run."""
    screen = Screen()
    installation = folder.installation
    noted = folder.noted()
    if not folder.is_held:
        return _not_running(folder, screen)
    if noted is None or not is_alive(noted.launcher):
        raise OutOfSight(str(folder.root))
    planned = plan(folder, installation, noted.options)
    async with asking() as session:

        async def state_of(one: Planned) -> str:
            process = noted.processes.get(one.name)
            if process is None or not is_alive(process):
                return "not running"
            if is_paused(process):
                return f"paused: `kill -CONT {process.pid}` lets it go on"
            reason = await why_not_ready(one, session)
            return f"not ready: {reason}" if reason else "ready"

        states = await asyncio.gather(*map(state_of, planned))
    processes = {one.name: noted.processes.get(one.name) for one in planned}
    _table(screen, processes, states)
    return 0 if all(state == "ready" for state in states) else 1


def _not_running(folder: Folder, screen: Screen) -> int:
    screen.print(f"Stromboli is not running on {folder.root}")
    if left := folder.left_behind():
        screen.print("Its launcher was killed and left these behind; ", end="")
        screen.print(f"`stromboli down --dir {shlex.quote(str(folder.root))}` ends them:")
        _table(screen, left, ["left behind"] * len(left))
    return _NOT_RUNNING


def _table(screen: Screen, processes: Mapping[str, Process | None], states: list[str]) -> None:
    screen.print(f"{'PROCESS':<12} {'PID':>8}  STATE")
    for (name, process), state in zip(processes.items(), states, strict=True):
        screen.print(f"{name:<12} {process.pid if process else '-':>8}  {state}")


async def logs(folder: Folder, service: str, lines: int) -> int:
    names = sorted(path.stem for path in (folder.root / "logs").glob("*.log"))
    if service and service not in names:
        known = ", ".join(names) or "none yet"
        raise LauncherError(f"there is no log of {service!r} in {folder.root} (there are: {known})")
    for name in [service] if service else names:
        text = folder.log(name).read_text(errors="replace").splitlines()[-lines:] if lines else []
        sys.stdout.writelines(f"{line}\n" if service else f"{name:<12} {line}\n" for line in text)
    return 0
