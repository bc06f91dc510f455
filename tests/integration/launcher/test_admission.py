"""`stromboli up` with admission, and what it leaves behind when it goes without."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube import KubeAccess, KubeClient
from stromboli.kube.errors import ApiError
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.processes import ChildProcess
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.timeout(240)]


def stromboli(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "stromboli.launcher", *arguments]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "stromboli"
    yield folder
    if (folder / "running.json").exists():
        subprocess.run(stromboli("down", "--dir", folder), timeout=90, check=False)


def client(folder: Path) -> Any:
    return KubeClient.connect(KubeAccess(kubeconfig=str(folder / "kubeconfig")))


def job(name: str, queue: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "60"]}
    task = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {"metadata": {"name": name}, "spec": {"queue": queue, "tasks": [task]}}


async def test_jobs_are_reviewed_from_the_first_moment_and_not_at_all_without_admission(
    folder: Path, tmp_path: Path
):
    up = ChildProcess(
        stromboli("up", "--dir", folder, "--nodes", "1"), name="up", log=tmp_path / "up.log"
    )
    await up.until_line("Stromboli is up", 100)
    async with client(folder) as kube:
        cluster = ClusterBuilder(kube, "default")
        with pytest.raises(ApiError, match="unable to find job queue"):
            await cluster.make("vcjob", job("lost", "nowhere"))
        await cluster.make("vcjob", job("first", "default"))
        stored = await cluster.fetch("vcjob", "first")
        assert stored is not None
        assert stored["spec"]["minAvailable"] == 1

        async def is_running() -> bool:
            found = await cluster.fetch("vcjob", "first")
            assert found is not None
            return found.get("status", {}).get("state", {}).get("phase") == "Running"

        await eventually(is_running, deadline_s=30, describe="the job runs")
    assert await up.terminate(40) == 0

    without = ChildProcess(
        stromboli("up", "--dir", folder, "--nodes", "1", "--no-admission"),
        name="without",
        log=tmp_path / "without.log",
    )
    await without.until_line("off: jobs are stored as they come", 100)
    async with client(folder) as kube:
        await ClusterBuilder(kube, "default").make("vcjob", job("lost", "nowhere"))
    assert await without.terminate(40) == 0
