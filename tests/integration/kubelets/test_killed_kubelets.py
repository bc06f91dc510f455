"""Kubelets that are killed and started again: their pods are neither lost nor started twice."""

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.kubelets.conftest import command, exit_code, logs, phase, until_phase

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.services import ServiceProcess
from stromboli.testkit.waiting import eventually


class Kubelets:
    """One node's kubelets as a process that may be killed."""

    def __init__(self, api_server: ApiServer, folder: Path) -> None:
        self.node = f"node-{secrets.token_hex(4)}"
        self._api_server = api_server
        self._folder = folder
        self._process: ServiceProcess | None = None
        self._starts = 0
        (folder / "nodes.yaml").write_text(f"- {{name: {self.node}, cpu: 4}}\n")

    async def start(self, runtime: str) -> None:
        self._starts += 1
        folder = self._folder
        self._process = ServiceProcess(
            "stromboli.sandbox.kubelets",
            directory=folder,
            name=f"kubelets-{self._starts}",
            args=[
                *("--kubeconfig", str(self._api_server.kubeconfig)),
                *("--nodes", str(folder / "nodes.yaml"), "--runtime", runtime),
                *("--data-dir", str(folder / "pods")),
            ],
        )
        await self._process.until_line("1 nodes", deadline_s=30)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    async def end(self) -> None:
        if self._process is not None and self._process.running:
            await self._process.terminate(deadline_s=20)


@pytest.fixture
async def kubelets(api_server: ApiServer, tmp_path: Path) -> AsyncIterator[Kubelets]:
    process = Kubelets(api_server, tmp_path)
    yield process
    await process.end()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until_written(path: Path) -> list[str]:
    return await eventually(
        lambda: path.read_text().split() if path.exists() else [],
        deadline_s=20,
        describe=f"{path.name} is written",
    )


async def test_a_process_goes_on_and_is_found_again(
    kubelets: Kubelets, cluster: ClusterBuilder, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    """Not started twice, not taken for dead; its exit code and its whole log arrive."""
    await kubelets.start("process")
    script = (
        f"echo $$ >> {tmp_path}/starts; echo before;"
        f" while ! test -e {tmp_path}/go; do sleep 0.05; done; echo after; exit 5"
    )
    await cluster.pod("p", nodeName=kubelets.node, **command("sh", "-c", script))
    await until_phase(cluster, "p", "Running")
    [pid] = await until_written(tmp_path / "starts")
    kubelets.kill()
    assert is_alive(int(pid))
    await kubelets.start("process")
    (tmp_path / "go").touch()
    pod = await until_phase(cluster, "p", "Failed")
    [status] = pod["status"]["containerStatuses"]

    assert (exit_code(pod), status["restartCount"]) == (5, 0)
    assert (tmp_path / "starts").read_text().split() == [pid]
    assert await logs(kube, namespace, "p") == "before\nafter\n"


async def test_an_end_that_nobody_saw_is_reported_later(
    kubelets: Kubelets, cluster: ClusterBuilder, tmp_path: Path
) -> None:
    await kubelets.start("process")
    script = (
        f"echo $$ >> {tmp_path}/starts; while ! test -e {tmp_path}/go; do sleep 0.05; done;"
        f" touch {tmp_path}/done"
    )
    await cluster.pod("p", nodeName=kubelets.node, **command("sh", "-c", script))
    await until_phase(cluster, "p", "Running")
    await until_written(tmp_path / "starts")
    kubelets.kill()
    (tmp_path / "go").touch()
    await eventually((tmp_path / "done").exists, deadline_s=20, describe="the process has ended")
    assert phase(await cluster.fetch("pod", "p")) == "Running"
    await kubelets.start("process")
    pod = await until_phase(cluster, "p", "Succeeded")

    assert exit_code(pod) == 0
    assert len((tmp_path / "starts").read_text().split()) == 1


async def test_what_was_deleted_meanwhile_is_stopped(
    kubelets: Kubelets, cluster: ClusterBuilder, tmp_path: Path
) -> None:
    """One deletion waits for the kubelet, the other did not: no process is left of either."""
    await kubelets.start("process")
    for name in ("asked", "forced"):
        script = f"echo $$ > {tmp_path}/{name}; while true; do sleep 0.05; done"
        await cluster.pod(name, nodeName=kubelets.node, **command("sh", "-c", script))
        await until_phase(cluster, name, "Running")
    pids = [int((await until_written(tmp_path / name))[0]) for name in ("asked", "forced")]
    kubelets.kill()
    await cluster.delete("pod", "asked", grace_period_s=None)
    await cluster.delete("pod", "forced", grace_period_s=0)
    await until_phase(cluster, "forced", "gone")
    assert all(map(is_alive, pids))
    await kubelets.start("process")

    await until_phase(cluster, "asked", "gone")
    await eventually(lambda: not any(map(is_alive, pids)), deadline_s=20, describe="both ended")
    await eventually(lambda: not list((tmp_path / "pods").iterdir()), describe="no folder is left")


async def test_a_simulated_pod_does_not_begin_again(
    kubelets: Kubelets, cluster: ClusterBuilder
) -> None:
    await kubelets.start("simulate")
    await cluster.pod("p", nodeName=kubelets.node, **command("sleep", "1"))
    before = await until_phase(cluster, "p", "Running")
    kubelets.kill()
    await kubelets.start("simulate")
    after = await until_phase(cluster, "p", "Succeeded")
    [was], [ended] = before["status"]["containerStatuses"], after["status"]["containerStatuses"]

    assert ended["restartCount"] == 0
    assert ended["state"]["terminated"]["startedAt"] == was["state"]["running"]["startedAt"]


async def test_kubelets_that_are_stopped_stop_their_processes(
    kubelets: Kubelets, cluster: ClusterBuilder, tmp_path: Path
) -> None:
    """As on a machine that is shut down: what had to run once has failed."""
    await kubelets.start("process")
    script = f"echo $$ > {tmp_path}/pid; while true; do sleep 0.05; done"
    await cluster.pod("p", nodeName=kubelets.node, **command("sh", "-c", script))
    await until_phase(cluster, "p", "Running")
    [pid] = await until_written(tmp_path / "pid")
    await kubelets.end()
    assert not is_alive(int(pid))
    await kubelets.start("process")

    assert exit_code(await until_phase(cluster, "p", "Failed")) == 143
