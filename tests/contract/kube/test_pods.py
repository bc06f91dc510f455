"""Pods: defaults, validation, binding and eviction."""

import pytest

from stromboli.api.kinds import POD, PRIORITY_CLASS
from stromboli.kube import KubeClient, PatchType, Resource
from stromboli.kube.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
)
from stromboli.kube.paths import object_path
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.manifests import Manifest, decoded, named, pod, unique

ME = "contract"


async def test_a_pod_gets_its_defaults(kube: KubeClient, namespace: str) -> None:
    stored = decoded((await kube.create(POD, namespace, pod("a"), field_manager=ME)).raw)

    spec = stored["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["priority"] == 0
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert "nodeName" not in spec
    assert stored["status"]["phase"] == "Pending"
    assert stored["status"]["qosClass"] == "BestEffort"


async def test_limits_are_the_requests_that_were_not_given(
    kube: KubeClient, namespace: str
) -> None:
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
    }
    written = await kube.create(POD, namespace, pod("a", containers=[container]), field_manager=ME)
    stored = decoded(written.raw)

    resources = stored["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert stored["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"image": "x"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "Bad", "image": "x"}]}, "spec.containers[0].name"),
        (
            {"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]},
            "spec.containers[1].name",
        ),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"activeDeadlineSeconds": -1}, "spec.activeDeadlineSeconds"),
        (
            {
                "containers": [
                    {
                        "name": "a",
                        "image": "x",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    }
                ]
            },
            "spec.containers[0].resources.requests",
        ),
        (
            {"containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "-1"}}}]},
            "spec.containers[0].resources.requests[cpu]",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_wrong_pod_is_refused_with_the_field_that_is_wrong(
    kube: KubeClient, namespace: str, spec: Manifest, field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await kube.create(POD, namespace, pod("a", **spec), field_manager=ME)

    assert field in [cause.field for cause in caught.value.causes]
    assert caught.value.message.startswith('Pod "a" is invalid: ')


async def test_a_quantity_that_is_none_is_refused(kube: KubeClient, namespace: str) -> None:
    container = {"name": "a", "image": "x", "resources": {"requests": {"cpu": "lots"}}}
    with pytest.raises(BadRequest, match="quantities must match"):
        await kube.create(POD, namespace, pod("a", containers=[container]), field_manager=ME)


async def test_a_priority_class_becomes_a_priority(kube: KubeClient, namespace: str) -> None:
    name = unique("high")
    body = named("scheduling.k8s.io/v1", "PriorityClass", name, value=1234)
    await kube.create(PRIORITY_CLASS, None, body, field_manager=ME)
    written = await kube.create(POD, namespace, pod("a", priorityClassName=name), field_manager=ME)

    assert decoded(written.raw)["spec"]["priority"] == 1234


async def test_a_missing_priority_class_is_refused(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(Forbidden) as caught:
        await kube.create(POD, namespace, pod("a", priorityClassName="none"), field_manager=ME)

    assert "no PriorityClass with name none was found" in caught.value.message


async def test_a_bound_pod_has_its_node_and_says_so(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    await kube.bind(namespace, "a", uid=written.uid, node="n1")
    stored = decoded(await kube.get(POD, namespace, "a"))

    assert stored["spec"]["nodeName"] == "n1"
    assert stored["metadata"]["uid"] == written.uid
    assert int(stored["metadata"]["resourceVersion"]) > int(written.resource_version)
    conditions = {
        condition["type"]: condition["status"] for condition in stored["status"]["conditions"]
    }
    assert conditions["PodScheduled"] == "True"
    assert stored["status"]["phase"] == "Pending"


async def test_the_answer_to_a_binding_is_a_success_with_code_201(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(POD, namespace, pod("a"), field_manager=ME)
    answer = await kube.transport.exchange(
        "POST",
        object_path(POD, namespace, "a", "binding"),
        body=b'{"metadata":{"name":"a"},"target":{"kind":"Node","name":"n1"}}',
    )
    status = decoded(answer.body)

    assert answer.code == 201
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Success", 201)


async def test_a_pod_is_bound_once(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    await kube.bind(namespace, "a", uid=written.uid, node="n1")
    for node in ("n1", "n2"):
        with pytest.raises(Conflict) as caught:
            await kube.bind(namespace, "a", uid=written.uid, node=node)

        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        assert caught.value.message == (
            'Operation cannot be fulfilled on pods/binding "a": '
            'pod a is already assigned to node "n1"'
        )
    assert decoded(await kube.get(POD, namespace, "a"))["spec"]["nodeName"] == "n1"


async def test_a_binding_for_another_uid_is_refused(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    with pytest.raises(Conflict) as caught:
        await kube.bind(namespace, "a", uid="another", node="n1")

    assert "UID in precondition: another" in caught.value.message
    assert written.uid in caught.value.message
    assert "nodeName" not in decoded(await kube.get(POD, namespace, "a"))["spec"]


async def test_a_missing_pod_can_not_be_bound(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound) as caught:
        await kube.bind(namespace, "nope", uid="any", node="n1")

    assert caught.value.details.name == "nope"


async def test_a_pod_that_is_going_can_not_be_bound(kube: KubeClient, namespace: str) -> None:
    body = pod("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    written = await kube.create(POD, namespace, body, field_manager=ME)
    await kube.delete(POD, namespace, "a")
    with pytest.raises(Conflict) as caught:
        await kube.bind(namespace, "a", uid=written.uid, node="n1")

    assert "pod a is being deleted, cannot be assigned to a host" in caught.value.message


async def test_a_binding_without_a_target_binds_nothing(kube: KubeClient, namespace: str) -> None:
    """kube-apiserver says 500 where it means 422; the code is not worth relying on."""
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    with pytest.raises(ApiError, match=r"target\.name"):
        await kube.bind(namespace, "a", uid=written.uid, node="")

    assert "nodeName" not in decoded(await kube.get(POD, namespace, "a"))["spec"]


async def test_a_gated_pod_can_not_be_bound(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(
        POD, namespace, pod("a", schedulingGates=[{"name": "example.com/wait"}]), field_manager=ME
    )
    with pytest.raises(Conflict) as caught:
        await kube.bind(namespace, "a", uid=written.uid, node="n1")

    assert "schedulingGates" in caught.value.message


async def test_the_gates_of_a_pod_can_be_taken_off_and_then_it_can_be_bound(
    kube: KubeClient, namespace: str
) -> None:
    """As the scheduler asks for it: a merge patch with the pod's uid, harmless the second time."""
    written = await kube.create(
        POD, namespace, pod("a", schedulingGates=[{"name": "example.com/wait"}]), field_manager=ME
    )
    body = b'{"metadata":{"uid":"%s"},"spec":{"schedulingGates":null}}' % written.uid.encode()
    for _ in range(2):
        await kube.patch(POD, namespace, "a", body, patch_type=PatchType.MERGE, field_manager=ME)
    await kube.bind(namespace, "a", uid=written.uid, node="n1")
    found = decoded(await kube.get(POD, namespace, "a"))

    assert found["spec"]["nodeName"] == "n1"
    assert "schedulingGates" not in found["spec"]


async def test_an_evicted_pod_that_was_not_bound_is_gone(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    await kube.evict(namespace, "a", uid=written.uid)

    assert await kube.get_or_none(POD, namespace, "a") is None


async def test_an_evicted_pod_that_was_bound_gets_its_grace(
    kube: KubeClient, namespace: str
) -> None:
    written = await kube.create(POD, namespace, pod("a", node="n1"), field_manager=ME)
    await kube.evict(namespace, "a", uid=written.uid, grace_period_s=7)
    marked = decoded(await kube.get(POD, namespace, "a"))

    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_the_answer_to_an_eviction_is_a_success_with_code_201(
    kube: KubeClient, namespace: str
) -> None:
    await kube.create(POD, namespace, pod("a"), field_manager=ME)
    answer = await kube.transport.exchange(
        "POST",
        object_path(POD, namespace, "a", "eviction"),
        body=b'{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}',
    )
    status = decoded(answer.body)

    assert answer.code == 201
    assert (status["kind"], status["status"]) == ("Status", "Success")


async def test_an_eviction_for_another_uid_is_refused(kube: KubeClient, namespace: str) -> None:
    """Of a running pod: for a pending one kube-apiserver tries for ten seconds first."""
    await kube.create(POD, namespace, pod("a", node="n1"), field_manager=ME)
    await kube.patch(
        POD,
        namespace,
        "a",
        {"status": {"phase": "Running"}},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )
    with pytest.raises(Conflict) as caught:
        await kube.evict(namespace, "a", uid="another")

    assert "the UID in the precondition (another)" in caught.value.message
    stored = decoded(await kube.get(POD, namespace, "a"))
    assert "deletionTimestamp" not in stored["metadata"]


async def test_a_missing_pod_can_not_be_evicted(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound):
        await kube.evict(namespace, "nope", uid="any")


async def test_a_dry_run_evicts_nobody(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)
    await kube.evict(namespace, "a", uid=written.uid, dry_run=True)

    assert await kube.get_or_none(POD, namespace, "a") is not None


async def test_a_disruption_budget_can_stand_in_the_way_of_an_eviction(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    if api_server.kind == "sandbox":
        pytest.skip("the sandbox has no disruption budgets")
    budgets = Resource("policy", "v1", "poddisruptionbudgets", namespaced=True)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    await kube.create(
        budgets,
        namespace,
        named("policy/v1", "PodDisruptionBudget", "budget", spec=spec),
        field_manager=ME,
    )
    written = await kube.create(
        POD, namespace, pod("a", node="n1", labels={"app": "a"}), field_manager=ME
    )
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await kube.patch(
        POD,
        namespace,
        "a",
        {"status": ready},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )
    with pytest.raises(TooManyRequests) as caught:
        await kube.evict(namespace, "a", uid=written.uid)

    assert caught.value.is_disruption_budget
    assert caught.value.retry_after_s == 10


async def test_an_exceeded_quota_is_recognised_in_the_servers_words(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    if api_server.kind == "sandbox":
        pytest.skip("the sandbox has no quotas")
    quotas = Resource("", "v1", "resourcequotas", namespaced=True)
    hard = {"pods": "0", "requests.cpu": "1"}
    await kube.create(
        quotas,
        namespace,
        named("v1", "ResourceQuota", "small", spec={"hard": hard}),
        field_manager=ME,
    )
    # The controller that would count is missing, so the test says what is used.
    await kube.patch(
        quotas,
        namespace,
        "small",
        {"status": {"hard": hard, "used": {"pods": "0", "requests.cpu": "0"}}},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    with pytest.raises(Forbidden) as caught:
        await kube.create(POD, namespace, pod("a", containers=[container]), field_manager=ME)

    quota = caught.value.quota
    assert quota is not None
    assert (quota.quota, quota.requested, quota.used, quota.limited) == (
        "small",
        "pods=1",
        "pods=0",
        "pods=0",
    )
