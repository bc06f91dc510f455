"""What `kubectl get` shows: Tables of built-in kinds and of custom resources."""

from typing import Any

import pytest
from tests.unit.sandbox.conftest import (
    CONFIG_MAPS,
    DEFINITIONS,
    PODS,
    TABLE,
    WIDGETS,
    Client,
    config_map,
    pod,
    widget,
    widget_definition,
)

from stromboli.sandbox.printing.ages import human_duration
from stromboli.sandbox.printing.jsonpath import json_path

PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def container(name: str = "main", *, ready: bool = False, **state: object) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": 0, "state": state}


async def shown(client: Client, status: dict[str, Any], **spec: Any) -> list[Any]:
    """Ready and Status of a pod that reports this."""
    await client.made(PODS, pod("a", **spec))
    reply = await client.merge(f"{PODS}/a/status", {"status": status})
    assert reply.code == 200, reply.text
    return (await client.table(f"{PODS}/a")).cells[0][1:3]


async def test_a_list_of_pods_is_a_table_with_their_metadata(client: Client) -> None:
    await client.made(PODS, pod("a"))
    await client.made(PODS, pod("b"))
    reply = await client.table(PODS)

    assert reply.headings == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert [cells[:4] for cells in reply.cells] == [
        ["a", "0/1", "Pending", "0"],
        ["b", "0/1", "Pending", "0"],
    ]
    row = reply.body["rows"][0]["object"]
    assert (row["kind"], row["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    assert reply.meta["resourceVersion"]


async def test_a_page_of_a_table_names_the_next(client: Client) -> None:
    for name in ("a", "b"):
        await client.made(CONFIG_MAPS, config_map(name))
    first = await client.table(f"{CONFIG_MAPS}?limit=1")
    second = await client.table(f"{CONFIG_MAPS}?limit=1&continue={first.meta['continue']}")

    assert [first.cells[0][:2], second.cells[0][:2]] == [["a", 1], ["b", 1]]


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Object", "Pod"), ("", "PartialObjectMetadata")]
)
async def test_rows_carry_as_much_of_the_object_as_was_asked(
    client: Client, include: str, kind: str | None
) -> None:
    await client.made(PODS, pod("a"))
    row = (await client.table(f"{PODS}/a?includeObject={include}")).body["rows"][0]

    assert (row["object"] or {}).get("kind") == kind


async def test_an_unknown_part_of_the_object_is_refused(client: Client) -> None:
    reply = await client.table(f"{PODS}?includeObject=Half")

    assert reply.code == 400
    assert "must be 'Metadata', 'Object', 'None', or empty" in reply.message


async def test_errors_stay_errors_for_whoever_wants_tables(client: Client) -> None:
    reply = await client.table(f"{PODS}/nobody")

    assert (reply.code, reply.body["kind"]) == (404, "Status")


async def test_a_form_nobody_knows_is_not_acceptable(client: Client) -> None:
    reply = await client.call("GET", PODS, accept="application/json;as=Poem;v=v1;g=meta.k8s.io")

    assert reply.code == 406


async def test_metadata_alone_can_be_listed(client: Client) -> None:
    await client.made(PODS, pod("a"))
    reply = await client.call("GET", PODS, accept=PARTIAL)

    assert reply.body["kind"] == "PartialObjectMetadataList"
    assert [sorted(item) for item in reply.body["items"]] == [["apiVersion", "kind", "metadata"]]


async def test_a_watch_in_tables_names_its_columns_once(client: Client) -> None:
    await client.made(PODS, pod("a"))
    events = await client.watch(PODS, accept=TABLE)
    first = await events.next()
    await client.made(PODS, pod("b"))
    second = await events.next()

    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"][0] for event in (first, second)] == ["a", "b"]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff"),
        ({"terminated": {"exitCode": 3, "reason": "Error"}}, "Error"),
        ({"terminated": {"exitCode": 3}}, "ExitCode:3"),
        ({"terminated": {"exitCode": 137, "signal": 9}}, "Signal:9"),
        ({"running": {}}, "Running"),
    ],
)
async def test_a_pods_status_is_what_its_container_does(
    client: Client, state: dict[str, Any], told: str
) -> None:
    status = {"phase": "Running", "containerStatuses": [container(**state)]}

    assert await shown(client, status) == ["0/1", told]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"running": {}}, "Init:0/2"),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "Init:ImagePullBackOff"),
        ({"terminated": {"exitCode": 2}}, "Init:ExitCode:2"),
    ],
)
async def test_a_pods_status_is_that_of_the_init_container_it_waits_for(
    client: Client, state: dict[str, Any], told: str
) -> None:
    inits = [{"name": name, "image": "busybox"} for name in ("one", "two")]
    status = {"phase": "Pending", "initContainerStatuses": [container("one", **state)]}

    assert await shown(client, status, initContainers=inits) == ["0/1", told]


async def test_a_pod_that_half_completed_is_not_ready(client: Client) -> None:
    status = {
        "phase": "Running",
        "containerStatuses": [
            container("main", terminated={"exitCode": 0, "reason": "Completed"}),
            container("two", ready=True, running={}),
        ],
    }
    containers = [{"name": name, "image": "busybox"} for name in ("main", "two")]

    assert await shown(client, status, containers=containers) == ["1/2", "NotReady"]


async def test_a_pod_that_is_being_deleted_terminates(client: Client) -> None:
    await client.made(PODS, pod("a", nodeName="n1"))
    await client.delete(f"{PODS}/a")

    assert (await client.table(f"{PODS}/a")).cells[0][2] == "Terminating"


async def test_a_cordoned_node_says_so(client: Client) -> None:
    node = {
        "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
    }
    await client.made("/api/v1/nodes", node)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await client.merge("/api/v1/nodes/n1/status", ready)

    cells = (await client.table("/api/v1/nodes/n1")).cells[0]
    assert cells[:3] == ["n1", "Ready,SchedulingDisabled", "worker"]


async def test_an_object_that_no_printer_expects_is_shown_by_its_name(client: Client) -> None:
    """Workloads are hardly checked here: one strange object must not hide the others."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    strange = {"metadata": {"name": "odd"}, "spec": {"template": {"spec": {"containers": [1]}}}}
    await client.made(path, strange)

    assert (await client.table(path)).cells[0][:2] == ["odd", None]


def with_columns(*columns: dict[str, Any]) -> dict[str, Any]:
    definition = widget_definition()
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = list(columns)
    return definition


async def test_a_custom_resource_has_the_columns_of_its_definition(client: Client) -> None:
    definition = with_columns(
        {"name": "SIZE", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    )
    await client.made(DEFINITIONS, definition)
    await client.made(WIDGETS, widget("w"))
    reply = await client.table(WIDGETS)

    assert reply.headings == ["Name", "SIZE", "Phase", "Since"]
    assert reply.cells[0][:4] == ["w", 1, "a", None]
    assert reply.cells[0][4].endswith("s")


async def test_a_custom_resource_without_columns_shows_its_age(widgets: Client) -> None:
    await widgets.made(WIDGETS, widget("w"))
    reply = await widgets.table(WIDGETS)

    assert reply.headings == ["Name", "Age"]
    assert reply.cells[0][0] == "w"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ("{.a.b}", [1]),
        (".list[0].name", ["x"]),
        (".list[-1].name", ["y"]),
        (".list[*].name", ["x", "y"]),
        ('.list[?(@.name=="y")].value', [2]),
        (".list[?(@.name!='y')].value", [1]),
        (r".keys.dotted\.key", ["v"]),
        (".keys['dotted.key']", ["v"]),
        (".missing.deep", []),
        (".list[9]", []),
        (".a.b.c", []),
        (".a[", []),
        (".a[?(@.b>1)]", []),
    ],
)
def test_a_json_path_finds(path: str, found: list[Any]) -> None:
    value = {
        "a": {"b": 1},
        "list": [{"name": "x", "value": 1}, {"name": "y", "value": 2}],
        "keys": {"dotted.key": "v"},
    }

    assert json_path(path)(value) == found


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (660, "11m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 120, "5h2m"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (30 * 86400, "30d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_an_age_is_told_as_people_know_it(seconds: int, told: str) -> None:
    assert human_duration(seconds) == told
