"""Kill -9 of the scheduler when victims were told to go and nobody has their place yet."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stromboli.testkit.contests import Contest, contest
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults]

CONF = """
actions: "allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: nodeorder}]
"""


@pytest.fixture
async def arena(tmp_path: Path) -> AsyncIterator[Contest]:
    async with contest(tmp_path, CONF) as made:
        yield made


async def test_the_next_scheduler_evicts_nobody_else_and_binds_the_one_that_waits(arena: Contest):
    await arena.submit("low", 4, 1, priority="low")
    await arena.until_running(low=4)
    await arena.hold(held=True)
    await arena.submit("high", 2, 2, priority="high")
    await eventually(
        lambda: len(arena.told_to_go()) == 2, deadline_s=30, describe="two pods to be told to go"
    )
    victims = arena.told_to_go()

    pid = arena.up.kill("scheduler")
    await arena.up.until_replaced("scheduler", pid)
    await arena.up.until_ready()

    assert arena.told_to_go() == victims
    await arena.hold(held=False)
    await arena.until_running(low=2, high=2, deadline_s=40)
    assert arena.told_to_go() == victims
