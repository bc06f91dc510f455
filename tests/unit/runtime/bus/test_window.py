import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.runtime.bus.window import Window


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def enter(window: Window, times: int = 1) -> None:
    for _ in range(times):
        await window.enter()


async def test_the_window_lets_in_as_many_as_it_has_room_for():
    window = Window(3)
    await enter(window, 3)
    fourth = asyncio.create_task(window.enter())
    await settle()

    assert not fourth.done()
    window.leave()
    window.leave()
    await settle()
    assert fourth.done()


async def test_who_waits_goes_on_when_half_the_window_is_free():
    window = Window(8)
    await enter(window, 8)
    waiting = asyncio.create_task(window.enter())
    await settle()
    for _ in range(3):
        window.leave()
    await settle()
    assert not waiting.done()

    window.leave()
    await settle()

    assert waiting.done()


async def test_a_newcomer_does_not_pass_those_who_wait():
    window = Window(2)
    await enter(window, 2)
    first = asyncio.create_task(window.enter())
    await settle()
    newcomer = asyncio.create_task(window.enter())
    await settle()
    window.leave()
    await settle()

    assert first.done()
    assert not newcomer.done()
    window.leave()
    await newcomer


async def test_every_busy_sender_gets_its_share():
    window = Window(16)
    sent = {"a": 0, "b": 0, "c": 0}

    async def send(name: str) -> None:
        while True:
            await window.enter()
            sent[name] += 1

    senders = [asyncio.create_task(send(name)) for name in sent]
    for _ in range(1500):
        await asyncio.sleep(0)
        for _ in range(window._inside):
            window.leave()
    for sender in senders:
        sender.cancel()
    await asyncio.wait(senders)

    assert min(sent.values()) > sum(sent.values()) / 5, sent


async def test_a_cancelled_wait_takes_no_room():
    window = Window(1)
    await window.enter()
    given_up = asyncio.create_task(window.enter())
    patient = asyncio.create_task(window.enter())
    await settle()
    given_up.cancel()
    window.leave()
    await settle()

    assert given_up.cancelled()
    assert patient.done()


async def test_who_is_cancelled_just_as_it_is_admitted_gives_its_place_on():
    window = Window(1)
    await window.enter()
    unlucky = asyncio.create_task(window.enter())
    patient = asyncio.create_task(window.enter())
    await settle()
    window.leave()
    unlucky.cancel()
    await settle()

    assert unlucky.cancelled()
    assert patient.done()


def test_a_window_without_room_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Window(0)


@given(
    size=st.integers(1, 5),
    steps=st.lists(st.sampled_from(["enter", "leave", "cancel", "run"]), max_size=60),
)
def test_there_are_never_more_inside_than_allowed_and_nobody_is_forgotten(
    size: int, steps: list[str]
):
    async def drive() -> None:
        window, tasks, left = Window(size), list[asyncio.Task[None]](), 0
        for step in steps:
            inside = sum(t.done() and not t.cancelled() for t in tasks) - left
            if step == "enter":
                tasks.append(asyncio.create_task(window.enter()))
            elif step == "leave" and inside > 0:
                left += 1
                window.leave()
            elif step == "cancel" and (pending := [t for t in tasks if not t.done()]):
                pending[len(pending) // 2].cancel()
            else:
                await settle()
            assert 0 <= window._inside <= size
        await settle()
        while any(not t.done() for t in tasks):
            assert window._inside > size // 2, "somebody waits though half of it is free"
            window.leave()
            left += 1
            await settle()
        assert window._inside == sum(not t.cancelled() for t in tasks) - left

    asyncio.run(drive())
