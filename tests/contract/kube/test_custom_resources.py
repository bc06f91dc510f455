"""Our own kinds, as their CRDs make an API server treat them."""

import pytest

from stromboli.api.kinds import COMMAND, QUEUE, VC_JOB, VC_POD_GROUP
from stromboli.kube import KubeClient, PatchType
from stromboli.kube.errors import BadRequest, Invalid
from stromboli.kube.paths import ResourceKind
from stromboli.testkit.manifests import (
    Manifest,
    decoded,
    named,
    pod_group,
    queue,
    unique,
    vc_job,
)

ME = "contract"


async def create(
    kube: KubeClient, kind: ResourceKind, namespace: str | None, body: Manifest
) -> Manifest:
    return decoded((await kube.create(kind, namespace, body, field_manager=ME)).raw)


async def merge(
    kube: KubeClient,
    kind: ResourceKind,
    namespace: str | None,
    name: str,
    body: Manifest,
    *,
    subresource: str = "",
) -> Manifest:
    written = await kube.patch(
        kind,
        namespace,
        name,
        body,
        patch_type=PatchType.MERGE,
        subresource=subresource,
        field_manager=ME,
    )
    return decoded(written.raw)


async def test_defaults_are_filled_in(kube: KubeClient, namespace: str) -> None:
    made_queue = await create(kube, QUEUE, None, queue(unique("q")))
    made_job = await create(kube, VC_JOB, namespace, vc_job("j"))
    made_group = await create(kube, VC_POD_GROUP, namespace, pod_group("g", networkTopology={}))

    assert made_queue["spec"]["weight"] == 1
    assert made_queue["spec"]["dequeueStrategy"] == "traverse"
    assert made_job["spec"]["queue"] == "default"
    assert made_job["spec"]["maxRetry"] == 3
    assert made_group["spec"]["queue"] == "default"
    assert made_group["spec"]["networkTopology"] == {"mode": "hard"}


async def test_a_default_needs_its_parent(kube: KubeClient) -> None:
    name = unique("q")
    made = await create(kube, QUEUE, None, named("scheduling.volcano.sh/v1beta1", "Queue", name))

    assert "spec" not in made


async def test_a_given_value_is_kept_over_the_default(kube: KubeClient) -> None:
    made = await create(kube, QUEUE, None, queue(unique("q"), weight=7, dequeueStrategy="fifo"))

    assert (made["spec"]["weight"], made["spec"]["dequeueStrategy"]) == (7, "fifo")


async def test_defaults_are_filled_in_after_a_patch_that_removed_them(kube: KubeClient) -> None:
    name = unique("q")
    await create(kube, QUEUE, None, queue(name, weight=7))
    after = await merge(kube, QUEUE, None, name, {"spec": {"weight": None}})

    assert after["spec"]["weight"] == 1


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"weight": 0}, "spec.weight", "FieldValueInvalid"),
        ({"weight": 65536}, "spec.weight", "FieldValueInvalid"),
        ({"weight": "many"}, "spec.weight", "FieldValueTypeInvalid"),
        ({"weight": 1.5}, "spec.weight", "FieldValueTypeInvalid"),
        ({"dequeueStrategy": "lifo"}, "spec.dequeueStrategy", "FieldValueNotSupported"),
        ({"parent": "Not A Name"}, "spec.parent", "FieldValueInvalid"),
        ({"parent": "a" * 254}, "spec.parent", "FieldValueTooLong"),
        ({"capability": {"cpu": "lots"}}, "spec.capability.cpu", "FieldValueInvalid"),
        ({"capability": {"cpu": True}}, "spec.capability.cpu", "FieldValueTypeInvalid"),
        ({"reclaimable": "yes"}, "spec.reclaimable", "FieldValueTypeInvalid"),
        ({"extendClusters": {}}, "spec.extendClusters", "FieldValueTypeInvalid"),
    ],
    ids=str,
)
async def test_what_the_schema_forbids_is_refused_by_field(
    kube: KubeClient, spec: Manifest, field: str, reason: str
) -> None:
    name = unique("q")
    with pytest.raises(Invalid) as caught:
        await create(kube, QUEUE, None, queue(name, **spec))

    found = [(cause.field, cause.reason) for cause in caught.value.causes]
    assert (field, reason) in found
    assert caught.value.message.startswith(f'Queue.scheduling.volcano.sh "{name}" is invalid: ')
    assert caught.value.details.group == "scheduling.volcano.sh"
    assert caught.value.details.kind == "Queue"


async def test_every_wrong_field_has_its_cause(kube: KubeClient) -> None:
    with pytest.raises(Invalid) as caught:
        await create(kube, QUEUE, None, queue(unique("q"), weight=0, dequeueStrategy="lifo"))

    fields = {cause.field for cause in caught.value.causes}
    assert {"spec.weight", "spec.dequeueStrategy"} <= fields


async def test_what_is_required_must_be_there(kube: KubeClient, namespace: str) -> None:
    body = named("bus.volcano.sh/v1alpha1", "Command", "c", target={"kind": "Job", "name": "j"})
    with pytest.raises(Invalid) as caught:
        await create(kube, COMMAND, namespace, body)

    found = {cause.field: cause.reason for cause in caught.value.causes}
    assert found["target.uid"] == "FieldValueRequired"
    assert found["target.apiVersion"] == "FieldValueRequired"


async def test_lists_have_bounds_and_items_are_checked(kube: KubeClient, namespace: str) -> None:
    task = vc_job("x")["spec"]["tasks"][0]
    for tasks, field in (
        ([], "spec.tasks"),
        ([task | {"name": "Not-OK"}], "spec.tasks[0].name"),
        ([task, task | {"replicas": -1}], "spec.tasks[1].replicas"),
    ):
        with pytest.raises(Invalid) as caught:
            await create(kube, VC_JOB, namespace, vc_job("j", tasks=tasks))

        assert field in {cause.field for cause in caught.value.causes}


@pytest.mark.parametrize("quantity", ["100m", "1Gi", 4, "1e3", "0.5", "-1", 0])
async def test_quantities_may_be_numbers_or_text_and_are_kept_as_given(
    kube: KubeClient, quantity: str | int
) -> None:
    made = await create(kube, QUEUE, None, queue(unique("q"), capability={"cpu": quantity}))

    assert made["spec"]["capability"]["cpu"] == quantity


async def test_unknown_fields_are_pruned(kube: KubeClient, namespace: str) -> None:
    name = unique("q")
    body = queue(name, colour="red", guarantee={"shape": "round"}) | {"extra": 1}
    made = await create(kube, QUEUE, None, body)

    assert "extra" not in made
    assert "colour" not in made["spec"]
    assert made["spec"]["guarantee"] == {}
    patched = await merge(kube, QUEUE, None, name, {"spec": {"colour": "blue", "weight": 2}})
    assert "colour" not in patched["spec"]
    assert patched["spec"]["weight"] == 2


async def test_what_the_schema_leaves_open_is_kept_whole(kube: KubeClient, namespace: str) -> None:
    """A task's pod template is not described field by field."""
    body = vc_job("j")
    spec = body["spec"]["tasks"][0]["template"]["spec"]
    spec["anything"] = {"deep": [1, {"x": None, "y": "z"}]}
    made = await create(kube, VC_JOB, namespace, body)

    kept = made["spec"]["tasks"][0]["template"]["spec"]
    assert kept["anything"]["deep"][0] == 1
    assert kept["anything"]["deep"][1]["y"] == "z"
    assert kept["containers"] == spec["containers"]


async def test_a_null_is_as_good_as_absent_where_there_is_a_default(kube: KubeClient) -> None:
    made = await create(kube, QUEUE, None, queue(unique("q"), weight=None))

    assert made["spec"]["weight"] == 1


async def test_the_generation_counts_changes_of_the_wish(kube: KubeClient) -> None:
    name = unique("q")
    made = await create(kube, QUEUE, None, queue(name))
    labelled = await merge(kube, QUEUE, None, name, {"metadata": {"labels": {"x": "1"}}})
    told = await merge(kube, QUEUE, None, name, {"status": {"state": "Open"}}, subresource="status")
    changed = await merge(kube, QUEUE, None, name, {"spec": {"weight": 2}})

    generations = [each["metadata"]["generation"] for each in (made, labelled, told, changed)]
    assert generations == [1, 1, 1, 2]


async def test_without_a_status_subresource_every_change_counts(
    kube: KubeClient, namespace: str
) -> None:
    """A PodGroup's status is an ordinary field, as Volcano's clients expect."""
    await create(kube, VC_POD_GROUP, namespace, pod_group("g"))
    after = await merge(kube, VC_POD_GROUP, namespace, "g", {"status": {"phase": "Inqueue"}})

    assert after["status"] == {"phase": "Inqueue"}
    assert after["metadata"]["generation"] == 2


async def test_a_pod_groups_status_is_kept_at_creation(kube: KubeClient, namespace: str) -> None:
    body = pod_group("g") | {"status": {"phase": "Pending", "running": 0}}
    made = await create(kube, VC_POD_GROUP, namespace, body)

    assert made["status"] == {"phase": "Pending", "running": 0}


async def test_a_queues_status_changes_only_through_its_subresource(kube: KubeClient) -> None:
    name = unique("q")
    await create(kube, QUEUE, None, queue(name))
    plain = await merge(
        kube, QUEUE, None, name, {"spec": {"weight": 3}, "status": {"state": "Closed"}}
    )
    assert "status" not in plain
    assert plain["spec"]["weight"] == 3

    told = await merge(
        kube,
        QUEUE,
        None,
        name,
        {"spec": {"weight": 9}, "status": {"state": "Closed", "running": 2}},
        subresource="status",
    )
    assert told["status"] == {"state": "Closed", "running": 2}
    assert told["spec"]["weight"] == 3


async def test_a_status_must_fit_the_schema_too(kube: KubeClient) -> None:
    name = unique("q")
    await create(kube, QUEUE, None, queue(name))
    with pytest.raises(Invalid) as caught:
        await merge(kube, QUEUE, None, name, {"status": {"running": -1}}, subresource="status")

    assert "status.running" in {cause.field for cause in caught.value.causes}


async def test_a_custom_body_must_name_its_kind(kube: KubeClient) -> None:
    """Built-in kinds are known from the path; for custom ones the body has to say it."""
    with pytest.raises(BadRequest):
        await create(kube, QUEUE, None, {"metadata": {"name": unique("q")}, "spec": {}})


async def test_a_custom_body_of_another_version_is_refused(kube: KubeClient) -> None:
    body = queue(unique("q")) | {"apiVersion": "scheduling.volcano.sh/v1"}
    with pytest.raises(BadRequest):
        await create(kube, QUEUE, None, body)
