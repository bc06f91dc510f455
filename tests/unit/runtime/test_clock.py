"""The system clock is aware of its time zone and never goes back."""

from datetime import UTC

from stromboli.runtime.clock import Clock, SystemClock


async def test_the_system_clock_gives_both_readings():
    clock: Clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)

    assert clock.now().tzinfo is UTC
    assert clock.monotonic() >= before
