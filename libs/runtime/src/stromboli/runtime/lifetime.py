"""What a service's main is given: its tasks, its stopping, its health.

All tasks belong to one TaskGroup. A task that dies ends the process: half a service is
worse than none, and Kubernetes starts a new one. Stopping is a sequence of steps, each
action with a deadline of its own and all together with one more: stop intake, finish what
is in flight, publish, drain, close. One action's failure never keeps the next from running.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from stromboli.runtime.health import Health, NotReady, Ok
from stromboli.runtime.logs import get_logger
from stromboli.runtime.watchdog import Watchdog

__all__ = ["UNWIND_S", "ExitCode", "Lifetime", "Step"]

log = get_logger(__name__)

UNWIND_S: Final = 5.0
"""What cancelled tasks, and main after the last step, get to end."""


class ExitCode(IntEnum):
    """What the process's end means."""

    CLEAN = 0
    FAILED = 1
    BAD_SETTINGS = 2
    STOPPED_UNCLEANLY = 3


class Step(IntEnum):
    """The order of stopping."""

    STOP_INTAKE = 1
    FINISH = 2
    PUBLISH = 3
    DRAIN = 4
    CLOSE = 5


@dataclass(frozen=True, slots=True)
class _Action:
    step: Step
    name: str
    run: Callable[[], Awaitable[object]]
    deadline_s: float


@dataclass(frozen=True, slots=True)
class _Spawned:
    task: asyncio.Task[None]
    name: str
    until: Step | None


class Lifetime:
    """The life of one process, as its main sees it."""

    def __init__(self, group: asyncio.TaskGroup, *, drain_deadline_s: float) -> None:
        self.watchdog = Watchdog()
        self.health = Health(watchdog=self.watchdog)
        self._group = group
        self._drain_deadline_s = float(drain_deadline_s)
        self._stop = asyncio.Event()
        self._reason = ""
        self._stop_by = float("inf")
        self._actions: list[_Action] = []
        self._spawned: list[_Spawned] = []
        self._is_serving = False
        self._failed = False
        self._unclean = False
        self.health.check("process", self._readiness)

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def is_serving(self) -> bool:
        """Whether main has reached `serve`, so that the steps will be taken."""
        return self._is_serving

    @property
    def exit_code(self) -> ExitCode:
        if self._failed:
            return ExitCode.FAILED
        return ExitCode.STOPPED_UNCLEANLY if self._unclean else ExitCode.CLEAN

    @property
    def left_s(self) -> float:
        """How much of the time for stopping is left."""
        return max(0.0, self._stop_by - asyncio.get_running_loop().time())

    def spawn(
        self,
        name: str,
        work: Coroutine[Any, Any, object],
        *,
        until: Step | None = Step.CLOSE,
        may_finish: bool = False,
    ) -> asyncio.Task[None]:
        """Run a task until the actions of that step are done; None: until main has ended.

        If it raises, or returns while the service runs (unless it may), the service ends.
        """
        task = self._group.create_task(self._guard(name, work, may_finish=may_finish), name=name)
        # A task that is cancelled before it began would leave its coroutine unawaited.
        task.add_done_callback(lambda _: work.close())
        self._spawned.append(_Spawned(task, name, until))
        if not may_finish:
            self.health.must_run(name, task)
        return task

    def at(
        self,
        step: Step,
        name: str,
        run: Callable[[], Awaitable[object]],
        *,
        deadline_s: float = 5.0,
    ) -> None:
        """Add an action to a step; within a step the last added runs first."""
        self._actions.append(_Action(step, name, run, deadline_s))

    def stop(self, reason: str) -> None:
        """Begin to stop; the first reason counts."""
        if self._stop.is_set():
            return
        self._reason = reason
        self._stop_by = asyncio.get_running_loop().time() + self._drain_deadline_s
        self._stop.set()
        self.health.let_tasks_end()
        log.info("process.stopping", reason=reason, deadline_s=self._drain_deadline_s)

    def fail(self, reason: str) -> None:
        """Begin to stop because something broke: the exit code will say so."""
        self._failed = True
        self.stop(reason)

    def note_unclean(self) -> None:
        """Something did not end as it should; the exit code will say so."""
        self._unclean = True

    async def stopping(self) -> None:
        """Return when stopping begins."""
        await self._stop.wait()

    async def serve(self) -> None:
        """Main's last line: wait for the end, then take the steps in order."""
        self._is_serving = True
        log.info("process.serving")
        await self._stop.wait()
        for step in Step:
            for action in reversed([one for one in self._actions if one.step is step]):
                await self._take(action)
            await self.cancel([one for one in self._spawned if one.until is step])

    async def cancel(self, spawned: list[_Spawned] | None = None) -> None:
        """Cancel these tasks, or all, and wait for them; one that does not end is named."""
        chosen = self._spawned if spawned is None else spawned
        running = {one.task: one.name for one in chosen if not one.task.done()}
        if not running:
            return
        for task in running:
            task.cancel()
        _, stuck = await asyncio.wait(running, timeout=UNWIND_S)
        if stuck:
            self._unclean = True
            log.error("task.stuck", tasks=sorted(running[task] for task in stuck))

    async def _take(self, action: _Action) -> None:
        deadline_s = min(action.deadline_s, self.left_s)
        where = {"step": action.step.name.lower(), "action": action.name}
        try:
            async with asyncio.timeout(deadline_s):
                await action.run()
        except TimeoutError:
            self._unclean = True
            seconds = round(deadline_s, 3)
            log.error("shutdown.late", deadline_s=seconds, **where)  # noqa: TRY400 - no news in it
        except Exception:  # the next steps matter more than this one
            self._unclean = True
            log.exception("shutdown.failed", **where)

    async def _guard(
        self, name: str, work: Coroutine[Any, Any, object], *, may_finish: bool
    ) -> None:
        try:
            await work
        except asyncio.CancelledError:
            if not self.is_stopping:
                self.fail(f"task {name} was cancelled")
            raise
        except Exception as error:
            log.exception("task.died", task=name)
            self.fail(f"task {name} died: {type(error).__name__}: {error}")
        else:
            if not may_finish and not self.is_stopping:
                self.fail(f"task {name} ended, and it should not")

    def _readiness(self) -> Ok | NotReady:
        if self.is_stopping:
            return NotReady(f"stopping: {self._reason}")
        return Ok("serving") if self._is_serving else NotReady("starting")
