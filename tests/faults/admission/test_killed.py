"""Admission dies or hangs while jobs are on their way: they arrive all the same."""

import asyncio
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
from stromboli.kube.errors import KubeError
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.processes import ChildProcess
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(240)]


def stromboli(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "stromboli.launcher", *arguments]


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    folder = tmp_path / "stromboli"
    up = ChildProcess(
        stromboli("up", "--dir", folder, "--nodes", "1"), name="up", log=tmp_path / "up.log"
    )
    await up.until_line("Stromboli is up", 100)
    yield folder
    down = stromboli("down", "--dir", folder)
    await asyncio.to_thread(subprocess.run, down, timeout=90, check=False)


def admission_pid(folder: Path) -> int:
    running = json.loads((folder / "running.json").read_text())
    return int(running["processes"]["admission"]["pid"])


def client(folder: Path) -> Any:
    return KubeClient.connect(KubeAccess(kubeconfig=str(folder / "kubeconfig")))


def job(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "600"]}
    task = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    return {"metadata": {"name": name}, "spec": {"tasks": [task]}}


async def is_running(cluster: ClusterBuilder, name: str) -> bool:
    found = await cluster.fetch("vcjob", name)
    assert found is not None
    return found.get("status", {}).get("state", {}).get("phase") == "Running"


async def test_a_job_that_was_let_in_runs_though_admission_died_right_after(folder: Path):
    """Its PodGroup has to be reviewed too, by an admission that is not there yet again."""
    async with client(folder) as kube:
        cluster = ClusterBuilder(kube, "default")
        for number in range(3):
            name = f"let-in-{number}"
            before = admission_pid(folder)
            await cluster.make("vcjob", job(name))
            os.kill(before, signal.SIGKILL)

            await eventually(lambda n=name: is_running(cluster, n), deadline_s=40, interval_s=0.2)
            await eventually(lambda b=before: admission_pid(folder) != b, deadline_s=20)


async def test_a_job_that_comes_while_admission_is_away_is_taken_when_it_is_back(folder: Path):
    """Refused for a moment, never stored unseen."""
    async with client(folder) as kube:
        cluster = ClusterBuilder(kube, "default")
        os.kill(admission_pid(folder), signal.SIGKILL)
        refusals: list[str] = []

        async def is_taken() -> bool:
            try:
                await cluster.make("vcjob", job("persistent"))
            except KubeError as refused:
                refusals.append(str(refused))
                return False
            return True

        await eventually(is_taken, deadline_s=30, interval_s=0.1)
        stored = await cluster.fetch("vcjob", "persistent")
        assert stored is not None
        assert stored["spec"]["minAvailable"] == 2
        assert refusals
        assert all("webhook" in refusal for refusal in refusals)


async def test_a_frozen_admission_holds_up_only_what_it_has_to_see(folder: Path):
    async with client(folder) as kube:
        cluster = ClusterBuilder(kube, "default")
        os.kill(admission_pid(folder), signal.SIGSTOP)
        try:
            with pytest.raises(KubeError, match="webhook"):
                await cluster.make("vcjob", job("waits"))
            await cluster.pod("other", schedulerName="default-scheduler")
        finally:
            os.kill(admission_pid(folder), signal.SIGCONT)
        await eventually(lambda: _taken(cluster), deadline_s=20, interval_s=0.2)


async def _taken(cluster: ClusterBuilder) -> bool:
    try:
        await cluster.make("vcjob", job("waits"))
    except KubeError:
        return False
    return True
