"""The client libraries people use have to be happy with the server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client as kube
from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio import dynamic, watch
from tests.unit.sandbox.conftest import DEADLINE_S, pod, widget, widget_definition

from stromboli.sandbox import SandboxConfig, SandboxServer


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[kube.ApiClient]:
    kubeconfig = tmp_path / "kubeconfig"
    config = SandboxConfig(data_dir=tmp_path / "data", kubeconfig_out=kubeconfig)
    async with SandboxServer(config):
        settings = kube.Configuration()
        await kube_config.load_kube_config(str(kubeconfig), client_configuration=settings)
        async with kube.ApiClient(settings) as connected:
            yield connected


async def test_the_typed_client_creates_binds_lists_and_deletes(api: kube.ApiClient) -> None:
    core: Any = kube.CoreV1Api(api)
    created = await core.create_namespaced_pod("default", pod("a"))
    target = kube.V1ObjectReference(kind="Node", name="n1")
    body = kube.V1Binding(metadata=kube.V1ObjectMeta(name="a"), target=target)
    await core.create_namespaced_pod_binding("a", "default", body, _preload_content=False)

    listed = await core.list_namespaced_pod("default", field_selector="spec.nodeName=n1")
    await core.delete_namespaced_pod("a", "default", grace_period_seconds=0)

    assert created.metadata.uid == listed.items[0].metadata.uid
    assert (await core.list_namespaced_pod("default")).items == []


async def test_the_typed_clients_watch_delivers(api: kube.ApiClient) -> None:
    core: Any = kube.CoreV1Api(api)
    await core.create_namespaced_pod("default", pod("a"))

    async with (
        asyncio.timeout(DEADLINE_S),
        watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=5) as stream,
    ):
        async for event in stream:
            assert (event["type"], event["object"].metadata.name) == ("ADDED", "a")
            break


async def test_the_dynamic_client_finds_custom_resources(api: kube.ApiClient) -> None:
    extensions: Any = kube.ApiextensionsV1Api(api)
    await extensions.create_custom_resource_definition(widget_definition())
    client: Any = await dynamic.DynamicClient(api)

    widgets = await client.resources.get(api_version="demo.io/v1", kind="Widget")
    await widgets.create(body=widget("w"), namespace="default")
    patched = await widgets.patch(
        body={"spec": {"size": 4}},
        name="w",
        namespace="default",
        content_type="application/merge-patch+json",
    )

    assert patched.spec.size == 4
