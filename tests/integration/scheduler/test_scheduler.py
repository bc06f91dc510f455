import secrets
from typing import Any

import msgspec
import pytest

from stromboli.api.kinds import EVENT
from stromboli.api.wellknown import GROUP_NAME
from stromboli.testkit.kube_objects import ClusterBuilder, pod_manifest
from stromboli.testkit.services import ServiceProcess
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


async def add_gang(
    cluster: ClusterBuilder, name: str, size: int, *, queue: str, zone: str, cpu: str = "100m"
) -> None:
    spec = {"minMember": size, "queue": queue}
    await cluster.make("vcpodgroup", {"metadata": {"name": name}, "spec": spec})
    for number in range(size):
        manifest = pod_manifest(
            f"{name}-main-{number}",
            nodeSelector={"zone": zone},
            # kube-apiserver taints every new node as not ready, and nobody is there to undo it.
            tolerations=[{"operator": "Exists"}],
        )
        manifest["metadata"]["annotations"] = {GROUP_NAME: name}
        manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        await cluster.make("pod", manifest)


async def add_node(cluster: ClusterBuilder, zone: str) -> str:
    """A node that only this test's pods choose: the API server is shared with other tests."""
    name = f"node-{secrets.token_hex(4)}"
    await cluster.make(
        "node",
        {
            "metadata": {"name": name, "labels": {"zone": zone}},
            "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
        },
    )
    return name


async def status_of(cluster: ClusterBuilder, name: str) -> dict[str, Any]:
    found = await cluster.fetch("vcpodgroup", name)
    assert found is not None
    return found.get("status") or {}


async def reasons_told(cluster: ClusterBuilder) -> set[str]:
    pages = cluster.kube.list_pages(EVENT, namespace=cluster.namespace)
    return {msgspec.json.decode(item)["reason"] async for page in pages for item in page.items}


async def test_a_gang_is_admitted_and_bound_whole(
    scheduler: ServiceProcess, cluster: ClusterBuilder, namespace: str
):
    queue = await cluster.queue()
    nodes = [await add_node(cluster, namespace) for _ in range(2)]
    await add_gang(cluster, "gang", 4, queue=queue, zone=namespace)

    async def all_are_bound() -> list[str]:
        pods = [await cluster.fetch("pod", f"gang-main-{number}") for number in range(4)]
        placed = [pod["spec"].get("nodeName", "") for pod in pods if pod is not None]
        return placed if len(placed) == 4 and all(placed) else []

    placed = await eventually(all_are_bound, describe="all four pods have a node")
    assert sorted(set(placed)) == sorted(nodes)

    async def is_running() -> bool:
        return (await status_of(cluster, "gang")).get("phase") == "Running"

    await eventually(is_running, describe="the PodGroup is Running")

    async def queue_shows_it() -> bool:
        found = await cluster.fetch("queue", queue)
        used = ((found or {}).get("status") or {}).get("allocated") or {}
        return used.get("cpu") == "400m" and used.get("pods") == "4"

    await eventually(queue_shows_it, describe="the queue shows what its pods use")
    conditions = (await status_of(cluster, "gang"))["conditions"]
    assert conditions[-1]["type"] == "Scheduled"
    assert conditions[-1]["reason"] == "tasks in gang are ready to be scheduled"


async def test_a_gang_that_is_too_large_waits_and_says_why(
    scheduler: ServiceProcess, cluster: ClusterBuilder, namespace: str
):
    queue = await cluster.queue()
    await add_node(cluster, namespace)
    await add_gang(cluster, "large", 4, queue=queue, zone=namespace, cpu="1")

    async def explained() -> str:
        for condition in (await status_of(cluster, "large")).get("conditions", ()):
            if condition["type"] == "Unschedulable" and "ExceedsMax" in condition["message"]:
                assert condition["reason"] == "NotEnoughResources"
                return condition["message"]
        return ""

    message = await eventually(explained, describe="the reason is in the condition")
    assert "2/4 tasks in gang unschedulable: pod group is not ready, 4 Pending" in message
    assert "2 cpu" in message
    for number in range(4):
        pod = await cluster.fetch("pod", f"large-main-{number}")
        assert pod is not None
        assert "nodeName" not in pod["spec"]

    async def pods_know() -> bool:
        pod = await cluster.fetch("pod", "large-main-3")
        conditions = (pod or {}).get("status", {}).get("conditions", ())
        return any(
            c["type"] == "PodScheduled"
            and c["status"] == "False"
            and c["reason"] == "Unschedulable"
            for c in conditions
        )

    async def events_tell() -> bool:
        told = await reasons_told(cluster)
        assert {"Unschedulable", "FailedScheduling"} <= told, told
        return True

    await eventually(events_tell, describe="events say so too")
    await eventually(pods_know, describe="its pods say that they are unschedulable")
    await add_node(cluster, namespace)

    async def is_running() -> bool:
        return (await status_of(cluster, "large")).get("phase") == "Running"

    await eventually(is_running, describe="another node lets it run")


async def test_what_makes_no_sense_says_so_and_everything_else_goes_on(
    scheduler: ServiceProcess, cluster: ClusterBuilder, namespace: str
):
    queue = await cluster.queue()
    await add_node(cluster, namespace)
    # More than any arithmetic of ours can hold, and yet a quantity.
    huge = f"huge-{namespace}"
    offers = {"allocatable": {"cpu": "2", "memory": "9E", "pods": "10"}}
    await cluster.make("node", {"metadata": {"name": huge}, "status": offers})
    await add_gang(cluster, "lost", 1, queue="no-such-queue", zone=namespace)
    await add_gang(cluster, "vast", 1, queue=queue, zone=namespace, cpu="500")
    await add_gang(cluster, "good", 1, queue=queue, zone=namespace)

    async def good_is_bound() -> bool:
        found = await cluster.fetch("pod", "good-main-0")
        return bool(found and found["spec"].get("nodeName"))

    await eventually(good_is_bound, describe="the job that makes sense runs")

    async def says(name: str, words: str) -> None:
        async def is_said() -> bool:
            conditions = (await status_of(cluster, name)).get("conditions") or []
            return any(words in one.get("message", "") for one in conditions)

        await eventually(is_said, describe=f"{name} says {words!r}")

    await says("lost", "Misconfigured: its queue 'no-such-queue' does not exist")
    await says("vast", "500 cpu")

    async def node_is_told_of() -> bool:
        pages = cluster.kube.list_pages(EVENT, namespace="default")
        events = [msgspec.json.decode(item) async for page in pages for item in page.items]
        return any(
            one["reason"] == "SetAside"
            and one["involvedObject"]["name"] == huge
            and "memory" in one["message"]
            for one in events
        )

    await eventually(node_is_told_of, describe="the node that can't be reckoned with is told of")


async def test_a_pod_goes_where_its_volume_is(
    scheduler: ServiceProcess, cluster: ClusterBuilder, namespace: str
):
    """Claims and volumes come from the API server as facts, like everything else."""
    queue = await cluster.queue()
    nodes = sorted([await add_node(cluster, namespace), await add_node(cluster, namespace)])
    volume, claim = f"pv-{namespace}", "data"
    chosen = {"key": "kubernetes.io/hostname", "operator": "In", "values": [nodes[1]]}
    for node in nodes:
        await cluster.label("node", node, **{"kubernetes.io/hostname": node})
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    await cluster.make(
        "persistentvolume",
        {
            "metadata": {"name": volume},
            "spec": {
                **common,
                "capacity": {"storage": "1Gi"},
                "csi": {"driver": "disk.example.com", "volumeHandle": volume},
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [chosen]}]}
                },
            },
        },
    )
    await cluster.make(
        "vcpodgroup", {"metadata": {"name": "sole"}, "spec": {"minMember": 1, "queue": queue}}
    )
    manifest = pod_manifest(
        "sole-main-0",
        nodeSelector={"zone": namespace},
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    )
    manifest["metadata"]["annotations"] = {GROUP_NAME: "sole"}
    await cluster.make("pod", manifest)

    async def says_what_is_missing() -> bool:
        conditions = (await status_of(cluster, "sole")).get("conditions", [])
        return any("not found" in one.get("message", "") for one in conditions)

    await eventually(says_what_is_missing, describe="the job says that the claim is missing")
    await cluster.make(
        "persistentvolumeclaim",
        {
            "metadata": {"name": claim},
            "spec": {
                **common,
                "volumeName": volume,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )

    async def home() -> str:
        found = await cluster.fetch("pod", "sole-main-0")
        return found["spec"].get("nodeName", "") if found else ""

    await eventually(home, describe="the pod has a node")
    assert await home() == nodes[1]
