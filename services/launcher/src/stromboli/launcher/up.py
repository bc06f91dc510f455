"""`stromboli up`: hold the folder, run everything on it until somebody says stop, leave nothing."""

import asyncio
import os
import shlex
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from rich.text import Text

from stromboli.launcher.folder import Folder, Installation, Running
from stromboli.launcher.options import Options
from stromboli.launcher.plan import Planned, kubeconfig_of, nats_url, plan, services_of
from stromboli.launcher.processes import Process, end, process_of
from stromboli.launcher.screen import Screen
from stromboli.launcher.supervisor import Supervisor

__all__ = ["end_leftovers", "up"]


async def up(folder: Folder, options: Options) -> int:
    screen = Screen()
    with folder.held(), _asked_to_stop() as stop:
        me = process_of(os.getpid())
        left = folder.left_behind()
        folder.note(Running(launcher=me, processes=left, options=options))
        await end_leftovers(left, screen)
        supervisor = Supervisor(folder, screen.tell)
        supervisor.changed = lambda: folder.note(
            Running(launcher=me, processes=supervisor.processes, options=options)
        )
        try:
            installation = folder.open()
            planned = plan(folder, installation, options)
            if await _started(supervisor, planned, screen, stop):
                _show(screen, folder, installation, options)
                await stop.wait()
        finally:
            with screen.busy("stopping"):
                await supervisor.stop()
            folder.note(None)
            if supervisor.processes:
                screen.tell("stopped")
    return 0


async def end_leftovers(left: Mapping[str, Process], screen: Screen) -> None:
    """End what a launcher left behind that could not stop its processes."""
    if left:
        screen.tell(f"ending what a launcher that was killed left behind: {', '.join(left)}")
        await end(left, screen.tell)


@contextmanager
def _asked_to_stop() -> Generator[asyncio.Event]:
    """Set at Ctrl-C, at SIGTERM, and when the terminal is closed, unless nohup is in the way."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    asking = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        asking.append(signal.SIGHUP)
    for one in asking:
        loop.add_signal_handler(one, stop.set)
    try:
        yield stop
    finally:
        for one in asking:
            loop.remove_signal_handler(one)


async def _started(
    supervisor: Supervisor, planned: list[Planned], screen: Screen, stop: asyncio.Event
) -> bool:
    """True when everything is ready; False if it is no longer wanted."""
    starting = asyncio.create_task(supervisor.start(planned))
    stopping = asyncio.create_task(stop.wait())
    try:
        with screen.busy(f"starting {', '.join(one.name for one in planned)}"):
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return False
        starting.result()
        return True
    finally:
        starting.cancel()
        stopping.cancel()
        await asyncio.wait({starting, stopping})


def _show(screen: Screen, folder: Folder, installation: Installation, options: Options) -> None:
    pages = "  ".join(
        f"http://127.0.0.1:{installation.ports[name]}/metrics" for name in services_of(options)
    )
    users = "" if options.nats else f"  (users: {folder.root / 'passwords'})"
    lines = {
        "kubeconfig": f"export KUBECONFIG={shlex.quote(kubeconfig_of(folder, options))}",
        "try": "kubectl get nodes,queues.scheduling.volcano.sh",
        "NATS": f"{nats_url(installation, options)}{users}",
        "admission": f"https://127.0.0.1:{installation.ports['webhooks']}"
        if options.admission
        else "off: jobs are stored as they come, without defaults and checks (--admission)",
        "metrics": pages,
        "logs": str(folder.root / "logs"),
        "stop": "Ctrl-C",
    }
    screen.print("\nStromboli is up", style="bold")
    for name, value in lines.items():
        screen.print(Text.assemble("  ", (f"{name:<11}", "cyan"), f" {value}"))
    screen.print()
