"""Case 39's second half: the gang of a batch/v1 Job that is over is Completed.

The gang's status is the scheduler's, so its process is here too; the test is the kubelet and
Kubernetes' own job controller.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stromboli.api import kinds
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder, owned_by, pod_manifest
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.usefixtures("controllers")]


@pytest.fixture
async def scheduler_process(
    tmp_path: Path, gateway: GatewayProcess, nats_server: NatsServer
) -> AsyncIterator[DeciderProcess]:
    assert gateway.running
    process = DeciderProcess("scheduler", tmp_path / "scheduler", nats_url=nats_server.url)
    await process.until_ready()
    yield process
    process.kill()


async def test_the_gang_of_a_batch_job_that_is_over_is_completed(
    scheduler_process: DeciderProcess, cluster: ClusterBuilder
):
    assert scheduler_process.running
    await cluster.node("n1")
    status = {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await cluster.change("node", "n1", {"status": status}, subresource="status")
    # kube-apiserver marks a new node as not ready, and nobody is here to take that back.
    await cluster.change("node", "n1", {"spec": {"taints": None}})
    template = {"spec": {**pod_manifest("x")["spec"], "restartPolicy": "Never"}}
    made = await cluster.make(
        "k8sjob", {"metadata": {"name": "count"}, "spec": {"template": template}}
    )
    names = [f"count-{index}" for index in range(2)]
    for name in names:
        await cluster.make("pod", owned_by(pod_manifest(name), made, kinds.K8S_JOB))

    async def are_bound() -> bool:
        pods = [await cluster.fetch("pod", name) for name in names]
        return all(pod is not None and pod["spec"].get("nodeName") == "n1" for pod in pods)

    await eventually(are_bound, deadline_s=20, describe="the pods are bound")
    for name, end in zip(names, ("Succeeded", "Failed"), strict=True):
        await cluster.change("pod", name, {"status": {"phase": end}}, subresource="status")

    async def is_completed() -> bool:
        group = await cluster.fetch("vcpodgroup", f"podgroup-{made.uid}")
        assert group is not None
        assert group["status"]["phase"] == "Completed"
        return True

    await eventually(is_completed, deadline_s=20, describe="the gang is Completed")
