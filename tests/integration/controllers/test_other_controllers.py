"""Schedules, flows and garbage through real processes; more is in the conformance cases."""

import asyncio
import contextlib
from typing import Any

import pytest

from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.sample_jobs import job, task
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.usefixtures("controllers")]


async def until_field(
    cluster: ClusterBuilder, kind: str, name: str, path: str, wanted: object
) -> dict[str, Any]:
    """The object, once the field has the value."""

    async def has() -> dict[str, Any] | None:
        found: Any = await cluster.fetch(kind, name)
        value = found
        for key in path.split("/"):
            value = (value or {}).get(key)
        assert value == wanted, f"{kind} {name}: {path} is {value!r}"
        return found

    return await eventually(
        has, deadline_s=20, describe=f"{path} of {kind} {name} is {wanted!r}", interval_s=0.03
    )


async def until_names(cluster: ClusterBuilder, kind: str, wanted: list[str]) -> None:
    async def are_there() -> bool:
        found = sorted(await cluster.names(kind))
        assert found == sorted(wanted)
        return True

    await eventually(are_there, deadline_s=20, describe=f"{kind}: {wanted}", interval_s=0.03)


async def test_a_schedule_makes_jobs_and_keeps_so_many(cluster: ClusterBuilder):
    spec = job("x", task("t", 1))["spec"]
    private = "--ssh-private-key=-----BEGIN RSA PRIVATE KEY-----"
    spec["plugins"] = {"ssh": [private, "--ssh-public-key=mine"]}
    cron = {
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "@every 1s",
            "jobTemplate": {"spec": spec},
            "successfulJobsHistoryLimit": 1,
        },
    }
    await cluster.make("vccronjob", cron)

    async def two() -> list[str] | None:
        names = sorted(await cluster.names("vcjob"))
        return names[:2] if len(names) >= 2 else None

    first, second = await eventually(two, deadline_s=20, describe="two jobs")
    made = await cluster.fetch("vcjob", first)
    assert made is not None
    assert made["spec"]["plugins"]["ssh"][0] == private, "what the bus must not show is put back"
    await cluster.change("vccronjob", "tick", {"spec": {"suspend": True}})
    for name in (first, second):
        await order_job(cluster, name, "CompleteJob")

    async def only_one_is_left() -> bool:
        return first not in await cluster.names("vcjob")

    await eventually(only_one_is_left, deadline_s=20, describe="the older job is gone")
    found = await cluster.fetch("vccronjob", "tick")
    assert found is not None
    assert "lastSuccessfulTime" in found["status"]


async def order_job(cluster: ClusterBuilder, name: str, action: str) -> None:
    found = await cluster.fetch("vcjob", name)
    assert found is not None
    target = {
        "apiVersion": found["apiVersion"],
        "kind": "Job",
        "name": name,
        "uid": found["metadata"]["uid"],
    }
    command = {"metadata": {"name": f"c-{name}"}, "action": action, "target": target}
    await cluster.make("command", command)


async def test_a_job_goes_when_its_time_to_live_is_over(cluster: ClusterBuilder):
    await until_field(cluster, "queue", "default", "status/state", "Open")
    await cluster.make("vcjob", job("short", task("t", 1), ttlSecondsAfterFinished=1))
    await until_field(cluster, "vcjob", "short", "status/state/phase", "Pending")
    await order_job(cluster, "short", "TerminateJob")

    async def is_going() -> bool:
        found = await cluster.fetch("vcjob", "short")
        # A bare kube-apiserver has nobody who ends a deletion in the foreground.
        return found is None or found["metadata"].get("finalizers") == ["foregroundDeletion"]

    await eventually(is_going, deadline_s=20, describe="the job is gone, or going")


async def make_flow(cluster: ClusterBuilder, *flows: dict[str, Any]) -> None:
    for flow in flows:
        template = {"metadata": {"name": flow["name"]}, "spec": job("x", task("t", 1))["spec"]}
        await cluster.make("jobtemplate", template)
    await cluster.make("jobflow", {"metadata": {"name": "f"}, "spec": {"flows": list(flows)}})


async def test_a_flow_goes_from_job_to_job(cluster: ClusterBuilder):
    await make_flow(cluster, {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}})
    await until_field(cluster, "vcjob", "f-a", "status/state/phase", "Pending")
    await until_names(cluster, "vcjob", ["f-a"])
    await order_job(cluster, "f-a", "CompleteJob")
    await until_field(cluster, "vcjob", "f-b", "status/state/phase", "Pending")
    await order_job(cluster, "f-b", "CompleteJob")

    found = await until_field(cluster, "jobflow", "f", "status/state/phase", "Succeed")
    assert found["status"]["completedJobs"] == ["f-a", "f-b"]
    await until_field(cluster, "jobtemplate", "a", "status/jobDependsOnList", ["f-a"])


async def test_a_probe_starts_what_waits_for_a_pod_that_answers(cluster: ClusterBuilder):
    """The pod is the test itself, which listens at a port when it pleases."""
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.drain()
            asked.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    probe = {"httpGetList": [{"taskName": "t", "port": port, "path": "/ready"}]}
    await make_flow(
        cluster, {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}
    )
    found = await until_field(cluster, "vcjob", "f-a", "status/state/phase", "Pending")
    group = f"f-a-{found['metadata']['uid']}"
    await until_names(cluster, "vcpodgroup", [group])
    await cluster.change("vcpodgroup", group, {"status": {"phase": "Inqueue"}})
    await until_names(cluster, "pod", ["f-a-t-0"])
    assert not asked.is_set()
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    await cluster.change("pod", "f-a-t-0", {"status": status}, subresource="status")

    await until_names(cluster, "vcjob", ["f-a", "f-b"])
    assert asked.is_set()
    server.close()
