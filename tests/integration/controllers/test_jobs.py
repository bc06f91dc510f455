"""A job's life through real processes; the test is the scheduler and the kubelet."""

import base64
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from stromboli.api import kinds
from stromboli.contracts.outcomes import Applied, Refused
from stromboli.kube.wire import PatchType
from stromboli.testkit.bus_contents import stored_outcomes
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.sample_jobs import mpi_job
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats

JOB = "lm-mpi-job"
PODS = [f"{JOB}-mpimaster-0", *(f"{JOB}-mpiworker-{index}" for index in range(3))]


def key_pair() -> tuple[str, str]:
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return private.decode(), public.decode()


async def phase(cluster: ClusterBuilder) -> str:
    found = await cluster.fetch("vcjob", JOB)
    return found["status"]["state"]["phase"] if found and "status" in found else ""


async def until_phase(cluster: ClusterBuilder, wanted: str) -> None:
    async def reached() -> bool:
        now = await phase(cluster)
        assert now == wanted
        return True

    await eventually(reached, deadline_s=20, describe=f"the job is {wanted}", interval_s=0.02)


async def let_in(cluster: ClusterBuilder, scheduler: BusPeer) -> dict[str, Any]:
    """What the scheduler does when the queue has room; returns the PodGroup."""
    job = await cluster.fetch("vcjob", JOB)
    assert job is not None
    name = f"{JOB}-{job['metadata']['uid']}"
    entry = await scheduler.until_seen("vcpodgroup", cluster.namespace, name)
    outcome = await scheduler.ask_and_hear(
        scheduler.patch(
            "vcpodgroup",
            cluster.namespace,
            name,
            uid=entry.uid,
            body={"status": {"phase": "Inqueue"}},
            job=JOB,
        )
    )
    assert isinstance(outcome, Applied), outcome
    group = await cluster.fetch("vcpodgroup", name)
    assert group is not None
    return group


async def until_pods(cluster: ClusterBuilder, wanted: list[str]) -> None:
    async def are_there() -> bool:
        names = sorted(await cluster.names("pod"))
        assert names == wanted
        return True

    await eventually(are_there, deadline_s=20, describe=f"the pods {wanted}", interval_s=0.02)


async def report(cluster: ClusterBuilder, pod: str, phase: str) -> None:
    """What the kubelet does."""
    await cluster.kube.patch(
        kinds.POD,
        cluster.namespace,
        pod,
        {"status": {"phase": phase}},
        patch_type=PatchType.MERGE,
        subresource="status",
        field_manager="kubelet",
    )


async def test_the_mpi_job_runs_to_completion(
    controllers: DeciderProcess, scheduler: BusPeer, cluster: ClusterBuilder
):
    await scheduler.until_seen("queue", "", "default")
    await cluster.make("vcjob", mpi_job())
    await until_phase(cluster, "Pending")
    group = await let_in(cluster, scheduler)
    began = time.monotonic()
    await until_pods(cluster, PODS)
    assert time.monotonic() - began < 10

    assert group["spec"]["minMember"] == 4
    assert group["spec"]["minResources"]["requests.cpu"] == "3500m"
    secret = await cluster.fetch("secret", f"{JOB}-ssh")
    assert secret is not None
    files = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    assert files["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert files["id_rsa.pub"].startswith("ssh-rsa ")
    assert files["authorized_keys"] == files["id_rsa.pub"]
    assert f"Host {JOB}-mpiworker-2\n" in files["config"]
    assert await cluster.fetch("configmap", f"{JOB}-svc") is not None
    assert await cluster.fetch("service", JOB) is not None

    for pod in PODS:
        await report(cluster, pod, "Running")
    await until_phase(cluster, "Running")
    await report(cluster, PODS[0], "Succeeded")
    await until_pods(cluster, PODS[:1])
    await until_phase(cluster, "Completed")

    async def is_clean() -> bool:
        assert await cluster.names("vcpodgroup") == {}
        assert await cluster.fetch("secret", f"{JOB}-ssh") is None
        return True

    await eventually(is_clean, describe="what the job needed is gone")


async def test_a_successor_takes_over_where_the_dead_controllers_were(
    controllers: DeciderProcess,
    start_controllers: Any,
    scheduler: BusPeer,
    cluster: ClusterBuilder,
):
    await scheduler.until_seen("queue", "", "default")
    await cluster.make("vcjob", mpi_job())
    await until_phase(cluster, "Pending")
    await let_in(cluster, scheduler)
    await until_pods(cluster, PODS)
    for pod in PODS:
        await report(cluster, pod, "Running")
    await until_phase(cluster, "Running")
    controllers.kill()
    await cluster.delete("pod", PODS[2])
    successor = start_controllers()
    await successor.until_ready()
    await until_phase(cluster, "Pending")

    found = await cluster.fetch("vcjob", JOB)
    assert found is not None
    assert found["status"]["retryCount"] == 1


async def test_a_key_pair_that_the_job_gives_itself_is_taken_from_the_job(
    controllers: DeciderProcess, scheduler: BusPeer, cluster: ClusterBuilder
):
    """The bus has it redacted; the gateway reads it from the object."""
    await scheduler.until_seen("queue", "", "default")
    manifest = mpi_job()
    private, public = key_pair()
    manifest["spec"]["plugins"]["ssh"] = [
        f"--ssh-private-key={private}",
        "--ssh-public-key",
        public,
    ]
    await cluster.make("vcjob", manifest)

    async def secret() -> dict[str, Any] | None:
        return await cluster.fetch("secret", f"{JOB}-ssh")

    found = await eventually(secret, describe="the secret")
    assert base64.b64decode(found["data"]["id_rsa"]).decode() == private
    assert base64.b64decode(found["data"]["authorized_keys"]).decode() == public


async def test_a_key_pair_that_does_not_parse_is_told_in_plain_words_and_tried_ever_later(
    controllers: DeciderProcess, scheduler: BusPeer, cluster: ClusterBuilder
):
    await scheduler.until_seen("queue", "", "default")
    manifest = mpi_job()
    manifest["spec"]["plugins"]["ssh"] = ["--ssh-private-key=mine", "--ssh-public-key=yours"]
    await cluster.make("vcjob", manifest)

    async def is_told() -> bool:
        found = await cluster.fetch("vcjob", JOB)
        assert found is not None
        state = found.get("status", {}).get("state", {})
        assert state.get("reason") == "PluginError", state
        assert "the private key can't be read" in state["message"]
        assert "mine" not in state["message"]
        return True

    await eventually(is_told, describe="the job says what is wrong with its key")
    refused = [
        outcome
        for outcome in await stored_outcomes(scheduler)
        if isinstance(outcome, Refused) and outcome.kind == "secret"
    ]
    assert 1 <= len(refused) <= 8
    events = [
        event
        for name in await cluster.names("event")
        if (event := await cluster.fetch("event", name)) and event["reason"] == "PluginError"
    ]
    assert len(events) == 1
