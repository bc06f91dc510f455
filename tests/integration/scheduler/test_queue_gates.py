"""The gate of a queue, from the webhook's pod to the node: scheduler, gateway, API server."""

import pytest

from stromboli.api.wellknown import GROUP_NAME, QUEUE_ALLOCATION_GATE
from stromboli.testkit.kube_objects import ClusterBuilder, pod_manifest
from stromboli.testkit.services import ServiceProcess
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


async def test_a_pod_passes_the_gate_of_its_queue_and_is_bound(
    scheduler: ServiceProcess, cluster: ClusterBuilder, namespace: str
):
    """With the default configuration; the gate is as admission puts it on the pod."""
    queue = await cluster.queue()
    await cluster.make(
        "node",
        {
            "metadata": {"name": f"node-{namespace}", "labels": {"zone": namespace}},
            "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
        },
    )
    spec = {"minMember": 1, "queue": queue}
    await cluster.make("vcpodgroup", {"metadata": {"name": "one"}, "spec": spec})
    manifest = pod_manifest(
        "one-main-0",
        nodeSelector={"zone": namespace},
        tolerations=[{"operator": "Exists"}],
        schedulingGates=[{"name": QUEUE_ALLOCATION_GATE}],
    )
    manifest["metadata"]["annotations"] = {GROUP_NAME: "one", QUEUE_ALLOCATION_GATE: "true"}
    await cluster.make("pod", manifest)

    async def is_bound() -> bool:
        pod = await cluster.fetch("pod", "one-main-0")
        return pod is not None and pod["spec"].get("nodeName") == f"node-{namespace}"

    await eventually(is_bound, describe="the pod has its node")
    pod = await cluster.fetch("pod", "one-main-0")
    assert pod is not None
    assert "schedulingGates" not in pod["spec"]
