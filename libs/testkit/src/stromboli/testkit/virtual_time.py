"""An event loop on virtual time: nothing sleeps, and an hour passes in a moment.

When nothing is ready to run, the loop's clock jumps to the next timer. So a test of leases,
deadlines and reconnects takes as long as its computing does, and the same seed brings the same
order of events. What waits for something that no timer will ever bring is found at once, as a
`Deadlock`.

Tasks and callbacks can be told to belong to a `Process`, which can be frozen and thawed as by
SIGSTOP and SIGCONT: what becomes due meanwhile happens afterwards, in the same order.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, cast
from weakref import WeakSet

__all__ = ["Deadlock", "Process", "TooManySteps", "VirtualClock", "VirtualLoop", "run_virtually"]

T = TypeVar("T")

START: Final = datetime(2030, 1, 1, tzinfo=UTC)
_STEPS: Final = 1_000_000
_Callback = Callable[..., object]


class Deadlock(Exception):
    """Everything waits, and no timer is left that could change that."""


class TooManySteps(Exception):
    """The loop went round more often than the test allows: something spins."""


class Process:
    """What runs as one process, that is in its context. It may be frozen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.frozen = False
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._held: list[tuple[_Due, tuple[Any, ...], Context]] = []

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    def context(self) -> Context:
        """A context of which everything belongs to this process."""
        context = copy_context()
        context.run(_process.set, self)
        return context

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        """Go on; what became due meanwhile happens now."""
        self.frozen = False
        held, self._held = self._held, []
        loop = asyncio.get_running_loop()
        for due, args, context in held:
            loop.call_soon(due.late, *args, context=context)

    def kill(self) -> None:
        """Cancel everything; whoever owns its connections has cut them before."""
        self.thaw()
        for task in tuple(self.tasks):
            task.cancel()

    async def ended(self) -> None:
        """Wait until nothing of it runs any more, whatever it does about a cancellation."""
        while running := [task for task in tuple(self.tasks) if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=1)

    def hold(self, due: "_Due", args: tuple[Any, ...]) -> None:
        self._held.append((due, args, copy_context()))


_process: ContextVar[Process | None] = ContextVar("process", default=None)


class _Due:
    """A callback of a process that may be frozen when its moment comes."""

    __slots__ = ("callback", "handle", "process")

    def __init__(self, process: Process, callback: _Callback) -> None:
        self.process = process
        self.callback = callback
        self.handle: asyncio.Handle | None = None

    def __call__(self, *args: Any) -> None:
        if self.process.frozen:
            self.process.hold(self, args)
        else:
            self.callback(*args)

    def late(self, *args: Any) -> None:
        # Something that was due before it may have cancelled it.
        if self.handle is None or not self.handle.cancelled():
            self(*args)


class _Jumping(selectors.SelectSelector):
    """Instead of waiting, time passes."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = steps

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.steps -= 1
        if self.steps < 0:
            raise TooManySteps(f"at {self.now:.3f} s")
        if timeout is None:
            raise Deadlock(f"at {self.now:.3f} s")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, whose time is a number. Threads and sockets can't be used in it."""

    def __init__(self, steps: int = _STEPS) -> None:
        self._jumping = _Jumping(steps)
        super().__init__(self._jumping)

    def allow(self, steps: int) -> None:
        """So many more rounds."""
        self._jumping.steps = steps

    def time(self) -> float:
        return self._jumping.now

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        process = _process.get() if context is None else context.get(_process)
        if process is not None:
            process.tasks.add(task)
        return task

    def call_soon(
        self, callback: _Callback, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        process = _process.get() if context is None else context.get(_process)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        due = _Due(process, callback)
        due.handle = super().call_soon(due, *args, context=context)
        return due.handle

    def call_at(
        self, when: float, callback: _Callback, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = _process.get() if context is None else context.get(_process)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        due = _Due(process, callback)
        handle = super().call_at(when, due, *args, context=context)
        due.handle = handle
        return handle


class VirtualClock:
    """A process's clock: its own date, its own zero of what only grows, one virtual time."""

    def __init__(self, *, date_ahead_s: float = 0.0, started_s: float = 0.0) -> None:
        self._loop = cast("VirtualLoop", asyncio.get_running_loop())
        self._start = START + timedelta(seconds=date_ahead_s)
        self._started_s = started_s

    def monotonic(self) -> float:
        return self._started_s + self._loop.time()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_virtually(main: Coroutine[Any, Any, T], *, steps: int = _STEPS) -> T:
    """Run to the end in a loop of its own; raises `Deadlock` or `TooManySteps`."""
    loops: list[VirtualLoop] = []

    def new_loop() -> VirtualLoop:
        loops.append(VirtualLoop(steps))
        return loops[0]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            return runner.run(main)
        finally:
            loops[0].allow(_STEPS)  # to end what still runs
