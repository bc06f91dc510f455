"""Kill -9 of `stromboli up` itself: nothing it started stays for good, and nobody else is hurt."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.kube import KubeAccess, KubeClient
from stromboli.launcher.folder import Folder
from stromboli.launcher.processes import Process, is_alive
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.processes import ChildProcess
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults, pytest.mark.timeout(240)]

STROMBOLI = (sys.executable, "-m", "stromboli.launcher")
UNTIED = (
    sys.executable,
    "-c",
    """
from stromboli.launcher import supervisor
from stromboli.launcher.__main__ import main
supervisor.tethered = lambda argv: argv
main()
""",
)
"""A system that can't be asked to end children with their parent."""
IN_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
NAMES = ["nats", "api", "kubelets", "gateway", "admission", "controllers", "scheduler"]


class Stack:
    """`stromboli` on one folder, and who was seen to run there."""

    def __init__(self, root: Path) -> None:
        self.folder = Folder(root)
        self.seen: dict[Process, str] = {}
        self.launchers = 0

    def up(self, *command: str) -> ChildProcess:
        self.launchers += 1
        argv = [*(command or STROMBOLI), "up", "--dir", self.folder.root, "--nodes", "1"]
        name = f"up{self.launchers}"
        return ChildProcess(argv, name=name, log=self.folder.root.parent / f"{name}.log")

    def say(self, command: str) -> "subprocess.CompletedProcess[str]":
        argv = [*STROMBOLI, command, "--dir", str(self.folder.root)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)

    def noted(self) -> dict[str, Process]:
        running = self.folder.noted()
        processes = {} if running is None else running.processes
        self.seen |= {process: name for name, process in processes.items()}
        return processes

    def alive(self) -> list[str]:
        """Those that were ever seen and still run."""
        self.noted()
        return [name for process, name in self.seen.items() if is_alive(process)]

    async def until_started(self, up: ChildProcess, count: int) -> None:
        """Until so many processes were started, whether they are ready or not."""
        await up.until(
            lambda: len(self.noted()) >= count, deadline_s=60, what=f"did not start {count}"
        )

    async def until_nobody_is_left(self) -> None:
        await eventually(
            lambda: not self.alive(), deadline_s=10, describe=lambda: f"{self.alive()} to end"
        )


async def up_and_running(stack: Stack, *command: str) -> ChildProcess:
    up = stack.up(*command)
    await up.until_line("Stromboli is up", 100)
    assert list(stack.noted()) == NAMES
    return up


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    made = Stack(tmp_path / "stromboli")
    yield made
    made.say("down")
    left = made.alive()
    for process in made.seen:
        if is_alive(process):
            os.kill(process.pid, signal.SIGKILL)
    assert not left


def client(stack: Stack) -> Any:
    return KubeClient.connect(KubeAccess(kubeconfig=str(stack.folder.kubeconfig)))


async def test_all_it_started_ends_with_it_and_the_next_one_goes_on(stack: Stack):
    up = await up_and_running(stack)
    async with client(stack) as kube:
        made = await ClusterBuilder(kube, "default").pod("kept")
    up.kill()

    await stack.until_nobody_is_left()
    assert stack.say("status").returncode == 3
    assert stack.say("down").returncode == 0
    again = await up_and_running(stack)
    async with client(stack) as kube:
        assert (await ClusterBuilder(kube, "default").names("pod"))["kept"] == made.uid
    assert await again.terminate(60) == 0
    assert not stack.alive()


@pytest.mark.parametrize("count", [1, 5])
async def test_so_it_does_while_it_starts(stack: Stack, count: int):
    up = stack.up()
    await stack.until_started(up, count)
    up.kill()

    await stack.until_nobody_is_left()
    again = await up_and_running(stack)
    assert await again.terminate(60) == 0


async def test_what_can_not_end_with_it_is_shown_and_ended_by_down(stack: Stack):
    up = await up_and_running(stack, *UNTIED)
    up.kill()

    shown = stack.say("status")
    assert shown.returncode == 3
    assert "stromboli down" in shown.stdout
    for name, process in stack.noted().items():
        assert f"{name:<12} {process.pid:>8}  left behind" in shown.stdout
    assert sorted(stack.alive()) == sorted(NAMES)

    assert stack.say("down").returncode == 0
    assert not stack.alive()
    assert "left behind" not in stack.say("status").stdout


async def test_what_can_not_end_with_it_is_ended_by_the_next_start(stack: Stack):
    up = await up_and_running(stack, *UNTIED)
    before = stack.noted()
    os.kill(before["gateway"].pid, signal.SIGSTOP)
    up.kill()

    again = await up_and_running(stack)
    assert "ending what a launcher that was killed left behind: nats" in again.log_text()
    assert "gateway did not stop" in again.log_text()
    assert not [name for name, process in before.items() if is_alive(process)]
    assert await again.terminate(60) == 0


async def test_strangers_that_have_its_pids_now_are_left_alone(stack: Stack, tmp_path: Path):
    up = await up_and_running(stack)
    up.kill()
    await stack.until_nobody_is_left()
    stranger = ChildProcess(["sleep", "600"], name="stranger", log=tmp_path / "stranger.log")
    running = stack.folder.noted()
    assert running is not None
    # As if all these numbers had been given to the stranger since.
    stack.folder.note(
        msgspec.structs.replace(
            running,
            launcher=Process(stranger.pid, running.launcher.started),
            processes={
                name: Process(stranger.pid, process.started)
                for name, process in running.processes.items()
            },
        )
    )

    assert stack.say("status").returncode == 3
    assert stack.say("down").returncode == 0
    assert stranger.running
    stack.folder.note(running)
    again = await up_and_running(stack)
    assert stranger.running
    assert await again.terminate(60) == 0
    stranger.kill()


def can_contain() -> bool:
    if shutil.which(IN_CONTAINER[0]) is None:
        return False
    return subprocess.run([*IN_CONTAINER, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_contain(), reason="this user may not make a pid namespace")
async def test_in_a_new_container_it_starts_though_its_pid_is_the_same(stack: Stack):
    """There, the launcher and each of its processes may have the very pids that were noted."""
    inside = (*IN_CONTAINER, *STROMBOLI)
    first = await up_and_running(stack, *inside)
    noted = stack.folder.noted()
    refused = stack.say("down")
    assert refused.returncode == 1
    assert "may be in another container" in refused.stderr
    first.kill()
    await eventually(lambda: not stack.folder.is_held, describe="the container to end")

    second = await up_and_running(stack, *inside)
    again = stack.folder.noted()
    assert noted is not None
    assert again is not None
    assert again.launcher.pid == noted.launcher.pid
    second.kill()
    await eventually(lambda: not stack.folder.is_held, describe="the container to end")


async def test_when_its_terminal_is_closed_it_stops_all_in_order(stack: Stack):
    up = await up_and_running(stack)
    up.send(signal.SIGHUP)

    assert await up.wait(60) == 0
    assert not stack.alive()
    assert "stopped" in up.log_text()
