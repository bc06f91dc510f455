"""What people do with kubectl all day, on both servers: look, create, apply, change, explain."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from tests.contract.clients.test_other_clients import kubectl

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.manifests import pod, pod_group, queue, unique

Kubectl: TypeAlias = Callable[..., Awaitable[str]]


@pytest.fixture
async def run(api_server: ApiServer, kube: KubeClient, namespace: str, tmp_path: Path) -> Kubectl:
    """kubectl in the test's namespace; a dict among its arguments is a manifest."""

    async def call(*arguments: str | dict[str, Any]) -> str:
        words: list[str] = []
        for index, argument in enumerate(arguments):
            if isinstance(argument, dict):
                manifest = tmp_path / f"{index}.yaml"
                manifest.write_text(yaml.safe_dump(argument))
                words += ["-f", str(manifest)]
            else:
                words.append(argument)
        return await kubectl(api_server, tmp_path, "-n", namespace, *words)

    return call


def deployment(*env: str, image: str = "busybox:1") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": image,
        "env": [{"name": name, "value": "x"} for name in env],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container]},
            },
        },
    }


ENV = "jsonpath={.spec.template.spec.containers[0].env[*].name}"


async def test_a_manifest_is_validated_by_the_server(run: Kubectl) -> None:
    assert await run("create", pod("a")) == "pod/a created\n"

    body = pod("b")
    body["spec"]["containers"][0]["comand"] = ["sleep"]
    with pytest.raises(AssertionError, match=r'unknown field "spec.containers\[0\].comand"'):
        await run("create", body)
    group = pod_group("g", minMembers=3)
    with pytest.raises(AssertionError, match=r'unknown field "spec.minMembers"'):
        await run("create", group)


async def test_a_kind_that_nobody_knows_is_refused_by_name(run: Kubectl) -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"}}
    with pytest.raises(AssertionError, match=r'no matches for kind "Foo" in version'):
        await run("apply", unknown)


async def test_apply_takes_out_what_the_manifest_no_longer_has(run: Kubectl) -> None:
    assert await run("apply", deployment("A", "B")) == "deployment.apps/web created\n"
    assert await run("apply", deployment("A", "C")) == "deployment.apps/web configured\n"
    assert await run("apply", deployment("A", "C")) == "deployment.apps/web unchanged\n"

    assert await run("get", "deploy", "web", "-o", ENV) == "A C"


async def test_apply_on_the_server_respects_other_managers(run: Kubectl) -> None:
    applied = "deployment.apps/web serverside-applied\n"
    assert await run("apply", "--server-side", deployment("A", "B")) == applied
    assert await run("apply", "--server-side", deployment("B", "C")) == applied
    assert await run("get", "deploy", "web", "-o", ENV) == "B C"

    await run("scale", "deploy/web", "--replicas=5")
    with pytest.raises(AssertionError, match=r"Apply failed with 1 conflict.*\.spec\.replicas"):
        await run("apply", "--server-side", deployment("B"))
    forced = await run("apply", "--server-side", "--force-conflicts", deployment("B"))
    assert forced == applied
    assert await run("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "2"


async def test_our_kinds_are_applied_both_ways(run: Kubectl) -> None:
    name = unique("q")
    await run("apply", queue(name))
    await run("apply", queue(name, weight=7))
    assert await run("get", "queue", name, "-o", "jsonpath={.spec.weight}") == "7"

    await run("apply", "--server-side", "--force-conflicts", queue(name, weight=8))
    assert await run("get", "queue", name, "-o", "jsonpath={.spec.weight}") == "8"


async def test_a_cordoned_node_is_shown_so(run: Kubectl) -> None:
    name = unique("n")
    await run("create", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    assert await run("cordon", name) == f"node/{name} cordoned\n"
    assert (await run("get", "node", name)).splitlines()[1].split()[1] == (
        "Unknown,SchedulingDisabled"
    )
    assert await run("uncordon", name) == f"node/{name} uncordoned\n"


async def test_explain_knows_fields_of_built_in_and_of_our_kinds(run: Kubectl) -> None:
    assert "tolerationSeconds\t<integer>" in await run("explain", "pod.spec.tolerations")
    assert "minMember\t<integer>" in await run("explain", "podgroup.spec")


async def test_a_watch_prints_rows(run: Kubectl) -> None:
    await run("create", pod("a"))
    seen = await run("get", "pods", "--watch", "--request-timeout=2s")

    assert [line.split()[:3] for line in seen.splitlines()] == [
        ["NAME", "READY", "STATUS"],
        ["a", "0/1", "Pending"],
    ]


async def test_small_things_are_created_by_command(run: Kubectl) -> None:
    name = unique("ns")
    assert await run("create", "namespace", name) == f"namespace/{name} created\n"
    await run("create", "configmap", "c", "--from-literal=a=b")
    await run("create", "secret", "generic", "s", "--from-literal=a=b")

    assert await run("get", "configmap", "c", "-o", "jsonpath={.data}") == '{"a":"b"}'
    assert await run("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="


async def test_labels_and_annotations_come_and_go(run: Kubectl) -> None:
    await run("create", pod("a"))
    await run("annotate", "pod", "a", "note=x")
    await run("label", "pod", "a", "colour=red")
    assert (await run("get", "pods", "-L", "colour")).splitlines()[1].split()[-1] == "red"

    await run("label", "pod", "a", "colour-")
    assert await run("get", "pods", "-l", "colour", "-o", "name") == ""


async def test_people_can_ask_what_they_may_do(run: Kubectl) -> None:
    assert await run("auth", "can-i", "create", "pods") == "yes\n"
    assert "*.*" in await run("auth", "can-i", "--list")
    shown = await run("auth", "whoami")
    assert "system:masters system:authenticated" in shown


async def test_work_is_created_by_command(run: Kubectl) -> None:
    assert await run("create", "job", "j", "--image=b", "--", "sleep", "3") == (
        "job.batch/j created\n"
    )
    await run("create", "deployment", "d", "--image=b", "--replicas=3", "--port=80")
    await run("create", "quota", "q", "--hard=pods=3,cpu=2")

    container = "jsonpath={.spec.template.spec.containers[0]['image','command']}"
    assert await run("get", "job", "j", "-o", container) == 'b ["sleep","3"]'
    assert await run("get", "deploy", "d", "-o", "jsonpath={.spec.replicas}") == "3"
    assert await run("get", "quota", "q", "-o", "jsonpath={.spec.hard}") == (
        '{"cpu":"2","pods":"3"}'
    )


async def test_deletion_can_be_told_how_far_it_goes(run: Kubectl) -> None:
    """What happens then needs a collector; the server says what it was asked to do."""
    for name, cascade in (("a", "foreground"), ("b", "orphan"), ("c", "background")):
        body = pod_group(name)
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await run("create", body)
        told = await run("delete", "podgroup", name, f"--cascade={cascade}", "--wait=false")
        assert told.startswith(f'podgroup.scheduling.volcano.sh "{name}" deleted')

    held = await run("get", "podgroup", "a", "-o", "jsonpath={.metadata.finalizers}")
    assert '"example.com/hold"' in held
    left = await run("get", "podgroup", "c", "-o", "jsonpath={.metadata.finalizers}")
    assert left == '["example.com/hold"]'


async def test_a_node_is_drained(run: Kubectl) -> None:
    name = unique("n")
    await run("create", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    body = pod("a", node=name, terminationGracePeriodSeconds=0)
    await run("create", body)
    told = await run("drain", name, "--force", "--timeout=20s")

    assert "pod/a evicted" in told
    assert told.endswith(f"node/{name} drained\n")
    assert await run("get", "pods", "-o", "name") == ""


async def test_logs_that_cannot_be_had_say_why(run: Kubectl) -> None:
    with pytest.raises(AssertionError, match='pods "nope" not found'):
        await run("logs", "nope")
    await run("create", pod("a"))
    assert await run("logs", "a") == ""
    with pytest.raises(AssertionError, match="container nope is not valid for pod a"):
        await run("logs", "a", "-c", "nope")


async def test_a_webhook_configuration_is_shown(run: Kubectl) -> None:
    name = unique("hooks")
    entry = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [entry],
    }
    await run("apply", body)
    [heading, row] = (await run("get", "validatingwebhookconfigurations", name)).splitlines()
    await run("delete", "validatingwebhookconfigurations", name)

    assert heading.split() == ["NAME", "WEBHOOKS", "AGE"]
    assert row.split()[:2] == [name, "1"]
