"""Lists: paged, selected, as of one resourceVersion."""

import asyncio

import pytest

from stromboli.api.kinds import CONFIG_MAP, POD, QUEUE, VC_POD_GROUP
from stromboli.kube import KubeClient, Limits, Page, PatchType
from stromboli.kube.errors import BadRequest, TooLarge
from stromboli.kube.paths import ResourceKind, resource_path
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.manifests import (
    Manifest,
    config_map,
    decoded,
    pod,
    pod_group,
    queue,
    unique,
)

ME = "contract"


async def names(
    kube: KubeClient,
    kind: ResourceKind,
    namespace: str | None,
    *,
    label_selector: str | None = None,
    field_selector: str | None = None,
) -> list[str]:
    pages = kube.list_pages(
        kind, namespace=namespace, label_selector=label_selector, field_selector=field_selector
    )
    return [decoded(item)["metadata"]["name"] async for page in pages for item in page.items]


async def create_many(kube: KubeClient, namespace: str, count: int) -> list[str]:
    wanted = [f"item-{number:03}" for number in range(count)]
    async with asyncio.TaskGroup() as group:
        for name in wanted:
            group.create_task(
                kube.create(CONFIG_MAP, namespace, config_map(name), field_manager=ME)
            )
    return wanted


async def test_an_empty_list_has_a_resource_version(kube: KubeClient, namespace: str) -> None:
    pages = [page async for page in kube.list_pages(VC_POD_GROUP, namespace=namespace)]

    assert len(pages) == 1
    assert pages[0].items == []
    assert int(pages[0].resource_version) > 0
    assert pages[0].continue_token == ""


async def test_pages_make_up_the_whole_list_in_the_order_of_names(
    kube: KubeClient, namespace: str
) -> None:
    wanted = await create_many(kube, namespace, 25)
    pages: list[Page] = [
        page async for page in kube.list_pages(CONFIG_MAP, namespace=namespace, limit=10)
    ]

    assert [len(page.items) for page in pages] == [10, 10, 5]
    assert [page.remaining for page in pages] == [15, 5, None]
    listed = [decoded(item)["metadata"]["name"] for page in pages for item in page.items]
    assert listed == wanted


async def test_all_pages_show_the_state_at_the_first_of_them(
    kube: KubeClient, namespace: str
) -> None:
    wanted = await create_many(kube, namespace, 6)
    pages = kube.list_pages(CONFIG_MAP, namespace=namespace, limit=2)
    first = await anext(pages)
    await kube.delete(CONFIG_MAP, namespace, "item-003")
    await kube.create(CONFIG_MAP, namespace, config_map("item-004a"), field_manager=ME)
    await kube.patch(
        CONFIG_MAP,
        namespace,
        "item-005",
        {"data": {"later": "yes"}},
        patch_type=PatchType.MERGE,
        field_manager=ME,
    )
    rest = [page async for page in pages]
    items = [decoded(item) for page in (first, *rest) for item in page.items]

    assert [item["metadata"]["name"] for item in items] == wanted
    assert items[-1].get("data", {}) == {}
    assert {page.resource_version for page in rest} == {first.resource_version}


async def test_the_lists_version_covers_every_write_before_it(
    kube: KubeClient, namespace: str
) -> None:
    written = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    page = await anext(kube.list_pages(CONFIG_MAP, namespace=namespace))

    assert int(page.resource_version) >= int(written.resource_version)
    assert [decoded(item)["metadata"]["name"] for item in page.items] == ["a"]


async def test_items_carry_their_own_versions(kube: KubeClient, namespace: str) -> None:
    one = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    two = await kube.create(CONFIG_MAP, namespace, config_map("b"), field_manager=ME)
    page = await anext(kube.list_pages(CONFIG_MAP, namespace=namespace))

    versions = [decoded(item)["metadata"]["resourceVersion"] for item in page.items]
    assert versions == [one.resource_version, two.resource_version]
    assert int(one.resource_version) < int(two.resource_version)


async def test_a_list_says_what_it_is(kube: KubeClient, namespace: str) -> None:
    for kind, api_version, name in (
        (CONFIG_MAP, "v1", "ConfigMapList"),
        (VC_POD_GROUP, "scheduling.volcano.sh/v1beta1", "PodGroupList"),
    ):
        answer = await kube.transport.exchange("GET", resource_path(kind, namespace))
        listed = decoded(answer.body)

        assert answer.code == 200
        assert answer.headers["Content-Type"].startswith("application/json")
        assert (listed["apiVersion"], listed["kind"]) == (api_version, name)
        assert listed["items"] == []


async def test_a_list_over_all_namespaces_is_sorted_by_namespace_and_name(
    kube: KubeClient, namespace: str
) -> None:
    label = unique("all")
    await kube.create(
        CONFIG_MAP, namespace, config_map("b", labels={"all": label}), field_manager=ME
    )
    await kube.create(
        CONFIG_MAP, namespace, config_map("a", labels={"all": label}), field_manager=ME
    )
    other = config_map(unique("z"), labels={"all": label})
    await kube.create(CONFIG_MAP, "default", other, field_manager=ME)

    listed = await names(kube, CONFIG_MAP, None, label_selector=f"all={label}")
    assert listed == [other["metadata"]["name"], "a", "b"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=web", ["a", "b"]),
        ("tier==web,zone=1", ["a"]),
        ("tier!=web", ["c", "d"]),
        ("zone in (1,2)", ["a", "b"]),
        ("zone notin (1)", ["b", "c", "d"]),
        ("zone", ["a", "b", "c"]),
        ("!zone", ["d"]),
        ("tier in (web),!missing", ["a", "b"]),
        ("empty=", ["d"]),
        ("example.com/team=x", ["c"]),
        ("zone>1", ["b", "c"]),
        ("zone<3", ["a", "b"]),
        ("tier=none", []),
    ],
)
async def test_label_selectors(
    kube: KubeClient, namespace: str, selector: str, expected: list[str]
) -> None:
    labelled = {
        "a": {"tier": "web", "zone": "1"},
        "b": {"tier": "web", "zone": "2"},
        "c": {"tier": "db", "zone": "3", "example.com/team": "x"},
        "d": {"empty": ""},
    }
    for name, labels in labelled.items():
        body = config_map(name, labels=labels)
        await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)

    assert await names(kube, CONFIG_MAP, namespace, label_selector=selector) == expected


@pytest.mark.parametrize("selector", ["a==b==c", "a in", "in (", "a in (x", "=", "a b"])
async def test_a_label_selector_that_can_not_be_read_is_refused(
    kube: KubeClient, namespace: str, selector: str
) -> None:
    with pytest.raises(BadRequest):
        await names(kube, CONFIG_MAP, namespace, label_selector=selector)


async def test_a_selector_applies_to_all_pages(kube: KubeClient, namespace: str) -> None:
    for number in range(12):
        body = config_map(f"item-{number:02}", labels={"odd": str(number % 2)})
        await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)
    pages = [
        page
        async for page in kube.list_pages(
            CONFIG_MAP, namespace=namespace, label_selector="odd=1", limit=4
        )
    ]

    listed = [decoded(item)["metadata"]["name"] for page in pages for item in page.items]
    assert listed == [f"item-{number:02}" for number in (1, 3, 5, 7, 9, 11)]
    assert [len(page.items) for page in pages] == [4, 2]


async def test_objects_are_selected_by_name(kube: KubeClient, namespace: str) -> None:
    await create_many(kube, namespace, 3)
    group = await kube.create(VC_POD_GROUP, namespace, pod_group("g"), field_manager=ME)
    await kube.create(VC_POD_GROUP, namespace, pod_group("h"), field_manager=ME)

    assert await names(kube, CONFIG_MAP, namespace, field_selector="metadata.name=item-001") == [
        "item-001"
    ]
    assert await names(
        kube, VC_POD_GROUP, None, field_selector=f"metadata.name=g,metadata.namespace={namespace}"
    ) == [group.name]
    assert await names(kube, CONFIG_MAP, namespace, field_selector="metadata.name!=item-001") == [
        "item-000",
        "item-002",
    ]


async def test_pods_are_selected_by_node_and_phase(kube: KubeClient, namespace: str) -> None:
    await kube.create(POD, namespace, pod("free"), field_manager=ME)
    await kube.create(POD, namespace, pod("placed", node="n1"), field_manager=ME)
    await kube.create(POD, namespace, pod("done", node="n2"), field_manager=ME)
    await kube.patch(
        POD,
        namespace,
        "done",
        {"status": {"phase": "Succeeded"}},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )

    async def selected(selector: str) -> list[str]:
        return await names(kube, POD, namespace, field_selector=selector)

    assert await selected("spec.nodeName=n1") == ["placed"]
    assert await selected("spec.nodeName=") == ["free"]
    assert await selected("spec.nodeName!=") == ["done", "placed"]
    assert await selected("status.phase!=Succeeded,status.phase!=Failed") == ["free", "placed"]
    assert await selected("status.phase=Succeeded") == ["done"]
    assert await selected("spec.schedulerName=default-scheduler") == ["done", "free", "placed"]
    assert await selected("spec.restartPolicy=Never") == []


@pytest.mark.parametrize("selector", ["spec.colour=red", "nonsense", "spec.nodeName~n1"])
async def test_a_field_selector_that_can_not_be_used_is_refused(
    kube: KubeClient, namespace: str, selector: str
) -> None:
    with pytest.raises(BadRequest):
        await names(kube, POD, namespace, field_selector=selector)


async def test_a_continue_token_that_was_made_up_is_refused(
    kube: KubeClient, namespace: str
) -> None:
    answer = await kube.transport.exchange(
        "GET", resource_path(CONFIG_MAP, namespace), query={"limit": "1", "continue": "nonsense"}
    )

    assert answer.code == 400
    assert decoded(answer.body)["reason"] == "BadRequest"


async def test_a_list_as_of_any_version_the_server_has_is_answered(
    kube: KubeClient, namespace: str
) -> None:
    """resourceVersion=0 is what informers ask for first."""
    await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)
    page = await anext(kube.list_pages(CONFIG_MAP, namespace=namespace))
    for query in (
        {"resourceVersion": "0"},
        {"resourceVersion": page.resource_version},
        {"resourceVersion": page.resource_version, "resourceVersionMatch": "NotOlderThan"},
    ):
        answer = await kube.transport.exchange(
            "GET", resource_path(CONFIG_MAP, namespace), query=query
        )

        assert answer.code == 200
        listed = decoded(answer.body)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
        assert int(listed["metadata"]["resourceVersion"]) >= int(page.resource_version)


async def test_a_list_larger_than_the_limit_is_refused_by_the_client(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    await kube.create(CONFIG_MAP, namespace, config_map("a", {"k": "x" * 20_000}), field_manager=ME)
    access = api_server.access(limits=Limits(max_page_bytes=10_000))
    async with KubeClient.connect(access) as careful:
        with pytest.raises(TooLarge, match="max_page_bytes"):
            await names(careful, CONFIG_MAP, namespace)
        # The connection with the unread rest is gone; the next call has its own.
        assert (await careful.server_version()).major == "1"


async def delete_collection(
    kube: KubeClient, kind: ResourceKind, namespace: str | None, query: dict[str, str]
) -> Manifest:
    answer = await kube.transport.exchange("DELETE", resource_path(kind, namespace), query=query)
    assert answer.code == 200, answer.body
    return decoded(answer.body)


async def test_a_selection_can_be_deleted_at_once(kube: KubeClient, namespace: str) -> None:
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        await kube.create(
            CONFIG_MAP, namespace, config_map(name, labels={"colour": colour}), field_manager=ME
        )
    await delete_collection(kube, CONFIG_MAP, namespace, {"labelSelector": "colour=red"})

    assert await names(kube, CONFIG_MAP, namespace) == ["c"]


async def test_custom_objects_can_be_deleted_at_once(kube: KubeClient, namespace: str) -> None:
    for name in ("a", "b"):
        await kube.create(VC_POD_GROUP, namespace, pod_group(name), field_manager=ME)
    await delete_collection(kube, VC_POD_GROUP, namespace, {"fieldSelector": "metadata.name=a"})
    assert await names(kube, VC_POD_GROUP, namespace) == ["b"]

    await delete_collection(kube, VC_POD_GROUP, namespace, {})
    assert await names(kube, VC_POD_GROUP, namespace) == []


async def test_discovery_lists_what_is_served(kube: KubeClient) -> None:
    for kind in (CONFIG_MAP, POD, VC_POD_GROUP, QUEUE):
        assert await kube.serves(kind)

    answer = await kube.transport.send("GET", "/apis/scheduling.volcano.sh/v1beta1")
    found = decoded(answer.body)
    by_name = {resource["name"]: resource for resource in found["resources"]}
    assert found["kind"] == "APIResourceList"
    assert found["groupVersion"] == "scheduling.volcano.sh/v1beta1"
    assert by_name["queues"]["namespaced"] is False
    assert by_name["queues"]["kind"] == "Queue"
    assert "q" in by_name["queues"]["shortNames"]
    assert {"get", "list", "watch", "create", "patch", "delete"} <= set(by_name["queues"]["verbs"])
    assert "queues/status" in by_name
    assert by_name["podgroups"]["namespaced"] is True
    assert "podgroups/status" not in by_name


async def test_discovery_of_the_core_names_the_subresources_of_pods(kube: KubeClient) -> None:
    found = decoded((await kube.transport.send("GET", "/api/v1")).body)
    by_name = {resource["name"]: resource for resource in found["resources"]}

    assert {"pods", "pods/status", "pods/binding", "pods/eviction", "nodes", "namespaces"} <= set(
        by_name
    )
    assert by_name["pods/eviction"]["kind"] == "Eviction"
    assert by_name["pods"]["shortNames"] == ["po"]


async def test_discovery_lists_the_groups(kube: KubeClient) -> None:
    found = decoded((await kube.transport.send("GET", "/apis")).body)
    groups = {group["name"]: group for group in found["groups"]}

    assert found["kind"] == "APIGroupList"
    assert {"scheduling.volcano.sh", "batch.volcano.sh", "scheduling.k8s.io"} <= set(groups)
    preferred = groups["scheduling.volcano.sh"]["preferredVersion"]
    assert preferred == {"groupVersion": "scheduling.volcano.sh/v1beta1", "version": "v1beta1"}


async def test_the_server_says_its_version(kube: KubeClient) -> None:
    version = await kube.server_version()

    assert version.major == "1"
    assert version.git_version.startswith("v1.")


async def test_a_queue_of_that_name_is_found_among_others(kube: KubeClient) -> None:
    name = unique("queue")
    await kube.create(QUEUE, None, queue(name), field_manager=ME)
    await kube.create(QUEUE, None, queue(unique("queue")), field_manager=ME)

    assert await names(kube, QUEUE, None, field_selector=f"metadata.name={name}") == [name]


async def test_health_can_be_asked_for(kube: KubeClient) -> None:
    for path in ("/readyz", "/livez", "/healthz"):
        answer = await kube.transport.exchange("GET", path)

        assert (answer.code, answer.body) == (200, b"ok")
