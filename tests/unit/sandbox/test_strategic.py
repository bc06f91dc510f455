"""Strategic merge: lists of built-in kinds are merged by their keys."""

import json
from typing import Any

import pytest
from tests.unit.sandbox.conftest import PODS, WIDGETS, Client, pod, widget

from stromboli.sandbox.patches import PatchFailed, PatchUnreadable
from stromboli.sandbox.shapes.shape import ANY, built_in_shape
from stromboli.sandbox.strategic import strategic_merge

STRATEGIC = "application/strategic-merge-patch+json"
POD = built_in_shape("Pod") or ANY
DEPLOYMENT = built_in_shape("Deployment") or ANY


def merged(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    return strategic_merge(json.dumps(patch).encode(), document, POD)


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": "old"} for name in names]}}


def test_containers_are_merged_by_name() -> None:
    patch = {"spec": {"containers": [{"name": "b", "image": "new"}, {"name": "c"}]}}

    assert merged(containers("a", "b"), patch)["spec"]["containers"] == [
        {"name": "a", "image": "old"},
        {"name": "b", "image": "new"},
        {"name": "c"},
    ]


def test_an_item_is_deleted_by_its_key() -> None:
    patch = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}

    assert merged(containers("a", "b"), patch) == containers("b")


def test_a_list_is_replaced_on_demand() -> None:
    patch = {"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}

    assert merged(containers("a", "b"), patch) == {"spec": {"containers": [{"name": "z"}]}}


def test_a_list_without_a_key_is_replaced() -> None:
    document = {"spec": {"tolerations": [{"key": "a"}]}}

    assert merged(document, {"spec": {"tolerations": [{"key": "b"}]}}) == {
        "spec": {"tolerations": [{"key": "b"}]}
    }


def test_a_list_of_words_is_a_set_where_its_type_says_so() -> None:
    document = {"metadata": {"finalizers": ["a/a", "b/b"]}}
    patch = {
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"], "finalizers": ["b/b", "c/c"]}
    }

    assert merged(document, patch) == {"metadata": {"finalizers": ["b/b", "c/c"]}}


def test_null_removes_and_a_map_can_be_replaced_or_deleted() -> None:
    document = {"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}}}
    assert merged(document, {"metadata": {"labels": {"a": None}, "annotations": None}}) == {
        "metadata": {"labels": {"b": "2"}}
    }

    replaced = {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}
    assert merged(document, replaced)["metadata"]["labels"] == {"c": "3"}
    deleted = {"metadata": {"labels": {"$patch": "delete"}}}
    assert "labels" not in merged(document, deleted)["metadata"]


def test_the_order_of_items_follows_the_patch_and_others_stay_where_they_were() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "c", "image": "new"}],
        }
    }
    result = merged(containers("a", "injected", "c"), patch)

    assert [one["name"] for one in result["spec"]["containers"]] == ["c", "a", "injected"]
    assert "$setElementOrder/containers" not in result["spec"]


def test_only_retained_keys_of_a_union_stay() -> None:
    document = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}

    assert strategic_merge(json.dumps(patch).encode(), document, DEPLOYMENT) == {
        "spec": {"strategy": {"type": "Recreate"}}
    }


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"image": "nameless"}]}},
        {"spec": {"containers": ["text"]}},
        {"spec": {"$patch": "explode"}},
        {"metadata": {"$setElementOrder/finalizers": "a", "finalizers": ["a"]}},
    ],
)
def test_a_patch_that_does_not_fit_fails(patch: Any) -> None:
    with pytest.raises(PatchFailed):
        merged(containers("a"), patch)


def test_a_patch_that_is_no_object_cannot_be_read() -> None:
    with pytest.raises(PatchUnreadable):
        merged({}, [1])


async def test_an_image_is_changed_by_the_name_of_its_container(client: Client) -> None:
    await client.made(PODS, pod("a"))
    patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    reply = await client.call("PATCH", f"{PODS}/a", patch, content_type=STRATEGIC)

    assert reply.code == 200, reply.text
    assert reply.body["spec"]["containers"][0]["image"] == "busybox:2"


async def test_custom_resources_are_not_patched_strategically(widgets: Client) -> None:
    await widgets.made(WIDGETS, widget("w"))
    reply = await widgets.call("PATCH", f"{WIDGETS}/w", {}, content_type=STRATEGIC)

    assert reply.code == 415
    assert "strategic" not in reply.message
