"""Where an API server gets logs and proxied answers from, and what it says when it can't."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from stromboli.api.kinds import NODE, POD, SERVICE
from stromboli.kube import KubeClient, PatchType
from stromboli.kube.errors import ApiError, BadRequest, Invalid, NotFound
from stromboli.kube.paths import object_path
from stromboli.testkit.certificates import Authority
from stromboli.testkit.https_server import https_server
from stromboli.testkit.manifests import Manifest, named, node, pod, unique

ME = "contract"


async def logs_of(kube: KubeClient, namespace: str, name: str, **options: str) -> str:
    path = object_path(POD, namespace, name, "log")
    answer = await kube.transport.send("GET", path, query=options)
    return answer.body.decode()


def two_containers() -> Manifest:
    container = {"image": "busybox"}
    return pod("two", containers=[{"name": "one", **container}, {"name": "other", **container}])


@asynccontextmanager
async def kubelet(folder: Path, answer: Any) -> AsyncGenerator[int, None]:
    """A kubelet that answers every question in the same way; its port."""
    app = web.Application()
    app.router.add_get("/{tail:.*}", answer)
    keys = Authority(folder / "kubelet").server("kubelet")
    async with https_server(app, keys) as listening:
        yield listening.port


async def bound_pod(kube: KubeClient, namespace: str, port: int) -> str:
    """A pod on a node whose kubelet listens at a port of this machine."""
    name = unique("node")
    await kube.create(NODE, None, node(name), field_manager=ME)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await kube.patch(
        NODE,
        None,
        name,
        {"status": status},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager=ME,
    )
    await kube.create(POD, namespace, pod("a", node=name), field_manager=ME)
    return "a"


async def test_logs_of_a_pod_that_is_not_there(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound) as caught:
        await logs_of(kube, namespace, "nope")

    assert caught.value.message == 'pods "nope" not found'


async def test_a_pod_without_a_node_has_printed_nothing(kube: KubeClient, namespace: str) -> None:
    await kube.create(POD, namespace, pod("a"), field_manager=ME)

    assert await logs_of(kube, namespace, "a") == ""


async def test_which_container_must_be_clear(kube: KubeClient, namespace: str) -> None:
    await kube.create(POD, namespace, two_containers(), field_manager=ME)
    with pytest.raises(BadRequest) as caught:
        await logs_of(kube, namespace, "two")
    assert caught.value.message == (
        "a container name must be specified for pod two, choose one of: [one other]"
    )
    with pytest.raises(BadRequest) as caught:
        await logs_of(kube, namespace, "two", container="third")

    assert caught.value.message == "container third is not valid for pod two"
    assert await logs_of(kube, namespace, "two", container="other") == ""


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tailLines": "-1"}, "tailLines"),
        ({"sinceSeconds": "0"}, "sinceSeconds"),
        ({"limitBytes": "0"}, "limitBytes"),
    ],
    ids=["tail", "since", "limit"],
)
async def test_options_that_make_no_sense_are_refused(
    kube: KubeClient, namespace: str, options: dict[str, str], field: str
) -> None:
    await kube.create(POD, namespace, pod("a"), field_manager=ME)
    with pytest.raises(Invalid) as caught:
        await logs_of(kube, namespace, "a", **options)

    assert [cause.field for cause in caught.value.causes] == [field]


async def test_a_node_that_is_gone_has_no_logs(kube: KubeClient, namespace: str) -> None:
    await kube.create(POD, namespace, pod("a", node="nowhere"), field_manager=ME)
    with pytest.raises(NotFound) as caught:
        await logs_of(kube, namespace, "a")

    assert caught.value.message == 'pods "nowhere" not found'


async def test_logs_come_from_the_kubelet_that_the_node_names(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        return web.Response(text="first\nsecond\n")

    async with kubelet(tmp_path, answer) as port:
        name = await bound_pod(kube, namespace, port)
        options = {"tailLines": "2", "timestamps": "true", "previous": "true"}
        text = await logs_of(kube, namespace, name, **options)

    assert text == "first\nsecond\n"
    path, _, query = asked[0].partition("?")
    assert path == f"/containerLogs/{namespace}/a/main"
    assert sorted(query.split("&")) == ["previous=true", "tailLines=2", "timestamps=true"]


async def test_what_the_kubelet_refuses_is_told_in_its_words(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    told = 'previous terminated container "main" in pod "a" not found'

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=400, text=told)

    async with kubelet(tmp_path, answer) as port:
        name = await bound_pod(kube, namespace, port)
        with pytest.raises(BadRequest) as caught:
            await logs_of(kube, namespace, name, previous="true")

    assert caught.value.message == told


async def test_a_kubelet_that_is_away_is_an_error_that_says_where_it_was_sought(
    kube: KubeClient, namespace: str
) -> None:
    name = await bound_pod(kube, namespace, 1)
    with pytest.raises(ApiError) as caught:
        await logs_of(kube, namespace, name)

    assert caught.value.code == 500
    assert caught.value.message.endswith(
        f'Get "https://127.0.0.1:1/containerLogs/{namespace}/a/main": dial tcp 127.0.0.1:1:'
        " connect: connection refused"
    )


async def test_a_service_without_endpoints_is_unavailable(kube: KubeClient, namespace: str) -> None:
    service = named("v1", "Service", "web", spec={"ports": [{"port": 80}]})
    await kube.create(SERVICE, namespace, service, field_manager=ME)
    endpoints = named("v1", "Endpoints", "web", subsets=[])
    await kube.transport.send(
        "POST",
        f"/api/v1/namespaces/{namespace}/endpoints",
        body=msgspec.json.encode(endpoints),
        content_type="application/json",
    )
    path = f"/api/v1/namespaces/{namespace}/services"
    with pytest.raises(ApiError) as caught:
        await kube.transport.send("GET", f"{path}/web/proxy/")
    assert (caught.value.code, caught.value.reason) == (503, "ServiceUnavailable")
    assert caught.value.message == 'no endpoints available for service "web"'
    with pytest.raises(ApiError) as caught:
        await kube.transport.send("GET", f"{path}/web:81/proxy/")
    assert (caught.value.code, caught.value.reason) == (503, "ServiceUnavailable")
    assert caught.value.message == 'no service port 81 found for service "web"'
    with pytest.raises(NotFound) as caught:
        await kube.transport.send("GET", f"{path}/nope/proxy/")
    assert caught.value.message == 'services "nope" not found'
    with pytest.raises(BadRequest) as caught:
        await kube.transport.send("GET", f"{path}/a:b:c:d/proxy/")
    assert caught.value.message == 'invalid service request "a:b:c:d"'
