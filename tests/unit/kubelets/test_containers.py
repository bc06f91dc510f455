"""One container as a process: begun once, found again, lost, and what it printed."""

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest

from stromboli.sandbox.kubelets.containers import Container
from stromboli.sandbox.kubelets.logs import FileLog, Line, LogOptions, printed
from stromboli.testkit.waiting import eventually

ENVIRONMENT = {"PATH": os.environ["PATH"]}


async def begun(container: Container, script: str) -> asyncio.subprocess.Process:
    return await container.begin(
        ["sh", "-c", script], work=container.folder.parent, environment=ENVIRONMENT
    )


async def text_of(container: Container, options: LogOptions | None = None) -> str:
    log = FileLog(container.log, is_over=lambda: container.ended() is not None)
    parts = [part async for part in printed(log, options or LogOptions())]
    return b"".join(parts).decode()


async def test_the_note_tells_how_it_ended(tmp_path: Path) -> None:
    container = Container(tmp_path / "0")
    process = await begun(container, "echo hello; exit 3")
    ended = await container.wait()
    await process.wait()

    assert ended.code == 3
    assert ended.started.endswith("Z")
    assert len(ended.finished) == len("2026-11-16T04:14:30Z")
    assert await text_of(container) == "hello\n"


async def test_two_shims_run_a_container_once(tmp_path: Path) -> None:
    """A kubelet that was killed between starting a shim and hearing of it starts another."""
    container = Container(tmp_path / "0")
    script = f"echo x >> {tmp_path}/runs; sleep 0.2"
    first, second = await begun(container, script), await begun(container, script)
    await container.wait()
    await first.wait()
    await second.wait()

    assert (tmp_path / "runs").read_text() == "x\n"


async def test_one_that_is_stopped_before_it_began_never_begins(tmp_path: Path) -> None:
    container = Container(tmp_path / "0")
    container.folder.mkdir()
    await container.stop(1)
    process = await begun(container, f"echo x >> {tmp_path}/runs")
    await process.wait()

    assert not (tmp_path / "runs").exists()


async def test_one_that_vanished_without_a_note_counts_as_killed(tmp_path: Path) -> None:
    container = Container(tmp_path / "0")
    process = await begun(container, "sleep 60")
    await eventually((container.folder / "pid").exists, describe="the shim has begun")
    pids = msgspec.json.decode((container.folder / "pid").read_bytes())
    process.kill()
    await process.wait()
    ended = await container.wait()

    assert (ended.code, ended.reason) == (137, "ContainerStatusUnknown")
    await container.stop(0)
    await eventually(lambda: not _is_alive(pids["process"]), describe="its process is ended too")


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_a_pid_that_belongs_to_somebody_else_by_now_is_not_believed(tmp_path: Path) -> None:
    container = Container(tmp_path / "0")
    container.folder.mkdir()
    (container.folder / "claim").touch()
    pids = {"shim": os.getpid(), "process": os.getpid(), "started": "1"}
    (container.folder / "pid").write_bytes(msgspec.json.encode(pids))

    assert (await container.wait()).code == 137


async def test_stopping_ends_its_whole_family(tmp_path: Path) -> None:
    container = Container(tmp_path / "0")
    process = await begun(container, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    await eventually(
        lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip(),
        describe="the child has begun",
    )
    await container.stop(5)
    await process.wait()
    ended = container.ended()

    assert ended is not None
    assert ended.code == 128 + signal.SIGTERM
    child = int((tmp_path / "child").read_text())
    await eventually(lambda: not _is_alive(child), describe="the child is ended")


async def test_long_and_unfinished_lines_stay_whole(tmp_path: Path) -> None:
    container = Container(tmp_path / "0")
    process = await begun(container, "printf '%040000d\\n' 7; printf 'no end'")
    await container.wait()
    await process.wait()

    assert await text_of(container) == "0" * 39999 + "7\nno end\n"


async def test_a_line_that_is_being_written_is_told_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"2026-11-16T04:14:30Z stdout F one\n2026-11-16T04:14:31Z stdout F tw")
    log = FileLog(path, is_over=lambda: False)
    first = list(log.lines())
    with path.open("ab") as file:
        file.write(b"o\n")

    assert first == [Line("2026-11-16T04:14:30Z", b"one\n")]
    assert list(log.lines()) == [Line("2026-11-16T04:14:31Z", b"two\n")]


async def test_a_log_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    assert list(FileLog(tmp_path / "none", is_over=lambda: True).lines()) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(tail_lines=1), "c\n"),
        (LogOptions(tail_lines=0), ""),
        (LogOptions(limit_bytes=3), "a\nb"),
        (LogOptions(tail_lines=2, limit_bytes=1), "b"),
        (LogOptions(timestamps=True, tail_lines=1), "2026-11-16T04:14:32Z c\n"),
    ],
    ids=["last", "none", "bytes", "both", "times"],
)
async def test_options_choose_a_part(tmp_path: Path, options: LogOptions, expected: str) -> None:
    path = tmp_path / "log"
    path.write_text(
        "".join(f"2026-11-16T04:14:3{n}Z stdout F {text}\n" for n, text in enumerate("abc"))
    )
    parts = [part async for part in printed(FileLog(path, is_over=lambda: True), options)]

    assert b"".join(parts).decode() == expected
