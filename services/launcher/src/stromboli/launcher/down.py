"""`stromboli down`: stop what `up` started on a folder, also when its launcher was killed."""

import asyncio
import signal
import time
from typing import Final

from stromboli.launcher.errors import LauncherError, OutOfSight
from stromboli.launcher.folder import Folder
from stromboli.launcher.processes import Process, send
from stromboli.launcher.screen import Screen
from stromboli.launcher.up import end_leftovers

__all__ = ["down"]

_STOP_S: Final = 150.0
"""The launcher gives each process its time, one after the other."""
_SEEN_S: Final = 5.0
"""A launcher that we can see notes who it is at once when it holds the folder."""


async def down(folder: Folder) -> int:
    screen = Screen()
    was_held = folder.is_held
    if was_held:
        with screen.busy("stopping"):
            await _stop_launcher(folder)
    left: dict[str, Process] = {}
    if folder.noted() is not None:  # it was killed, now or before
        with folder.held():
            left = folder.left_behind()
            await end_leftovers(left, screen)
            folder.note(None)
    if was_held or left:
        screen.print("stopped")
    else:
        screen.print(f"Stromboli is not running on {folder.root}")
    return 0


async def _stop_launcher(folder: Folder) -> None:
    """Ask whoever holds the folder to stop, and wait until nobody does."""
    asked: Process | None = None
    started_at = time.monotonic()
    while folder.is_held:
        noted = folder.noted()
        if noted is not None and noted.launcher != asked and send(noted.launcher, signal.SIGTERM):
            asked = noted.launcher
        waited_s = time.monotonic() - started_at
        if asked is None and waited_s > _SEEN_S:
            raise OutOfSight(str(folder.root))
        if asked is not None and waited_s > _STOP_S:
            raise LauncherError(
                f"process {asked.pid} did not stop within {_STOP_S:g} s: end it with `kill -9 "
                f"{asked.pid}`, then the next `stromboli down` ends what it leaves behind"
            )
        await asyncio.sleep(0.1)
