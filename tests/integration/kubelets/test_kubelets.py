"""Virtual kubelets against both API servers: the process as users start it."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.services import ServiceProcess
from stromboli.testkit.waiting import eventually


@pytest.fixture(params=["simulate", "process"])
async def node(
    request: pytest.FixtureRequest, api_server: ApiServer, kube: KubeClient, tmp_path: Path
) -> AsyncIterator[str]:
    """A node of the test's own whose kubelet runs pods in one of the two ways."""
    name = f"node-{secrets.token_hex(4)}"
    fleet = tmp_path / "nodes.yaml"
    fleet.write_text(f"- {{name: {name}, cpu: 4}}\n")
    kubelet = ServiceProcess(
        "stromboli.sandbox.kubelets",
        directory=tmp_path,
        args=[
            *("--kubeconfig", str(api_server.kubeconfig), "--nodes", str(fleet)),
            *("--runtime", request.param, "--data-dir", str(tmp_path / "pods")),
        ],
    )
    await kubelet.until_line("1 nodes", deadline_s=30)
    yield name
    await kubelet.terminate()


def phase(pod: dict[str, Any] | None) -> str:
    return "gone" if pod is None else pod.get("status", {}).get("phase", "")


async def until_phase(cluster: ClusterBuilder, name: str, wanted: str) -> dict[str, Any] | None:
    async def reached() -> bool:
        return phase(await cluster.fetch("pod", name)) == wanted

    await eventually(reached, deadline_s=15, interval_s=0.05, describe=f"{name} is {wanted}")
    return await cluster.fetch("pod", name)


def command(*words: str) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "busybox", "command": list(words)}],
    }


@pytest.fixture
def cluster(kube: KubeClient, namespace: str) -> ClusterBuilder:
    return ClusterBuilder(kube, namespace)


async def test_a_pod_runs_and_its_exit_code_decides_its_phase(node: str, cluster: ClusterBuilder):
    await cluster.pod("good", nodeName=node, **command("sh", "-c", "sleep 0.2 && exit 0"))
    await cluster.pod("bad", nodeName=node, **command("sh", "-c", "sleep 0.2 && exit 3"))
    await until_phase(cluster, "good", "Succeeded")
    bad = await until_phase(cluster, "bad", "Failed")

    assert bad is not None
    [status] = bad["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 3


async def test_a_deleted_pod_is_stopped_and_then_goes(node: str, cluster: ClusterBuilder):
    await cluster.pod("endless", nodeName=node, **command("sleep", "3600"))
    await until_phase(cluster, "endless", "Running")
    await cluster.delete("pod", "endless", grace_period_s=None)

    await until_phase(cluster, "endless", "gone")


async def test_a_container_that_fails_is_restarted_when_its_policy_says_so(
    node: str, cluster: ClusterBuilder
):
    spec = {**command("sh", "-c", "exit 1"), "restartPolicy": "OnFailure"}
    await cluster.pod("stubborn", nodeName=node, **spec)

    async def restarted() -> bool:
        pod = await cluster.fetch("pod", "stubborn")
        states = (pod or {}).get("status", {}).get("containerStatuses", [])
        return bool(states) and states[0]["restartCount"] >= 2

    await eventually(restarted, deadline_s=15, interval_s=0.1, describe="two restarts")
