"""The built-in kinds that jobs are made of, as far as we create or read them."""

from base64 import b64encode

import pytest

from stromboli.api.kinds import (
    CONFIG_MAP,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    PRIORITY_CLASS,
    SECRET,
    SERVICE,
)
from stromboli.kube import KubeClient, PatchType
from stromboli.kube.errors import BadRequest, Forbidden, Invalid
from stromboli.testkit.manifests import config_map, decoded, lease, named, node, unique

ME = "contract"


async def test_the_usual_namespaces_are_there(kube: KubeClient) -> None:
    names = {
        decoded(item)["metadata"]["name"]
        async for page in kube.list_pages(NAMESPACE)
        for item in page.items
    }

    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= names


async def test_a_namespace_is_active_and_carries_its_name_as_a_label(
    kube: KubeClient, namespace: str
) -> None:
    stored = decoded(await kube.get(NAMESPACE, None, namespace))

    assert stored["status"]["phase"] == "Active"
    assert stored["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace


async def test_nothing_can_be_created_in_a_namespace_that_is_going(
    kube: KubeClient, namespace: str
) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await kube.create(CONFIG_MAP, namespace, held, field_manager=ME)
    await kube.delete(NAMESPACE, None, namespace)
    assert decoded(await kube.get(NAMESPACE, None, namespace))["status"]["phase"] == "Terminating"

    with pytest.raises(Forbidden) as caught:
        await kube.create(CONFIG_MAP, namespace, config_map("late"), field_manager=ME)
    assert caught.value.is_namespace_terminating
    assert "because it is being terminated" in caught.value.message


async def test_a_node_may_bring_its_status_along(kube: KubeClient) -> None:
    """So that a kubelet registers with one request."""
    name = unique("node")
    body = node(
        name,
        labels={"zone": "a"},
        spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        status={
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": "3500m", "memory": "7Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    )
    stored = decoded((await kube.create(NODE, None, body, field_manager=ME)).raw)

    assert stored["status"]["allocatable"] == {"cpu": "3500m", "memory": "7Gi", "pods": "110"}
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    assert taint in stored["spec"]["taints"]


async def test_a_nodes_heartbeat_is_a_patch_of_its_status(kube: KubeClient) -> None:
    written = await kube.create(NODE, None, node(unique("node")), field_manager=ME)
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    after = await kube.patch(
        NODE,
        None,
        written.name,
        {"status": {"conditions": [ready]}},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )

    assert decoded(after.raw)["status"]["conditions"][0]["reason"] == "KubeletReady"


async def test_a_headless_service_is_accepted(kube: KubeClient, namespace: str) -> None:
    body = named(
        "v1",
        "Service",
        "peers",
        spec={"clusterIP": "None", "selector": {"job": "a"}, "ports": [{"port": 1, "name": "x"}]},
    )
    stored = decoded((await kube.create(SERVICE, namespace, body, field_manager=ME)).raw)

    assert stored["spec"]["clusterIP"] == "None"
    assert stored["spec"]["selector"] == {"job": "a"}
    assert stored["spec"]["type"] == "ClusterIP"


async def test_a_secret_takes_plain_text_and_keeps_base64(kube: KubeClient, namespace: str) -> None:
    body = named("v1", "Secret", "s", stringData={"key": "value"})
    stored = decoded((await kube.create(SECRET, namespace, body, field_manager=ME)).raw)

    assert stored["data"] == {"key": b64encode(b"value").decode()}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored


async def test_a_secret_that_is_no_base64_is_refused(kube: KubeClient, namespace: str) -> None:
    body = named("v1", "Secret", "s", data={"key": "not base64!"})
    with pytest.raises(BadRequest):
        await kube.create(SECRET, namespace, body, field_manager=ME)


@pytest.mark.parametrize("key", ["a/b", "", "..", "a b"])
async def test_a_key_of_a_config_map_must_be_a_file_name(
    kube: KubeClient, namespace: str, key: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await kube.create(CONFIG_MAP, namespace, config_map("a", {key: "x"}), field_manager=ME)

    assert caught.value.causes[0].field == f"data[{key}]"


async def test_an_event_is_kept_with_what_it_is_about(kube: KubeClient, namespace: str) -> None:
    body = named(
        "v1",
        "Event",
        "a.1",
        involvedObject={"kind": "Pod", "namespace": namespace, "name": "a", "uid": "u"},
        reason="Scheduled",
        message="bound to n1",
        type="Normal",
        source={"component": "stromboli"},
        firstTimestamp="2026-01-01T00:00:00Z",
        lastTimestamp="2026-01-01T00:00:00Z",
        count=1,
    )
    await kube.create(EVENT, namespace, body, field_manager=ME)
    stored = decoded(await kube.get(EVENT, namespace, "a.1"))

    assert stored["involvedObject"]["name"] == "a"
    assert (stored["reason"], stored["message"], stored["count"]) == ("Scheduled", "bound to n1", 1)


async def test_events_are_selected_by_what_they_are_about(kube: KubeClient, namespace: str) -> None:
    for name in ("a", "b"):
        about = {"kind": "Pod", "namespace": namespace, "name": name}
        body = named("v1", "Event", f"{name}.1", involvedObject=about, reason="R", type="Normal")
        await kube.create(EVENT, namespace, body, field_manager=ME)
    page = await anext(
        kube.list_pages(EVENT, namespace=namespace, field_selector="involvedObject.name=b")
    )

    assert [decoded(item)["metadata"]["name"] for item in page.items] == ["b.1"]


async def test_a_lease_keeps_microseconds(kube: KubeClient, namespace: str) -> None:
    moment = "2026-01-02T03:04:05.678901Z"
    body = lease("l", renewTime=moment, leaseDurationSeconds=15)
    stored = decoded((await kube.create(LEASE, namespace, body, field_manager=ME)).raw)

    assert stored["spec"]["renewTime"] == moment


async def test_the_value_of_a_priority_class_can_not_change(kube: KubeClient) -> None:
    name = unique("class")
    body = named("scheduling.k8s.io/v1", "PriorityClass", name, value=10)
    await kube.create(PRIORITY_CLASS, None, body, field_manager=ME)
    with pytest.raises(Invalid) as caught:
        await kube.patch(
            PRIORITY_CLASS,
            None,
            name,
            {"value": 11},
            patch_type=PatchType.MERGE,
            field_manager=ME,
        )

    assert caught.value.causes[0].field == "value"
