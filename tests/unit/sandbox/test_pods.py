from typing import Any

import pytest
from tests.unit.sandbox.conftest import PODS, Client, pod


def container(**more: object) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "busybox:1", **more}]}


async def test_a_pod_gets_the_defaults_of_the_real_server(client: Client) -> None:
    reply = await client.made(PODS, pod("a", **container(ports=[{"containerPort": 80}])))

    spec = reply.body["spec"]
    (main,) = spec["containers"]
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["enableServiceLinks"] is True
    assert spec["securityContext"] == {}
    assert spec["priority"] == 0
    assert len(spec["tolerations"]) == 2
    assert main["imagePullPolicy"] == "IfNotPresent"
    assert main["terminationMessagePath"] == "/dev/termination-log"
    assert main["terminationMessagePolicy"] == "File"
    assert main["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert reply.body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert reply.meta["generation"] == 1


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("host:5000/busybox", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("host:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:0123", "IfNotPresent"),
    ],
)
async def test_the_newest_image_is_always_pulled(client: Client, image: str, policy: str) -> None:
    reply = await client.made(PODS, pod("a", containers=[{"name": "c", "image": image}]))

    assert reply.body["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
)
async def test_the_quality_of_service_follows_from_the_resources(
    client: Client, resources: dict[str, Any], quality: str
) -> None:
    reply = await client.made(PODS, pod("a", **container(resources=resources)))

    assert reply.body["status"]["qosClass"] == quality


async def test_quantities_are_stored_canonically_and_requests_follow_limits(
    client: Client,
) -> None:
    limits = {"cpu": "1000m", "memory": "1024Mi", "nvidia.com/gpu": 1}

    reply = await client.made(PODS, pod("a", **container(resources={"limits": limits})))

    stored = reply.body["spec"]["containers"][0]["resources"]
    assert stored["limits"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert stored["requests"] == stored["limits"]


MAIN = "spec.containers[0]"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "c"}]}, f"{MAIN}.image"),
        ({"containers": [{"image": "x"}]}, f"{MAIN}.name"),
        ({"containers": [{"name": "C_", "image": "x"}]}, f"{MAIN}.name"),
        (container(ports=[{"containerPort": 0}]), f"{MAIN}.ports[0].containerPort"),
        (container(ports=[{"containerPort": 70000}]), f"{MAIN}.ports[0].containerPort"),
        (container(env=[{"value": "x"}]), f"{MAIN}.env[0].name"),
        (container(imagePullPolicy="Maybe"), f"{MAIN}.imagePullPolicy"),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
            f"{MAIN}.volumeMounts[0].name",
        ),
        (
            container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            f"{MAIN}.resources.requests",
        ),
        (container(resources={"requests": {"cpu": "-1"}}), f"{MAIN}.resources.requests[cpu]"),
        (container(resources={"requests": {"nvidia.com/gpu": "1"}}), f"{MAIN}.resources.limits"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"dnsPolicy": "Foo"}, "spec.dnsPolicy"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector"),
        ({"hostname": "A_"}, "spec.hostname"),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, "spec.volumes[1].name"),
        ({"tolerations": [{"key": "a", "operator": "Foo"}]}, "spec.tolerations[0].operator"),
        ({"tolerations": [{"key": "a", "effect": "Foo"}]}, "spec.tolerations[0].effect"),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, "spec.schedulingGates[1]"),
    ],
)
async def test_a_pod_that_breaks_a_rule_is_invalid_at_the_field_that_breaks_it(
    client: Client, spec: dict[str, Any], field: str
) -> None:
    reply = await client.post(PODS, pod("a", **spec))

    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.message.startswith('Pod "a" is invalid: ')
    assert field in reply.fields


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "x"},
        {"containers": [5]},
        {"containers": [{"name": "c", "image": "x", "command": "sleep"}]},
        {"terminationGracePeriodSeconds": "30"},
        {"nodeSelector": []},
        container(resources={"limits": {"cpu": "many"}}),
        container(resources={"limits": {"cpu": True}}),
    ],
)
async def test_a_wrong_json_type_is_a_bad_request(client: Client, spec: dict[str, Any]) -> None:
    reply = await client.post(PODS, pod("a", **spec))

    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert 'Pod in version "v1" cannot be handled as a Pod' in reply.message


async def test_the_sentence_for_missing_containers_is_kubernetes_own(client: Client) -> None:
    reply = await client.post(PODS, {"metadata": {"name": "x"}, "spec": {}})

    assert reply.message == 'Pod "x" is invalid: spec.containers: Required value'
    assert reply.body["details"] == {
        "name": "x",
        "kind": "Pod",
        "causes": [
            {
                "reason": "FieldValueRequired",
                "message": "Required value",
                "field": "spec.containers",
            }
        ],
    }


class TestPriority:
    CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

    async def test_a_class_gives_its_value(self, client: Client) -> None:
        await client.made(self.CLASSES, {"metadata": {"name": "high"}, "value": 1000})

        reply = await client.made(PODS, pod("a", priorityClassName="high"))

        assert reply.body["spec"]["priority"] == 1000
        assert reply.body["spec"]["preemptionPolicy"] == "PreemptLowerPriority"

    async def test_a_class_says_whether_its_pods_preempt(self, client: Client) -> None:
        meek = {"metadata": {"name": "meek"}, "value": 1000, "preemptionPolicy": "Never"}
        await client.made(self.CLASSES, meek)

        reply = await client.made(PODS, pod("a", priorityClassName="meek"))

        assert reply.body["spec"]["preemptionPolicy"] == "Never"

    async def test_the_default_class_is_for_pods_that_name_none(self, client: Client) -> None:
        default = {"metadata": {"name": "low"}, "value": 5, "globalDefault": True}
        await client.made(self.CLASSES, default)

        reply = await client.made(PODS, pod("a"))

        assert reply.body["spec"]["priority"] == 5
        assert reply.body["spec"]["priorityClassName"] == "low"

    async def test_there_is_one_default_only(self, client: Client) -> None:
        body = {"value": 5, "globalDefault": True}
        await client.made(self.CLASSES, {"metadata": {"name": "one"}, **body})

        reply = await client.post(self.CLASSES, {"metadata": {"name": "two"}, **body})

        assert (reply.code, reply.reason) == (403, "Forbidden")

    async def test_an_unknown_class_is_forbidden(self, client: Client) -> None:
        reply = await client.post(PODS, pod("a", priorityClassName="nope"))

        assert reply.code == 403
        assert reply.message == ('pods "a" is forbidden: no PriorityClass with name nope was found')

    async def test_a_number_that_contradicts_the_class_is_forbidden(self, client: Client) -> None:
        assert (await client.post(PODS, pod("a", priority=7))).code == 403

    async def test_the_system_classes_exist_and_stay(self, client: Client) -> None:
        reply = await client.made(PODS, pod("a", priorityClassName="system-node-critical"))
        refused = await client.delete(f"{self.CLASSES}/system-node-critical")

        assert reply.body["spec"]["priority"] == 2_000_001_000
        assert refused.code == 403


async def test_a_gated_pod_says_so_and_cannot_be_bound(client: Client) -> None:
    gates = [{"name": "example.com/wait"}]

    reply = await client.made(PODS, pod("a", schedulingGates=gates))
    bound = await client.post(
        f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}}
    )

    assert reply.body["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert bound.code == 409


async def test_gates_can_be_removed_but_not_added(client: Client) -> None:
    await client.made(PODS, pod("a", schedulingGates=[{"name": "x/a"}, {"name": "x/b"}]))

    removed = await client.merge(f"{PODS}/a", {"spec": {"schedulingGates": [{"name": "x/b"}]}})
    added = await client.merge(f"{PODS}/a", {"spec": {"schedulingGates": [{"name": "x/c"}]}})

    assert removed.code == 200
    assert (added.code, added.fields) == (422, ["spec.schedulingGates"])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"activeDeadlineSeconds": 100}, 200),
        ({"restartPolicy": "Never"}, 422),
        ({"nodeName": "n2"}, 422),
        ({"schedulerName": "other"}, 422),
        ({"tolerations": []}, 422),
    ],
)
async def test_little_of_a_pods_spec_may_change(
    client: Client, change: dict[str, Any], code: int
) -> None:
    await client.made(PODS, pod("a"))

    assert (await client.merge(f"{PODS}/a", {"spec": change})).code == code


async def test_a_container_may_get_another_image(client: Client) -> None:
    await client.made(PODS, pod("a"))
    image = {"op": "replace", "path": "/spec/containers/0/image", "value": "busybox:2"}

    reply = await client.json_patch(f"{PODS}/a", [image])

    assert reply.code == 200
    assert reply.meta["generation"] == 2
