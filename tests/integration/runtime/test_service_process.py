"""`run_service` as a real process: signals, dead tasks, the order of stopping, exit codes."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from stromboli.runtime.process import ExitCode, Step
from stromboli.testkit.processes import ProcessFailed
from stromboli.testkit.services import ServiceProcess
from stromboli.testkit.waiting import eventually

Start = Callable[..., ServiceProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def run(*args: str, **env: str) -> ServiceProcess:
            service = ServiceProcess(
                "sample_service",
                directory=tmp_path,
                args=args,
                env={"PYTHONPATH": str(Path(__file__).parent), **env},
            )
            stack.callback(service.kill)
            return service

        yield run


async def test_a_service_becomes_ready_and_stops_cleanly_on_sigterm(start: Start):
    service = start()
    await service.until_ready()

    assert await service.terminate() == ExitCode.CLEAN
    assert service.events("process.ended")[0]["exit_code"] == 0


async def test_ctrl_c_is_as_good(start: Start):
    service = start()
    await service.until_ready()

    service.send(signal.SIGINT)

    assert await service.wait() == ExitCode.CLEAN


async def test_the_steps_are_taken_in_order_and_the_last_added_first(start: Start):
    service = start()
    await service.until_ready()
    await service.terminate()

    taken = [(event["step"], event["which"]) for event in service.events("sample.stepped")]
    assert taken == [(step.name, which) for step in Step for which in ("second", "first")]
    events = [event["event"] for event in service.events()]
    assert events.index("sample.closed") > events.index("sample.stepped")


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("die", "task tick died: ZeroDivisionError: the sample was told to die"),
        ("return", "task tick ended, and it should not"),
        ("raise", "KeyError: 'no such thing'"),
    ],
)
async def test_a_dead_task_ends_the_process_with_a_reason(start: Start, trouble: str, reason: str):
    service = start("--trouble", trouble)

    assert await service.wait() == ExitCode.FAILED
    assert service.events("process.stopping")[0]["reason"] == reason


async def test_the_steps_are_taken_after_a_task_died_too(start: Start):
    service = start("--trouble", "die")
    await service.wait()

    assert len(service.events("sample.stepped")) == 2 * len(Step)
    assert "ZeroDivisionError" in service.events("task.died")[0]["exception"]


async def test_a_service_that_is_still_starting_stops_at_once(start: Start):
    service = start("--trouble", "setup")
    url = await service.health_url()
    async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
        assert response.status == 503
        assert "[-] process: starting" in await response.text()

    assert await service.terminate(deadline_s=3) == ExitCode.CLEAN


async def test_a_step_that_hangs_is_left_behind_at_its_deadline(start: Start):
    service = start("--trouble", "slow-step")
    await service.until_ready()

    assert await service.terminate(deadline_s=5) == ExitCode.STOPPED_UNCLEANLY
    (late,) = service.events("shutdown.late")
    assert (late["step"], late["action"]) == ("publish", "hangs")
    assert service.events("sample.stepped")[-1]["step"] == "CLOSE"


async def test_a_second_signal_ends_a_stuck_process_at_once(start: Start):
    service = start("--trouble", "stuck-loop")
    await service.until_ready()
    service.send(signal.SIGTERM)
    await service.until_event("sample.stepped", step="PUBLISH", which="first")

    before = time.monotonic()
    service.send(signal.SIGTERM)

    assert await service.wait(deadline_s=2) == -signal.SIGTERM
    assert time.monotonic() - before < 1


async def test_the_metrics_are_served(start: Start):
    service = start()
    url = await service.until_ready()

    async def both_are_there() -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as response:
            text = await response.text()
        return "sample_ticks_total" in text and "stromboli_loop_pause_seconds_bucket" in text

    await eventually(both_are_there, describe="a tick and a beat to be counted")


async def test_a_stalled_loop_is_reported_with_the_line_that_holds_it(start: Start):
    service = start("--trouble", "stall")

    stalled = await service.until_event("loop.stalled")
    resumed = await service.until_event("loop.resumed")

    assert any("sample_service.py" in line and "tick" in line for line in stalled["at"])
    assert 1 < resumed["pause_s"] < 5


async def test_bad_settings_end_the_process_with_code_2(start: Start):
    service = start(STROMBOLI_SAMPLE_TICKK="1s")

    assert await service.wait() == ExitCode.BAD_SETTINGS
    assert "did you mean STROMBOLI_SAMPLE_TICK?" in service.log_text()


async def test_a_misspelt_crash_point_ends_the_process_with_code_2(start: Start):
    service = start(STROMBOLI_CRASH_AT="sample.tick.donee")

    assert await service.wait() == ExitCode.BAD_SETTINGS
    assert "did you mean sample.tick.done?" in service.log_text()


async def test_waiting_for_a_service_that_ended_fails_at_once(start: Start):
    service = start("--trouble", "raise")

    with pytest.raises(ProcessFailed, match=r"no such thing"):
        await service.until_event("never.logged", deadline_s=30)


async def test_an_unreachable_collector_changes_nothing(start: Start):
    service = start(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    await service.until_ready()

    assert await service.terminate(deadline_s=5) == ExitCode.CLEAN
    assert [event for event in service.events() if event["level"] in ("warning", "error")] == []
