import asyncio

import pytest

from stromboli.kube.flow import FlowLimit, TokenBucket
from stromboli.testkit.waiting import eventually


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_full_bucket_gives_its_burst_at_once_and_then_the_rate() -> None:
    clock = Hands()
    bucket = TokenBucket(per_second=10, burst=3, clock=clock)

    waits = [bucket.reserve_s() for _ in range(6)]

    assert waits == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])


def test_an_idle_bucket_fills_up_to_its_burst_and_no_further() -> None:
    clock = Hands()
    bucket = TokenBucket(per_second=10, burst=2, clock=clock)
    for _ in range(5):
        bucket.reserve_s()
    clock.now += 3600

    assert [bucket.reserve_s() for _ in range(3)] == pytest.approx([0, 0, 0.1])


def test_the_long_run_rate_holds() -> None:
    clock = Hands()
    bucket = TokenBucket(per_second=50, burst=5, clock=clock)
    start = clock.now
    for _ in range(505):
        clock.now += bucket.reserve_s()

    assert clock.now - start == pytest.approx(500 / 50)


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_bucket_without_sense_is_refused(per_second: float, burst: int) -> None:
    with pytest.raises(ValueError, match="per_second"):
        TokenBucket(per_second=per_second, burst=burst)


async def test_no_more_than_the_limit_are_in_flight_and_they_go_in_the_order_of_asking() -> None:
    flow = FlowLimit(max_in_flight=2)
    order: list[int] = []
    most = 0
    go_on = asyncio.Event()

    async def call(number: int) -> None:
        nonlocal most
        async with flow.slot():
            order.append(number)
            most = max(most, flow.in_flight)
            await go_on.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(call(number))
        await eventually(lambda: flow.waiting == 8)
        assert flow.in_flight == 2
        go_on.set()

    assert order == list(range(10))
    assert most == 2
    assert (flow.in_flight, flow.waiting) == (0, 0)


async def test_a_call_that_gives_up_while_waiting_takes_no_slot_with_it() -> None:
    flow = FlowLimit(max_in_flight=1)
    async with flow.slot():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), flow.slot():
                pass
        assert flow.waiting == 0

    async with asyncio.timeout(1), flow.slot():
        assert flow.in_flight == 1


async def test_a_call_that_fails_gives_its_slot_back() -> None:
    flow = FlowLimit(max_in_flight=1)
    with pytest.raises(RuntimeError, match="boom"):
        async with flow.slot():
            raise RuntimeError("boom")

    assert flow.in_flight == 0
    async with asyncio.timeout(1), flow.slot():
        pass
