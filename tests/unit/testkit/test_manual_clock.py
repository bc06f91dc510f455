"""The test clock moves only by hand, and wakes sleepers in the order of their moments."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from stromboli.runtime.clock import Clock
from stromboli.testkit.clock import ManualClock


async def test_time_stands_still_until_it_is_advanced():
    clock: Clock = ManualClock()

    assert clock.monotonic() == clock.monotonic() == 0.0
    assert clock.now() == datetime(2030, 1, 1, tzinfo=UTC)


async def test_both_readings_advance_together():
    clock = ManualClock()

    await clock.advance(90)

    assert clock.monotonic() == 90
    assert clock.now() == datetime(2030, 1, 1, 0, 1, 30, tzinfo=UTC)


async def test_sleepers_wake_in_order_and_see_their_own_moment():
    clock = ManualClock()
    seen: list[tuple[str, float]] = []

    async def every(name: str, seconds: float) -> None:
        while True:
            await clock.sleep(seconds)
            seen.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(every("two", 2)), asyncio.create_task(every("three", 3))]
    await asyncio.sleep(0)
    await clock.advance(6)

    # At 6 both are due: "three" fell asleep at 3, before "two" did at 4.
    assert seen == [("two", 2), ("three", 3), ("two", 4), ("three", 6), ("two", 6)]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert clock.sleepers == 0


async def test_an_administrator_sets_the_date_back_and_monotonic_does_not_notice():
    clock = ManualClock()
    before = clock.now()

    clock.set_wall_back_by(3600)

    assert clock.now() == before - timedelta(hours=1)
    assert clock.monotonic() == 0


async def test_a_start_without_a_time_zone_is_refused():
    with pytest.raises(ValueError, match="no time zone"):
        ManualClock(datetime(2030, 1, 1))  # noqa: DTZ001 - the mistake under test
