"""Waiting ends with the first true value, or with a message worth reading."""

import asyncio

import pytest

from stromboli.testkit.waiting import NeverHappened, eventually


async def test_the_first_true_value_is_returned():
    values = iter([None, 0, "", "here"])

    assert await eventually(lambda: next(values), interval_s=0) == "here"


async def test_an_assertion_in_the_predicate_means_not_yet():
    attempts = 0

    def third_time() -> bool:
        nonlocal attempts
        attempts += 1
        assert attempts == 3, f"only attempt {attempts}"
        return True

    assert await eventually(third_time, interval_s=0)


async def test_a_coroutine_may_be_the_predicate():
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert await eventually(answer) == 42


async def test_the_failure_tells_what_was_awaited_and_what_was_seen_last():
    with pytest.raises(NeverHappened, match=r"waited 0\.02 s for three pods; .* last value: \[\]"):
        await eventually(list, deadline_s=0.02, describe="three pods")


async def test_the_failure_repeats_the_last_assertion():
    def wrong() -> bool:
        raise AssertionError("2 != 3")

    with pytest.raises(NeverHappened, match="last failed: 2 != 3"):
        await eventually(wrong, deadline_s=0.02)


async def test_a_predicate_that_hangs_does_not_hang_the_test():
    with pytest.raises(NeverHappened, match="did not return in time"):
        await eventually(asyncio.Event().wait, deadline_s=0.05)


async def test_any_other_exception_passes_through_at_once():
    def broken() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await eventually(broken)
