"""Pods as processes of this machine: files, environment, exit codes, grace, logs."""

import base64
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubelets.conftest import (
    StartKubelet,
    command,
    exit_code,
    logs,
    until_phase,
)

from stromboli.kube import KubeClient
from stromboli.kube.errors import BadRequest
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.waiting import eventually


async def ran(
    cluster: ClusterBuilder, node: str, script: str, **spec: Any
) -> tuple[dict[str, Any], str]:
    """A pod that ran a script to its end, and what it printed."""
    await cluster.pod("p", nodeName=node, **command("sh", "-c", script, **spec))

    async def ended() -> bool:
        pod = await cluster.fetch("pod", "p")
        return (pod or {}).get("status", {}).get("phase") in {"Succeeded", "Failed"}

    await eventually(ended, deadline_s=20, interval_s=0.05, describe="the pod has ended")
    pod = await cluster.fetch("pod", "p") or {}
    return pod, await logs(cluster.kube, cluster.namespace, "p")


async def test_what_a_process_prints_is_its_log(
    start: StartKubelet, cluster: ClusterBuilder
) -> None:
    node = await start(process=True)
    pod, text = await ran(cluster, node, "echo out; echo err >&2; exit 7")

    assert (pod["status"]["phase"], exit_code(pod)) == ("Failed", 7)
    assert sorted(text.splitlines()) == ["err", "out"]


async def test_a_command_that_is_not_there_fails_with_127(
    start: StartKubelet, cluster: ClusterBuilder
) -> None:
    node = await start(process=True)
    await cluster.pod("p", nodeName=node, **command("/no/such/program"))
    pod = await until_phase(cluster, "p", "Failed")

    assert exit_code(pod) == 127
    assert "can't start '/no/such/program'" in await logs(cluster.kube, cluster.namespace, "p")


async def test_a_process_that_is_killed_tells_the_signal(
    start: StartKubelet, cluster: ClusterBuilder
) -> None:
    node = await start(process=True)
    pod, _ = await ran(cluster, node, "kill -9 $$")

    assert exit_code(pod) == 128 + signal.SIGKILL


async def test_configuration_and_secrets_are_files_where_they_are_mounted(
    start: StartKubelet, cluster: ClusterBuilder
) -> None:
    node = await start(process=True)
    await cluster.make("configmap", {"metadata": {"name": "hosts"}, "data": {"list": "a\nb\n"}})
    secret = {"key": base64.b64encode(b"hush").decode()}
    await cluster.make("secret", {"metadata": {"name": "ssh"}, "data": secret})
    spec = command("sh", "-c", "cat /etc/hosts.d/list /root/.ssh/key")
    spec["containers"][0]["volumeMounts"] = [
        {"name": "hosts", "mountPath": "/etc/hosts.d"},
        {"name": "ssh", "mountPath": "/root/.ssh"},
    ]
    spec["volumes"] = [
        {"name": "hosts", "configMap": {"name": "hosts"}},
        {"name": "ssh", "secret": {"secretName": "ssh"}},
    ]
    await cluster.pod("p", nodeName=node, **spec)
    await until_phase(cluster, "p", "Succeeded")

    assert await logs(cluster.kube, cluster.namespace, "p") == "a\nb\nhush\n"


async def test_the_environment_is_what_the_pod_says(
    start: StartKubelet, cluster: ClusterBuilder
) -> None:
    node = await start(process=True)
    await cluster.make("configmap", {"metadata": {"name": "c"}, "data": {"k": "from map"}})
    spec = command("sh", "-c", 'echo "$PLAIN|$NAME|$MAPPED|$HOSTNAME"')
    spec["containers"][0]["env"] = [
        {"name": "PLAIN", "value": "x y"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "MAPPED", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    ]
    await cluster.pod("p", nodeName=node, **spec)
    await until_phase(cluster, "p", "Succeeded")

    assert await logs(cluster.kube, cluster.namespace, "p") == "x y|p|from map|p\n"


async def test_a_deleted_process_gets_time_to_say_goodbye(
    start: StartKubelet, cluster: ClusterBuilder, tmp_path: Path
) -> None:
    node = await start(process=True)
    note = tmp_path / "goodbye"
    script = f"trap 'echo bye > {note}; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    await cluster.pod("p", nodeName=node, **command("sh", "-c", script))
    await until_log(cluster, "ready")
    await cluster.delete("pod", "p", grace_period_s=None)

    await until_phase(cluster, "p", "gone")
    assert note.read_text() == "bye\n"


async def test_who_does_not_stop_in_time_is_killed(
    start: StartKubelet, cluster: ClusterBuilder
) -> None:
    node = await start(process=True)
    script = "trap '' TERM; echo $$; while true; do sleep 0.05; done"
    spec = command("sh", "-c", script, terminationGracePeriodSeconds=1)
    await cluster.pod("p", nodeName=node, **spec)
    pid = int(await until_log(cluster, ""))
    await cluster.delete("pod", "p", grace_period_s=None)

    await until_phase(cluster, "p", "gone")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def until_log(cluster: ClusterBuilder, wanted: str) -> str:
    async def printed() -> str:
        try:
            text = await logs(cluster.kube, cluster.namespace, "p")
        except BadRequest:
            return ""
        return text if text and wanted in text else ""

    return await eventually(printed, deadline_s=20, interval_s=0.05, describe="it has printed")


async def test_logs_can_be_cut_timed_and_followed(
    start: StartKubelet, cluster: ClusterBuilder, kube: KubeClient, namespace: str
) -> None:
    node = await start(process=True)
    script = "for i in 1 2 3 4; do echo line $i; sleep 0.1; done"
    await cluster.pod("p", nodeName=node, **command("sh", "-c", script))
    await until_log(cluster, "line 1")
    followed = await logs(kube, namespace, "p", follow="true")
    timed = await logs(kube, namespace, "p", timestamps="true", tailLines="1")

    assert followed == "line 1\nline 2\nline 3\nline 4\n"
    assert timed.endswith("Z line 4\n")
    assert await logs(kube, namespace, "p", tailLines="2") == "line 3\nline 4\n"
    assert await logs(kube, namespace, "p", tailLines="0") == ""
    assert await logs(kube, namespace, "p", limitBytes="6") == "line 1"
    assert await logs(kube, namespace, "p", sinceTime="2001-01-01T00:00:00Z") == followed
    assert await logs(kube, namespace, "p", sinceTime="2201-01-01T00:00:00Z") == ""


async def test_the_log_before_a_restart_is_the_previous_one(
    start: StartKubelet, cluster: ClusterBuilder, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    node = await start(process=True)
    script = f"echo x >> {tmp_path}/runs; wc -l < {tmp_path}/runs; test -e {tmp_path}/enough"
    spec = command("sh", "-c", script, restartPolicy="OnFailure")
    await cluster.pod("p", nodeName=node, **spec)
    with pytest.raises(BadRequest, match="previous terminated container"):
        await logs(kube, namespace, "p", previous="true")

    async def second() -> bool:
        return "2" in await until_log(cluster, "")

    await eventually(second, deadline_s=20, describe="it was restarted")
    (tmp_path / "enough").touch()
    pod = await until_phase(cluster, "p", "Succeeded")
    [status] = pod["status"]["containerStatuses"]

    assert status["restartCount"] >= 1
    assert status["lastState"]["terminated"]["exitCode"] == 1
    now = int(await logs(kube, namespace, "p"))
    assert int(await logs(kube, namespace, "p", previous="true")) == now - 1


async def test_a_pod_that_is_gone_leaves_no_files(
    start: StartKubelet, cluster: ClusterBuilder, tmp_path: Path
) -> None:
    node = await start(process=True)
    await ran(cluster, node, "echo x")
    assert len(list((tmp_path / "pods").iterdir())) == 1
    await cluster.delete("pod", "p", grace_period_s=None)

    await eventually(lambda: not list((tmp_path / "pods").iterdir()), describe="no folder is left")


async def test_nothing_is_left_of_pods_that_were_deleted_as_soon_as_they_began(
    start: StartKubelet, cluster: ClusterBuilder, tmp_path: Path
) -> None:
    """However the deletion, its events and the start overtake each other."""
    node = await start(process=True)
    mark = f"{tmp_path}/mark"
    for number in range(8):
        name = f"p{number}"
        spec = command("sh", "-c", f"while true; do sleep 0.05; done; {mark}")
        await cluster.pod(name, nodeName=node, **spec)
        if number % 2:
            await until_phase(cluster, name, "Running")
        await cluster.delete("pod", name, grace_period_s=0 if number % 4 < 2 else None)
    for number in range(8):
        await until_phase(cluster, f"p{number}", "gone")

    await eventually(lambda: not processes_with(mark), deadline_s=20, describe="no process is left")
    await eventually(lambda: not list((tmp_path / "pods").iterdir()), describe="no folder is left")


def processes_with(mark: str) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            text = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if mark in text:
                found.append(text)
    return found
