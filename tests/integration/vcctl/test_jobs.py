"""vcctl against an API server: what a person sees, and what is stored."""

import asyncio
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api import kinds
from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.vcctl.__main__ import main

MANIFEST = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: from-file, labels: {volcano.sh/job-type: MPI}}
spec:
  minAvailable: 2
  queue: research
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        hostname: kept-although-unknown-to-us
        restartPolicy: Never
        containers: [{name: c, image: busybox, command: [sleep, "1"]}]
"""


class Vcctl:
    """Carries lines out as `main` does, in one namespace of one server."""

    def __init__(
        self, server: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._server = server
        self._capsys = capsys
        self.namespace = namespace

    async def __call__(self, *line: str | Path, status: int = 0) -> str:
        in_namespace = [] if line[0] == "queue" else ["-n", self.namespace]
        argv = [*map(str, line), "-k", str(self._server.kubeconfig), *in_namespace]
        async with asyncio.timeout(30):
            # vcctl runs an event loop of its own.
            ended = await asyncio.to_thread(self._carry_out, argv)
        printed = self._capsys.readouterr()
        assert (ended, printed.err) == (status, ""), printed.out
        return printed.out

    def _carry_out(self, argv: list[str]) -> object:
        with pytest.raises(SystemExit) as ended:
            main(argv)
        return ended.value.code


@pytest.fixture
def vcctl(api_server: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]) -> Vcctl:
    return Vcctl(api_server, namespace, capsys)


async def stored(kube: KubeClient, kind: Any, namespace: str) -> list[Any]:
    pages = kube.list_pages(kind, namespace=namespace)
    return [msgspec.json.decode(raw) async for page in pages for raw in page.items]


async def test_a_job_is_run_from_a_file_listed_viewed_and_deleted(
    vcctl: Vcctl, kube: KubeClient, tmp_path: Path
):
    path = tmp_path / "job.yaml"
    path.write_text(MANIFEST)
    assert await vcctl("job", "list") == "No resources found\n"

    assert await vcctl("job", "run", "-f", path) == "run job from-file successfully\n"
    job = (await stored(kube, kinds.VC_JOB, vcctl.namespace))[0]
    template = job["spec"]["tasks"][0]["template"]["spec"]
    assert template["hostname"] == "kept-although-unknown-to-us"

    header, row = (await vcctl("job", "list")).splitlines()
    assert header.split()[:4] == ["Name", "Creation", "Phase", "JobType"]
    assert row.split()[0] == "from-file"
    assert "MPI" in row
    assert await vcctl("job", "list", "-q", "other") == "No resources found\n"
    assert "from-file" in await vcctl("job", "list", "-q", "research", "--selector", "om-fi")

    shown = await vcctl("job", "view", "-N", "from-file")
    assert shown.startswith(f"Name:       \tfrom-file\nNamespace:  \t{vcctl.namespace}\n")
    assert f"  UID:               \t{job['metadata']['uid']}\n" in shown
    assert shown.endswith("Events: \t<none>\n")

    group: dict[str, Any] = {
        "apiVersion": kinds.VC_POD_GROUP.api_version,
        "kind": kinds.VC_POD_GROUP.kind,
        "metadata": {"name": f"from-file-{job['metadata']['uid']}"},
        "spec": {"minMember": 2},
    }
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}
    condition["message"] = "Misconfigured: its queue is closed; it goes on when it is opened"
    condition["lastTransitionTime"] = "2026-11-16T02:59:10Z"
    group["status"] = {"phase": "Pending", "conditions": [condition]}
    await kube.create(kinds.VC_POD_GROUP, vcctl.namespace, group, field_manager="test")
    shown = await vcctl("job", "view", "-N", "from-file")
    assert "    Reason: \tMisconfigured\n" in shown
    assert "    Since:  \t2026-11-16 02:59:10 +0000 UTC\n" in shown

    deleted = await vcctl("job", "delete", "-N", "from-file")
    assert deleted == "delete job from-file successfully\n"
    assert await stored(kube, kinds.VC_JOB, vcctl.namespace) == []


async def test_a_job_made_from_flags_is_the_one_that_volcano_makes(vcctl: Vcctl, kube: KubeClient):
    said = await vcctl("job", "run", "-N", "flags", "-r", "3", "-m", "2", "-R", "cpu=500m")
    assert said == "run job flags successfully\n"

    spec = (await stored(kube, kinds.VC_JOB, vcctl.namespace))[0]["spec"]
    (task,) = spec["tasks"]
    (container,) = task["template"]["spec"]["containers"]
    assert (spec["minAvailable"], spec["schedulerName"], task["replicas"]) == (2, "volcano", 3)
    assert task["template"]["metadata"]["labels"] == {"job.volcano.sh": "flags"}
    assert task["template"]["spec"]["restartPolicy"] == "Never"
    assert (container["image"], container["imagePullPolicy"]) == ("busybox", "IfNotPresent")
    assert container["resources"] == {
        "requests": {"cpu": "500m"},
        "limits": {"cpu": "1", "memory": "100Mi"},
    }


async def test_the_servers_own_words_are_the_error(vcctl: Vcctl):
    await vcctl("job", "run", "-N", "twice")

    again = await vcctl("job", "run", "-N", "twice", status=255)
    assert again == 'Failed to vcctl job run: jobs.batch.volcano.sh "twice" already exists\n'
    for command in ("view", "delete", "suspend"):
        missing = await vcctl("job", command, "-N", "nobody", status=255)
        expected = f'Failed to vcctl job {command}: jobs.batch.volcano.sh "nobody" not found\n'
        assert missing == expected


async def test_suspending_and_resuming_leave_an_order_beside_the_job(
    vcctl: Vcctl, kube: KubeClient
):
    await vcctl("job", "run", "-N", "tired")
    assert await vcctl("job", "suspend", "-N", "tired") == ""
    assert await vcctl("job", "resume", "-N", "tired") == ""

    (job,) = await stored(kube, kinds.VC_JOB, vcctl.namespace)
    orders = await stored(kube, kinds.COMMAND, vcctl.namespace)
    assert {(o["metadata"]["generateName"], o["action"]) for o in orders} == {
        ("tired-abortjob-", "AbortJob"),
        ("tired-resumejob-", "ResumeJob"),
    }
    for order in orders:
        assert order["target"]["uid"] == job["metadata"]["uid"]
        assert order["metadata"]["ownerReferences"] == [order["target"]]


async def test_a_queue_is_listed_with_the_podgroups_in_it(vcctl: Vcctl, kube: KubeClient):
    name = f"q-{secrets.token_hex(4)}"
    queue = {"metadata": {"name": name}, "spec": {"weight": 3}}
    podgroup = {
        "metadata": {"name": "gang"},
        "spec": {"queue": name, "minMember": 1},
        "status": {"phase": "Inqueue"},
    }
    for kind, body in ((kinds.QUEUE, queue), (kinds.VC_POD_GROUP, podgroup)):
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        namespace = vcctl.namespace if kind.namespaced else None
        await kube.create(kind, namespace, manifest, field_manager="test")

    header, *rows = (await vcctl("queue", "list")).splitlines()
    assert header.split()[0] == "Name"
    (row,) = [row.split() for row in rows if row.startswith(name)]
    assert (row[1], row[-5:]) == ("3", ["1", "0", "0", "0", "0"])


async def test_the_installed_command_honours_kubeconfig_and_master(
    api_server: ApiServer, namespace: str
):
    def run(*line: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", "stromboli.vcctl", "job", "list", "-n", namespace, *line]
        env = {**os.environ, "KUBECONFIG": str(api_server.kubeconfig)}
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=30, check=False
        )

    here = await asyncio.to_thread(run)
    assert (here.returncode, here.stdout) == (0, "No resources found\n")
    elsewhere = await asyncio.to_thread(run, "-s", "https://127.0.0.1:1")
    assert elsewhere.returncode == 255
    assert "127.0.0.1:1 " in elsewhere.stdout
