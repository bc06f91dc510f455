"""Who is who among processes: pids are used again, and nobody else may be signalled."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from stromboli.launcher import processes
from stromboli.launcher.processes import Process, end, is_alive, is_paused, process_of, send
from stromboli.testkit.waiting import eventually

Start = Callable[..., "subprocess.Popen[bytes]"]
SLEEPING = "import time; print(flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPING}"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python and waits until it has come to its first line."""
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str = SLEEPING) -> "subprocess.Popen[bytes]":
        argv = [sys.executable, "-I", "-S", "-c", script]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
        output = started[-1].stdout
        assert output is not None
        output.readline()
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def reused(process: Process) -> Process:
    """What was noted of an earlier process with this pid."""
    return Process(process.pid, f"{process.started[:-1]}x")


def test_a_process_is_itself_until_it_has_ended(start: Start):
    child = start()
    process = process_of(child.pid)
    assert is_alive(process)
    child.kill()
    child.wait()

    assert not is_alive(process)
    assert not send(process, signal.SIGTERM)


def test_a_process_that_nobody_has_fetched_is_gone(start: Start):
    child = start()
    process = process_of(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert not is_alive(process)
    assert not send(process, signal.SIGTERM)


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_another_process_with_the_same_pid_is_left_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch, has_descriptors: bool
):
    if not has_descriptors:
        monkeypatch.delattr(os, "pidfd_open")
    child = start()
    process = process_of(child.pid)

    assert not is_alive(reused(process))
    assert not is_alive(Process(child.pid, ""))
    assert not send(reused(process), signal.SIGKILL)
    assert is_alive(process)
    assert send(process, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_a_pid_that_nobody_has_is_nobody(start: Start):
    child = start()
    child.kill()
    child.wait()

    assert not is_alive(process_of(child.pid))


async def test_a_paused_process_is_told_from_one_that_runs(start: Start):
    process = process_of(start().pid)
    assert not is_paused(process)
    send(process, signal.SIGSTOP)

    await eventually(lambda: is_paused(process), describe="it stands")
    assert is_alive(process)


async def test_processes_are_asked_to_end_and_killed_when_they_do_not(
    start: Start, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "_TERM_S", 0.5)
    stranger, polite, deaf, paused = start(), start(), start(DEAF), start()
    told: list[str] = []
    paused.send_signal(signal.SIGSTOP)
    left = {
        "stranger": reused(process_of(stranger.pid)),
        "polite": process_of(polite.pid),
        "deaf": process_of(deaf.pid),
        "paused": process_of(paused.pid),
    }
    await eventually(lambda: is_paused(left["paused"]), describe="it stands")
    await end(left, told.append)

    assert polite.wait() == -signal.SIGTERM
    assert deaf.wait() == -signal.SIGKILL
    assert paused.wait() < 0  # one of both signals, as soon as it goes on
    assert stranger.poll() is None
    assert [line.split()[0] for line in told] == ["deaf", "paused"]


def test_without_proc_processes_are_told_apart_by_ps(start: Start, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_stat", processes._from_ps)  # pyright: ignore[reportPrivateUsage]
    child = start()
    process = process_of(child.pid)

    assert is_alive(process)
    assert not is_alive(reused(process))
    child.kill()
    child.wait()
    assert not is_alive(process)
