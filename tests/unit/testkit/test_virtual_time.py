"""Virtual time: it jumps instead of sleeping, and finds what would wait for ever."""

import asyncio
import itertools
import time

import pytest

from stromboli.testkit.virtual_time import (
    Deadlock,
    Process,
    TooManySteps,
    VirtualClock,
    run_virtually,
)


def test_an_hour_passes_in_a_moment() -> None:
    async def an_hour() -> float:
        clock = VirtualClock(date_ahead_s=60.0, started_s=1000.0)
        before = clock.now()
        await asyncio.sleep(3600)
        assert (clock.now() - before).total_seconds() == pytest.approx(3600)
        return clock.monotonic()

    began = time.monotonic()
    assert run_virtually(an_hour()) == pytest.approx(4600)
    assert time.monotonic() - began < 60


def test_who_waits_for_what_never_comes_is_found_at_once() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtually(waits())


def test_a_loop_that_spins_is_stopped() -> None:
    async def spins() -> None:
        for _ in itertools.repeat(None):
            await asyncio.sleep(0)

    with pytest.raises(TooManySteps):
        run_virtually(spins(), steps=1000)


def test_a_frozen_process_stands_still_and_then_goes_on_in_order() -> None:
    seen: list[tuple[str, float]] = []

    async def works(name: str) -> None:
        while True:
            await asyncio.sleep(1)
            seen.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        frozen, other = Process("frozen"), Process("other")
        tasks = [
            loop.create_task(works("a"), context=frozen.context()),
            loop.create_task(works("b"), context=other.context()),
        ]
        await asyncio.sleep(1.5)
        frozen.freeze()
        await asyncio.sleep(3)
        frozen.thaw()
        await asyncio.sleep(1.2)
        for task in tasks:
            task.cancel()

    run_virtually(main())
    assert [round(at, 3) for name, at in seen if name == "a"] == [1, 4.5, 5.5]
    assert [round(at, 3) for name, at in seen if name == "b"] == [1, 2, 3, 4, 5]


def test_what_came_in_time_is_in_time_though_its_process_was_frozen() -> None:
    """Who is thawed handles what happened in the order in which it happened."""

    async def waits(answer: "asyncio.Future[str]") -> str:
        async with asyncio.timeout(2):
            return await answer

    async def main() -> str:
        loop = asyncio.get_running_loop()
        process = Process("frozen")
        answer: asyncio.Future[str] = loop.create_future()
        task = loop.create_task(waits(answer), context=process.context())
        await asyncio.sleep(0.1)
        process.freeze()
        loop.call_later(1, answer.set_result, "in time")
        await asyncio.sleep(10)
        process.thaw()
        return await task

    assert run_virtually(main()) == "in time"
