"""`stromboli up` as a person uses it: processes, their end, and a second start."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube import KubeAccess, KubeClient
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.processes import ChildProcess
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.timeout(240)]


def stromboli(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "stromboli.launcher", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)


def start(folder: Path, log: Path) -> ChildProcess:
    argv = [sys.executable, "-m", "stromboli.launcher", "up", "--dir", folder, "--nodes", "2"]
    return ChildProcess(argv, name="up", log=log)


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    folder = tmp_path / "stromboli"
    yield folder
    running = folder / "running.json"
    if running.exists():
        stromboli("down", "--dir", folder)


def pids(folder: Path) -> dict[str, int]:
    running = json.loads((folder / "running.json").read_text())
    return {name: process["pid"] for name, process in running["processes"].items()}


def client(folder: Path) -> Any:
    return KubeClient.connect(KubeAccess(kubeconfig=str(folder / "kubeconfig")))


async def test_it_starts_shows_itself_stops_and_resumes_where_it_was(folder: Path, tmp_path: Path):
    first = start(folder, tmp_path / "up.log")
    await first.until_line("Stromboli is up", 100)
    assert "ready" in stromboli("status", "--dir", folder).stdout
    async with client(folder) as kube:
        made = await ClusterBuilder(kube, "default").pod("kept")
    stopped = stromboli("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stderr
    assert await first.wait() == 0
    assert stromboli("status", "--dir", folder).returncode == 3

    second = start(folder, tmp_path / "up.log")
    await second.until_line("Stromboli is up", 100)
    async with client(folder) as kube:
        assert (await ClusterBuilder(kube, "default").names("pod"))["kept"] == made.uid
    stromboli("down", "--dir", folder)
    assert await second.wait() == 0


async def test_a_process_that_is_killed_is_started_again_and_that_is_said(
    folder: Path, tmp_path: Path
):
    up = start(folder, tmp_path / "up.log")
    await up.until_line("Stromboli is up", 100)
    before = pids(folder)
    for name in ("gateway", "nats"):
        os.kill(before[name], signal.SIGKILL)

    await up.until_line("gateway was killed by SIGKILL; starting it again", 20)
    await eventually(
        lambda: stromboli("status", "--dir", folder).returncode == 0,
        deadline_s=40,
        interval_s=0.5,
        describe="everything is ready again",
    )
    assert pids(folder)["gateway"] != before["gateway"]
    async with client(folder) as kube:
        await ClusterBuilder(kube, "default").pod("after")
    up.send(signal.SIGINT)
    assert await up.wait(30) == 0


async def test_a_second_launcher_on_the_same_folder_is_refused_with_advice(
    folder: Path, tmp_path: Path
):
    up = start(folder, tmp_path / "up.log")
    await up.until_line("Stromboli is up", 100)
    second = stromboli("up", "--dir", folder)

    assert second.returncode == 1
    assert "already" in second.stderr
    assert "stromboli down" in second.stderr


def test_a_folder_without_stromboli_is_told_how_to_start_one(tmp_path: Path):
    answer = stromboli("status", "--dir", tmp_path)

    assert answer.returncode == 1
    assert "stromboli up" in answer.stderr


async def test_the_demonstration_is_as_it_says():
    done = stromboli("demo")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All was as it should be." in done.stdout
