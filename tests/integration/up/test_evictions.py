"""Jobs that take the place of other jobs, on a whole running Stromboli: who keeps how many pods.

The gang cases are those of Volcano's own e2e tests of gangpreempt: four nodes of one CPU each.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from stromboli.api import kinds
from stromboli.testkit.contests import Contest, contest
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.asyncio(loop_scope="module")]

GANGS = """
actions: "allocate, backfill, gangreclaim, gangpreempt"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance},
            {name: sla}, {name: capacity}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: nodeorder},
            {name: binpack}, {name: network-topology-aware}]
"""
CI = """
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: sla}]
- plugins: [{name: overcommit, arguments: {overcommit-factor: 2.0}}, {name: drf},
            {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack},
            {name: network-topology-aware}]
"""
"""Of a cluster as small as this, a fifth more than all is less than one job: nobody would be
admitted, and nothing taken back."""


class Asks(NamedTuple):
    """Pods, how many of them the job can't do without, and its priority."""

    pods: int
    least: int
    priority: str = "low"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def arena(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Contest]:
    async with contest(tmp_path_factory.mktemp("evictions"), GANGS) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def cleared(arena: Contest) -> AsyncIterator[Contest]:
    yield arena
    await arena.clear()


@pytest.mark.parametrize(
    ("there", "taker", "kept"),
    [
        pytest.param({"a": Asks(4, 2)}, Asks(2, 2, "high"), {"a": 2}, id="GP-1"),
        pytest.param(
            {"a": Asks(2, 1), "b": Asks(2, 1)}, Asks(2, 2, "high"), {"a": 1, "b": 1}, id="GP-2"
        ),
        pytest.param({"a": Asks(2, 2), "b": Asks(2, 2)}, Asks(4, 4, "high"), {}, id="GP-4"),
        pytest.param({"a": Asks(4, 4)}, Asks(2, 2, "high"), {}, id="GP-5"),
    ],
)
async def test_a_gang_takes_the_place_of_others_and_they_keep_what_they_can(
    cleared: Contest, there: dict[str, Asks], taker: Asks, kept: dict[str, int]
):
    for name, (pods, least, priority) in there.items():
        await cleared.submit(name, pods, least, priority=priority)
    await cleared.until_running(**{name: asks.pods for name, asks in there.items()})

    await cleared.submit("taker", taker.pods, taker.least, priority=taker.priority)

    await cleared.until_running(taker=taker.pods, **kept)


async def test_of_two_gangs_that_can_spare_nothing_one_goes_whole(cleared: Contest):
    """GP-3."""
    await cleared.submit("a", 2, 2, priority="low")
    await cleared.submit("b", 2, 2, priority="low")
    await cleared.until_running(a=2, b=2)

    await cleared.submit("taker", 2, 2, priority="high")

    await eventually(
        lambda: dict(cleared.running()) in ({"taker": 2, "a": 2}, {"taker": 2, "b": 2}),
        deadline_s=30,
        describe="the taker and one of the others to run",
    )


@pytest.mark.parametrize(
    ("there", "taker"),
    [
        pytest.param({"a": Asks(4, 2)}, Asks(2, 2, "low"), id="GP-7"),
        pytest.param({"a": Asks(2, 2), "b": Asks(2, 2, "high")}, Asks(4, 4, "med"), id="GP-8"),
    ],
)
async def test_nobody_goes_where_it_is_not_right_or_would_not_suffice(
    cleared: Contest, there: dict[str, Asks], taker: Asks
):
    for name, (pods, least, priority) in there.items():
        await cleared.submit(name, pods, least, priority=priority)
    running = {name: asks.pods for name, asks in there.items()}
    await cleared.until_running(**running)

    await cleared.submit("taker", taker.pods, taker.least, priority=taker.priority)

    await cleared.until_it_says_why("taker")
    await cleared.until_running(**running)
    assert cleared.told_to_go() == {}


async def test_queues_below_their_share_take_back_what_others_can_spare(cleared: Contest):
    """Reclaim 10."""
    await cleared.configure(CI)
    for number in range(1, 5):
        queue = {"metadata": {"name": f"q{number}"}, "spec": {"weight": 1}}
        await cleared.make(kinds.QUEUE, queue)
    await cleared.submit("a", 2, 1, priority="low", queue="q1")
    await cleared.submit("b", 2, 1, priority="low", queue="q2")
    await cleared.until_running(a=2, b=2)

    await cleared.submit("c", 1, 1, priority="high", queue="q3")
    await cleared.submit("d", 1, 1, priority="high", queue="q4")

    await cleared.until_running(a=1, b=1, c=1, d=1)
