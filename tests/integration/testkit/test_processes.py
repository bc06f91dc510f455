"""Children are watched, hurt and reaped; a failure shows their log."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from stromboli.testkit.processes import (
    ChildProcess,
    ProcessFailed,
    fallen_children,
    forget_fallen,
    living_children,
)
from stromboli.testkit.waiting import eventually


def python(code: str, directory: Path, name: str = "child") -> ChildProcess:
    return ChildProcess([sys.executable, "-c", code], name=name, log=directory / "child.log")


SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER


async def test_a_line_of_the_log_can_be_awaited(tmp_path: Path):
    async with python("print('port=4711', flush=True); input()", tmp_path) as child:
        found = await child.until_line(r"port=(\d+)")

    assert found[1] == "4711"


async def test_a_child_that_ends_before_its_line_fails_at_once_with_its_log(tmp_path: Path):
    async with python("raise SystemExit('no disk')", tmp_path) as child:
        with pytest.raises(ProcessFailed, match=r"ended with code 1; the end of its log:\nno disk"):
            async with asyncio.timeout(5):
                await child.until_line("ready", deadline_s=50)


async def test_what_a_child_wrote_just_before_it_ended_counts(tmp_path: Path):
    async with python("print('done')", tmp_path) as child:
        await child.wait()

        assert await child.until_line("done")


async def test_a_child_ends_on_request_and_tells_its_code(tmp_path: Path):
    async with python(SLEEPER, tmp_path) as child:
        await child.until_line("up")

        assert await child.terminate() == -signal.SIGTERM


async def test_a_child_that_ignores_the_request_is_killed_and_reported(tmp_path: Path):
    child = python(STUBBORN, tmp_path)
    await child.until_line("up")

    with pytest.raises(ProcessFailed, match="still running"):
        await child.terminate(deadline_s=0.2)
    assert child.returncode == -signal.SIGKILL


async def test_a_paused_child_can_be_ended(tmp_path: Path):
    async with python(SLEEPER, tmp_path) as child:
        await child.until_line("up")
        child.pause()

        assert await child.terminate() == -signal.SIGTERM


async def test_leaving_the_block_reaps_the_child(tmp_path: Path):
    async with python(SLEEPER, tmp_path) as child:
        pid = child.pid
        assert pid in {living.pid for living in living_children()}

    assert pid not in {living.pid for living in living_children()}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_only_a_child_that_ended_by_itself_has_fallen(tmp_path: Path):
    async with python(SLEEPER, tmp_path) as stopped, python(SLEEPER, tmp_path) as killed:
        await stopped.until_line("up")
        await stopped.terminate()
        killed.kill()
        async with python("raise SystemExit('no disk')", tmp_path) as fallen:
            await eventually(lambda: fallen_children() == [fallen], describe="its fall")
            assert fallen.returncode == 1
            forget_fallen()
            assert not fallen_children()


async def test_a_second_child_in_the_same_file_reads_only_its_own_lines(tmp_path: Path):
    async with python("print('first')", tmp_path) as first:
        await first.wait()
    async with python("print('second')", tmp_path) as second:
        await second.wait()

        assert second.log_text() == "second\n"


async def test_what_a_test_forgets_is_killed_when_its_process_ends(tmp_path: Path):
    forgetful = (
        "from pathlib import Path; import sys\n"
        "from stromboli.testkit.processes import ChildProcess\n"
        "child = ChildProcess([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " name='forgotten', log=Path('forgotten.log'))\n"
        "print('forgot', child.pid, flush=True)\n"
    )
    parent = ChildProcess(
        [sys.executable, "-c", forgetful], name="parent", log=tmp_path / "log", cwd=tmp_path
    )
    assert await parent.wait() == 0

    pid = int((await parent.until_line(r"forgot (\d+)"))[1])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
