"""The watchdog measures pauses of the loop."""

import asyncio

import pytest
import structlog

from stromboli.runtime.watchdog import Watchdog
from stromboli.testkit.clock import ManualClock


class Sluggish(ManualClock):
    """A clock on which a sleeper wakes late by `late_s`."""

    late_s = 0.0

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds + self.late_s)


async def test_a_late_beat_is_a_pause_of_the_loop():
    clock = Sluggish()
    watchdog = Watchdog(warn_after_s=1, clock=clock)
    task = asyncio.create_task(watchdog.run())
    await asyncio.sleep(0)

    with structlog.testing.capture_logs() as lines:
        await clock.advance(10)
        assert watchdog.longest_pause_s == 0
        clock.late_s = 3
        await clock.advance(10)

    assert watchdog.longest_pause_s == pytest.approx(3)
    assert "loop.resumed" in {line["event"] for line in lines}
    task.cancel()
    await asyncio.wait([task])


async def test_silence_within_the_beat_is_no_silence():
    clock = ManualClock()
    watchdog = Watchdog(clock=clock)

    await clock.advance(0.2)

    assert watchdog.silence_s == 0
    assert not watchdog.is_stalled
