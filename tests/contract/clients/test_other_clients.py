"""Clients that are not ours: what people and operators use on an API server."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import cast

import pytest
import yaml
from kubernetes_asyncio import client, config, watch

from stromboli.api.kinds import POD, VC_POD_GROUP
from stromboli.kube import KubeClient, PatchType
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.kube_apiserver import cache_folder
from stromboli.testkit.manifests import pod, pod_group, queue, unique


async def kubectl(server: ApiServer, home: Path, *arguments: str) -> str:
    """What it printed; a failure is the test's."""
    search = os.pathsep.join([str(cache_folder()), os.environ.get("PATH", "")])
    binary = shutil.which("kubectl", path=search)
    if binary is None:
        pytest.skip("kubectl is not installed; `make e2e-assets` builds one")
    process = await asyncio.create_subprocess_exec(
        binary,
        "--kubeconfig",
        str(server.kubeconfig),
        "--request-timeout=10s",
        *arguments,
        env={"HOME": str(home), "PATH": os.environ.get("PATH", "")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {err.decode()}"
    return out.decode()


async def test_kubectl_creates_shows_changes_and_deletes(
    api_server: ApiServer, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    manifest = tmp_path / "objects.yaml"
    name = unique("q")
    bodies = [queue(name), pod("a"), pod_group("g", minMember=3)]
    manifest.write_text(yaml.safe_dump_all(bodies))

    async def run(*arguments: str) -> str:
        return await kubectl(api_server, tmp_path, "-n", namespace, *arguments)

    created = await run("create", "--validate=false", "-f", str(manifest))
    assert created.splitlines() == [
        f"queue.scheduling.volcano.sh/{name} created",
        "pod/a created",
        "podgroup.scheduling.volcano.sh/g created",
    ]

    assert (await run("get", "pg", "-o", "name")) == "podgroup.scheduling.volcano.sh/g\n"
    assert (await run("get", "q", name, "-o", "jsonpath={.spec.weight}")) == "1"
    await run("label", "pod", "a", "colour=red")
    assert (await run("get", "pods", "-l", "colour=red", "-o", "name")) == "pod/a\n"
    await run("patch", "queue", name, "--type=merge", "-p", '{"spec":{"weight":5}}')
    assert (await run("get", "queue", name, "-o", "jsonpath={.spec.weight}")) == "5"
    await run("delete", "pod/a", "podgroup/g", f"queue/{name}")
    assert (await run("get", "pods,pg", "-o", "name")) == ""


async def test_kubectl_shows_the_columns_of_our_kinds(
    api_server: ApiServer, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    body = pod_group("g", minMember=3) | {"status": {"phase": "Inqueue", "running": 1}}
    await kube.create(VC_POD_GROUP, namespace, body, field_manager="contract")
    lines = (await kubectl(api_server, tmp_path, "-n", namespace, "get", "pg")).splitlines()

    assert lines[0].split() == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE"]
    assert lines[1].split()[:4] == ["g", "Inqueue", "3", "1"]


async def test_kubectl_shows_how_pods_are_doing(
    api_server: ApiServer, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await kube.create(POD, namespace, pod("a", node="n1"), field_manager="contract")
    lines = (await kubectl(api_server, tmp_path, "-n", namespace, "get", "pods")).splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:4] == ["a", "0/1", "Pending", "0"]

    running = {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 2,
                "image": "busybox",
                "imageID": "",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
        ],
    }
    await kube.patch(
        POD,
        namespace,
        "a",
        {"status": running},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager="contract",
    )
    wide = await kubectl(api_server, tmp_path, "-n", namespace, "get", "pods", "-o", "wide")
    assert wide.splitlines()[1].split()[:4] == ["a", "1/1", "Running", "2"]
    assert "n1" in wide.splitlines()[1].split()


async def test_the_python_client_that_ours_is_built_on_works(
    api_server: ApiServer, kube: KubeClient, namespace: str
) -> None:
    settings = client.Configuration()
    await config.load_kube_config(
        str(api_server.kubeconfig), client_configuration=settings, persist_config=False
    )
    async with client.ApiClient(settings) as api:
        core = client.CoreV1Api(api)
        made = await core.create_namespaced_pod(namespace, cast("client.V1Pod", pod("a")))
        listed = await core.list_namespaced_pod(namespace)
        assert [item.metadata.name for item in listed.items] == ["a"]
        assert made.status.phase == "Pending"

        custom = client.CustomObjectsApi(api)
        await custom.create_namespaced_custom_object(
            "scheduling.volcano.sh", "v1beta1", namespace, "podgroups", pod_group("g")
        )
        groups = await custom.list_namespaced_custom_object(
            "scheduling.volcano.sh", "v1beta1", namespace, "podgroups"
        )
        assert [item["metadata"]["name"] for item in groups["items"]] == ["g"]

        watcher = watch.Watch()
        seen: list[tuple[str, str]] = []
        async with asyncio.timeout(15):
            async with watcher.stream(
                core.list_namespaced_pod,
                namespace,
                resource_version=listed.metadata.resource_version,
                timeout_seconds=10,
            ) as stream:
                await core.delete_namespaced_pod("a", namespace)
                async for event in stream:
                    seen.append((event["type"], event["object"].metadata.name))
                    if event["type"] == "DELETED":
                        break
        # The mark and the end: also a pod that nothing holds is first marked.
        assert seen == [("MODIFIED", "a"), ("DELETED", "a")]
