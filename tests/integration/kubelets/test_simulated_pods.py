"""Pods that are only pretended, and the nodes they are on."""

from typing import Any

from tests.integration.kubelets.conftest import (
    StartKubelet,
    command,
    exit_code,
    logs,
    until_phase,
)

from stromboli.kube import KubeClient
from stromboli.sandbox.kubelets.rules import Rule
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.waiting import eventually


async def test_labels_choose_a_rule(start: StartKubelet, cluster: ClusterBuilder) -> None:
    node = await start(rules=[Rule(match={"role": "worker"}, run="100ms", exit=4)])
    body = {"metadata": {"name": "p", "labels": {"role": "worker"}}}
    await cluster.make("pod", {**body, "spec": {"nodeName": node, **command("sleep", "900")}})

    assert exit_code(await until_phase(cluster, "p", "Failed")) == 4


async def test_annotations_go_before_rules(start: StartKubelet, cluster: ClusterBuilder) -> None:
    node = await start(rules=[Rule(run="100ms", exit=4)])
    notes = {"sandbox.stromboli.sh/run": "100ms", "sandbox.stromboli.sh/exit": "0"}
    body = {"metadata": {"name": "p", "annotations": notes}}
    await cluster.make("pod", {**body, "spec": {"nodeName": node, **command("sleep", "900")}})

    assert exit_code(await until_phase(cluster, "p", "Succeeded")) == 0


async def test_its_log_says_what_was_pretended(
    start: StartKubelet, cluster: ClusterBuilder, kube: KubeClient, namespace: str
) -> None:
    node = await start()
    await cluster.pod("p", nodeName=node, **command("sh", "-c", "sleep 0.5 && exit 3"))
    await until_phase(cluster, "p", "Running")
    followed = await logs(kube, namespace, "p", follow="true")

    assert followed.splitlines() == [
        f"simulated container c started on {node}",
        "command: sh -c sleep 0.5 && exit 3",
        "it runs 0.5 s and exits with 3",
        "ended with exit code 3",
    ]


async def test_a_node_is_as_its_group_says(start: StartKubelet, cluster: ClusterBuilder) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    name = await start(cpu=16, memory="64Gi", gpu=4, labels={"zone": "a"}, taints=[taint])
    node = await cluster.fetch("node", name) or {}

    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["spec"]["taints"] == [taint]
    status = node["status"]
    assert status["allocatable"] == {
        "cpu": "16",
        "memory": "64Gi",
        "nvidia.com/gpu": "4",
        "pods": "110",
    }
    assert ("Ready", "True") in [(one["type"], one["status"]) for one in status["conditions"]]
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] > 0


async def test_a_kubelet_that_comes_back_leaves_other_peoples_taints_alone(
    start: StartKubelet, cluster: ClusterBuilder, kube: KubeClient
) -> None:
    name = await start()
    taint: dict[str, Any] = {"key": "maintenance", "effect": "NoSchedule"}
    await cluster.change("node", name, {"spec": {"unschedulable": True, "taints": [taint]}})
    await start(name=name)
    node = await cluster.fetch("node", name) or {}

    assert taint in node["spec"]["taints"]
    assert node["spec"]["unschedulable"] is True


async def test_a_node_renews_its_lease(start: StartKubelet, kube: KubeClient) -> None:
    name = await start()
    leases = ClusterBuilder(kube, "kube-node-lease")
    times: set[str] = set()

    async def renewed() -> bool:
        lease = await leases.fetch("lease", name) or {}
        times.add(lease.get("spec", {}).get("renewTime", ""))
        return len(times - {""}) >= 3

    await eventually(renewed, describe="three heartbeats")
