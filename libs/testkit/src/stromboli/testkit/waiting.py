"""Wait until something holds, with a deadline and a failure that says what was seen.

Tests never sleep for a guessed time: they say what they wait for. When it does not come,
the message shows the last value (or the last failed assertion), because "timed out" alone
sends people back to the debugger.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["NeverHappened", "eventually"]

T = TypeVar("T")


class NeverHappened(AssertionError):
    """What the test waited for did not come in time."""

    def __init__(self, described: str, *, deadline_s: float, attempts: int, last: str) -> None:
        self.last = last
        super().__init__(
            f"waited {deadline_s:g} s for {described}; tried {attempts} times, last {last}"
        )


async def eventually(
    predicate: Callable[[], T | Awaitable[T | None] | None],
    *,
    deadline_s: float = 10.0,
    describe: str | Callable[[], str] = "",
    interval_s: float = 0.01,
) -> T:
    """The predicate's first true value. An AssertionError in it means "not yet".

    `describe` completes the sentence "waited 10 s for …"; a callable is asked at the end,
    so that it can tell the state of things then. Other exceptions pass through at once.
    """
    give_up = time.monotonic() + deadline_s
    attempts = 0
    while True:
        attempts += 1
        try:
            value = await _evaluate(predicate, give_up)
        except AssertionError as error:
            last = f"failed: {error}"
        else:
            if value:
                return value
            last = f"value: {value!r}"
        if time.monotonic() >= give_up:
            described = describe() if callable(describe) else describe
            raise NeverHappened(
                described or _name_of(predicate),
                deadline_s=deadline_s,
                attempts=attempts,
                last=last,
            )
        await asyncio.sleep(min(interval_s, max(0.0, give_up - time.monotonic())))


async def _evaluate(
    predicate: Callable[[], T | Awaitable[T | None] | None], give_up: float
) -> T | None:
    value = predicate()
    if not inspect.isawaitable(value):
        return value
    # The predicate itself may hang (a request to a paused server); that counts as "not yet".
    try:
        async with asyncio.timeout(max(0.05, give_up - time.monotonic())):
            return await value
    except TimeoutError as error:
        raise AssertionError("the predicate itself did not return in time") from error


def _name_of(predicate: Callable[[], object]) -> str:
    return getattr(predicate, "__qualname__", repr(predicate))
