"""Tasks and steps of a lifetime, inside a test's own loop."""

import asyncio

import pytest
import structlog

from stromboli.runtime.health import NotReady, Ok
from stromboli.runtime.lifetime import ExitCode, Lifetime, Step


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_task_is_cancelled_after_the_actions_of_its_step():
    seen: list[str] = []

    async def work() -> None:
        try:
            await forever()
        finally:
            seen.append("task ended")

    async def note(what: str) -> None:
        seen.append(what)

    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=5)
        life.spawn("work", work(), until=Step.FINISH)
        life.at(Step.FINISH, "finish", lambda: note("finish"))
        life.at(Step.PUBLISH, "publish", lambda: note("publish"))
        await asyncio.sleep(0)
        life.stop("test")
        await life.serve()

    assert seen == ["finish", "task ended", "publish"]
    assert life.exit_code is ExitCode.CLEAN


async def test_an_action_that_raises_does_not_keep_the_next_from_running():
    seen: list[str] = []

    async def fail() -> None:
        raise OSError("disk gone")

    async def note() -> None:
        seen.append("closed")

    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=5)
        life.at(Step.DRAIN, "drain", fail)
        life.at(Step.CLOSE, "close", note)
        life.stop("test")
        with structlog.testing.capture_logs() as lines:
            await life.serve()

    assert seen == ["closed"]
    assert life.exit_code is ExitCode.STOPPED_UNCLEANLY
    assert [line["action"] for line in lines if line["event"] == "shutdown.failed"] == ["drain"]


async def test_all_steps_together_have_a_deadline():
    """Two hanging actions with generous deadlines of their own share the drain's 0.1 s."""
    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=0.1)
        life.at(Step.DRAIN, "one", forever, deadline_s=60)
        life.at(Step.CLOSE, "two", forever, deadline_s=60)
        life.stop("test")
        async with asyncio.timeout(5):
            await life.serve()

    assert life.exit_code is ExitCode.STOPPED_UNCLEANLY


async def test_a_task_that_may_finish_ends_nothing():
    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=5)
        await life.spawn("once", asyncio.sleep(0), may_finish=True)

        assert not life.is_stopping


async def test_a_task_cancelled_by_a_stranger_is_a_dead_task():
    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=5)
        task = life.spawn("work", forever())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    assert life.is_stopping
    assert life.exit_code is ExitCode.FAILED


async def test_a_task_cancelled_before_it_began_leaves_no_warning():
    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=5)
        life.spawn("work", forever())
        life.stop("test")
        await life.cancel()


async def test_the_first_reason_counts():
    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=5)
        life.stop("first")
        life.stop("second")

    assert life.health.readiness().checks["process"] == NotReady("stopping: first")


async def test_readiness_follows_the_life():
    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=5)
        seen = [life.health.readiness().checks["process"]]
        serving = group.create_task(life.serve())
        await asyncio.sleep(0)
        seen.append(life.health.readiness().checks["process"])
        life.stop("test")
        await serving

    assert seen == [NotReady("starting"), Ok("serving")]


@pytest.mark.parametrize("deadline_s", [0.0, 1.0])
async def test_the_time_left_counts_down_from_the_stop(deadline_s: float):
    async with asyncio.TaskGroup() as group:
        life = Lifetime(group, drain_deadline_s=deadline_s)
        assert life.left_s == float("inf")
        life.stop("test")
        assert life.left_s <= deadline_s
