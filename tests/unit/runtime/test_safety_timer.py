"""When the shell tells its core of a safety pass: by a timer of its own, whatever else happens."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from stromboli.contracts.epochs import Epoch
from stromboli.contracts.records import REPAIRED, HistoryRecorded
from stromboli.contracts.stimuli import (
    FactChanged,
    Instruction,
    SafetyPass,
    Stimulus,
    WakeAt,
    WokeUp,
)
from stromboli.runtime.bus.asking import OutcomeListener
from stromboli.runtime.bus.view import View
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.telemetry import Telemetry
from stromboli.runtime.turn import Pace, Turn
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

EVERY_S = 30.0


class Time(SystemClock):
    """Moves only when the test says so; the date may go another way than what has passed."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.skew = timedelta()

    def monotonic(self) -> float:
        return self.passed

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed) + self.skew


class Eager:
    """A core that wants to be woken at once by every fact, as the scheduler's does."""

    def __init__(self) -> None:
        self.heard: list[Stimulus] = []
        self.found: list[Instruction] = []
        """By a safety pass."""

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        self.heard.append(stimulus)
        if isinstance(stimulus, SafetyPass):
            return self.found
        return [WakeAt(now)] if isinstance(stimulus, FactChanged) else []

    def number(self, what: type[Stimulus]) -> int:
        return sum(isinstance(stimulus, what) for stimulus in self.heard)


class Leading:
    """A turn without a bus, and its core."""

    def __init__(self) -> None:
        self.time = Time()
        self.core = Eager()
        self.sent: list[str] = []
        view: View[Any] = View((), lambda _kind, projection: projection, cast("Any", None))
        self.turn = Turn(
            core=self.core,
            lease=cast("Any", SimpleNamespace(held=True, epoch=Epoch(1, 1))),
            service="scheduler",
            shard="-",
            view=view,
            outcomes=OutcomeListener(lambda _: None),
            connection=cast("Any", SimpleNamespace(connected=True)),
            publisher=cast("Any", self),
            clock=self.time,
            pace=Pace(pause_s=0.0, safety_every_s=EVERY_S),
            on_probe=lambda _: None,
        )

    async def send(self, subject: str, payload: bytes) -> "asyncio.Future[None]":
        """As a publisher does."""
        assert payload
        self.sent.append(subject)
        return asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        await self.turn.run()

    async def a_fact_a_second(self, seconds: int, *, then: Callable[[], None] = lambda: None):
        fact = FactChanged(kind="node", namespace="", name="n1", uid="u", resource_version="1")
        for number in range(1, seconds + 1):
            then()
            self.time.passed += 1.0
            self.turn.push(fact)
            await eventually(
                lambda wanted=number: self.core.number(WokeUp) == wanted, interval_s=0.0
            )


async def test_one_fact_a_second_puts_no_pass_off():
    leading = Leading()
    async with background(leading.run()):
        await asyncio.sleep(0)
        await leading.a_fact_a_second(301)

    assert leading.core.number(FactChanged) == 301
    assert leading.core.number(SafetyPass) == 10
    assert SafetyPass(within_s=EVERY_S / 2) in leading.core.heard


async def test_a_date_that_is_set_back_again_and_again_puts_no_pass_off():
    leading = Leading()

    def set_back() -> None:
        leading.time.skew -= timedelta(seconds=5)

    async with background(leading.run()):
        await asyncio.sleep(0)
        await leading.a_fact_a_second(91, then=set_back)

    assert leading.core.number(SafetyPass) == 3


async def test_where_nothing_happens_there_are_passes_and_nobody_is_woken():
    leading = Leading()
    async with background(leading.run()):
        await asyncio.sleep(0)
        for number in range(1, 4):
            leading.time.passed += EVERY_S
            await eventually(lambda wanted=number: leading.core.number(SafetyPass) == wanted)

    assert leading.core.number(WokeUp) == 0


async def test_what_only_a_pass_found_out_is_counted():
    record = HistoryRecorded(namespace="ns", job="j", service="scheduler", at=0.0, what=REPAIRED)
    telemetry = Telemetry.start("test", environ={})
    leading = Leading()
    leading.core.found = [record, replace(record, what="job.waiting")]
    async with background(leading.run()):
        await asyncio.sleep(0)
        leading.time.passed += EVERY_S
        await eventually(lambda: leading.sent == [record.subject()] * 2)
    text = telemetry.render().body.decode()
    await telemetry.shutdown()

    (line,) = [one for one in text.splitlines() if one.startswith("stromboli_safety_repaired")]
    assert line.endswith(" 1.0")
