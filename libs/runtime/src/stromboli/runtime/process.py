"""The process of a service: loop, signals, the order of its end, the exit code.

    async def main(life: Lifetime) -> None:
        async with open_bus(…) as bus:
            life.at(Step.STOP_INTAKE, "watches", watches.stop)
            life.spawn("partitions", partitions.run(bus), until=Step.FINISH)
            await life.serve()

    sys.exit(run_service(main, service="gateway"))

The first SIGTERM or SIGINT starts the orderly stop. A second one ends the process at
once, and by the kernel, so that it works even when the loop is stuck; and when stopping
itself hangs, a timer outside the loop ends it.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

import uvloop

from stromboli.runtime import crashpoints, logs
from stromboli.runtime.errors import UnknownCrashPoint
from stromboli.runtime.lifetime import UNWIND_S, ExitCode, Lifetime, Step
from stromboli.runtime.logs import LogSettings, get_logger

__all__ = ["ExitCode", "Lifetime", "Main", "Step", "run_service"]

log = get_logger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

Main: TypeAlias = Callable[[Lifetime], Coroutine[Any, Any, None]]


def run_service(
    main: Main,
    *,
    service: str,
    log_settings: LogSettings | None = None,
    drain_deadline_s: float = 25.0,
) -> int:
    """Run a service to its end; returns the exit code for `sys.exit`.

    `drain_deadline_s` is for all steps together, and must stay below the pod's
    terminationGracePeriodSeconds (30 by default).
    """
    logs.configure(log_settings, service=service)
    try:
        crashpoints.arm()
    except UnknownCrashPoint as error:
        log.error("crashpoint.unknown", problem=str(error))  # noqa: TRY400 - a user's mistake
        return ExitCode.BAD_SETTINGS
    last_resort = _LastResort(drain_deadline_s + 2 * UNWIND_S)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_live(main, last_resort, drain_deadline_s=drain_deadline_s))
    finally:
        last_resort.cancel()
    log.info("process.ended", exit_code=int(code))
    return code


class _LastResort:
    """Ends the process when stopping itself hangs, loop and threads included."""

    def __init__(self, deadline_s: float) -> None:
        self._timer = threading.Timer(deadline_s, self._exit)
        self._timer.daemon = True

    def start(self) -> None:
        self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()

    def _exit(self) -> None:
        log.error("process.stuck", exit_code=int(ExitCode.STOPPED_UNCLEANLY))
        os._exit(ExitCode.STOPPED_UNCLEANLY)


async def _live(main: Main, last_resort: _LastResort, *, drain_deadline_s: float) -> ExitCode:
    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=drain_deadline_s)
        _install_signals(life)
        life.spawn("watchdog", life.watchdog.run(), until=None)
        body = group.create_task(_body(main, life), name="main")
        stopped = group.create_task(life.stopping(), name="stopping")
        await asyncio.wait({body, stopped}, return_when=asyncio.FIRST_COMPLETED)
        life.stop("main returned")
        last_resort.start()
        if not life.is_serving:
            # Still setting up, perhaps waiting for a NATS that never comes.
            body.cancel()
        _, late = await asyncio.wait({body}, timeout=life.left_s + UNWIND_S)
        if late:
            life.note_unclean()
            log.error("process.late", reason="main did not end after the last step")
            body.cancel()
            await asyncio.wait({body}, timeout=UNWIND_S)
        await life.cancel()
    return life.exit_code


async def _body(main: Main, life: Lifetime) -> None:
    """Run main; its failure is told and stops the service, it does not tear the group."""
    try:
        await main(life)
    except asyncio.CancelledError:
        if not life.is_stopping:
            life.fail("main was cancelled")
        raise
    except Exception as error:
        log.exception("process.failed")
        life.fail(f"{type(error).__name__}: {error}")


def _install_signals(life: Lifetime) -> None:
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        for one in _SIGNALS:
            loop.remove_signal_handler(one)
            # From here on the kernel ends us, whatever the loop is doing.
            signal.signal(one, signal.SIG_DFL)
        life.stop(f"{number.name} (a second one ends the process at once)")

    for one in _SIGNALS:
        loop.add_signal_handler(one, on_signal, one)
